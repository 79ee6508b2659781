"""Agent spans, calls of tools and models, and graph nodes, paired from the events that start and end them.

A start and an end belong together by their call ID. Other producers have none for agents and nodes; there an
end closes the latest open start of the same agent, node or tool. Two calls of a model with the same response
ID are one call that was recorded twice; see `model.model_calls`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import itemgetter

from longwatch.model.call_links import CALL_LINK, Links, resolve_parents
from longwatch.model.event import (
    TOOL_NAMES,
    Event,
    Order,
    duration_of,
    end_status,
    error_of,
    plain_payload,
    text_of,
    tool_status,
)
from longwatch.model.model_calls import SPAN_LAYER, ModelFacts, name_of_model
from longwatch.model.preview import input_preview, one_line, other_fields_preview, output_preview

MARK_TYPES = frozenset(
    {"tool_call", "agent_start", "agent_end", "model_call", "node_start", "node_stop", "block"}
)
ABANDONED = "abandoned"  # the status of a call without an end in a run that has ended

CallSubject = tuple[str, str]  # the kind and the subject of a call; pairs calls without an ID


@dataclass(frozen=True, slots=True)
class Mark:
    """The start or the end of a call, from one event."""

    order: Order
    kind: str  # agent, tool, model or node
    name: str
    status: str  # started, completed, failed, skipped, or the producer's own text
    agent_name: str | None = None
    parent_call_id: str | None = None
    duration_ms: float | None = None
    error: str | None = None
    model: ModelFacts | None = None  # of a call of a model
    input_preview: str | None = None
    output_preview: str | None = None

    @property
    def at(self) -> int:
        """When it happened, in epoch milliseconds."""
        return self.order[0]

    @property
    def is_start(self) -> bool:
        """Whether this is the start of the call, not its end."""
        return self.status == "started"

    @property
    def is_counted(self) -> bool:
        """Whether it is the end of a model call with the tokens that count."""
        return self.model is not None and not self.is_start and self.model.is_counted


@dataclass(frozen=True, slots=True)
class Call:
    """One agent span, call of a tool or model, or graph node: its start, its end, or both."""

    call_id: str
    start: Mark | None = None
    end: Mark | None = None

    def __post_init__(self) -> None:
        if self.start is None and self.end is None:
            raise ValueError(f"call {self.call_id!r} has neither a start nor an end")

    @classmethod
    def of(cls, call_id: str, mark: Mark) -> Call:
        """The call of a single event."""
        return cls(call_id, start=mark) if mark.is_start else cls(call_id, end=mark)

    @property
    def first(self) -> Mark:
        """The start, or the end of a call without a start."""
        first = self.start or self.end
        assert first is not None
        return first

    @property
    def kind(self) -> str:
        return self.first.kind

    @property
    def name(self) -> str:
        return self.first.name

    @property
    def agent_name(self) -> str | None:
        return self.first.agent_name or (self.end.agent_name if self.end else None)

    @property
    def parent_call_id(self) -> str | None:
        return self.first.parent_call_id or (self.end.parent_call_id if self.end else None)

    @property
    def status(self) -> str:
        return self.end.status if self.end else "started"

    def status_in(self, *, run_has_ended: bool) -> str:
        """The status of the call; without an end it is abandoned once the run has ended."""
        return ABANDONED if run_has_ended and self.end is None else self.status

    @property
    def started_at(self) -> int:
        """When it started; for a call without a start, its end minus its duration."""
        if self.start is not None:
            return self.start.at
        return max(0, self.first.at - round(self.first.duration_ms or 0))

    @property
    def duration_ms(self) -> float | None:
        """The producer's measurement, else the time between the two events."""
        if self.end is None:
            return None
        if self.end.duration_ms is not None:
            return self.end.duration_ms
        return max(0, self.end.at - self.start.at) if self.start else None

    @property
    def model(self) -> ModelFacts | None:
        """What the events state about a call of a model; None for other kinds."""
        facts = [mark.model for mark in (self.end, self.start) if mark is not None and mark.model is not None]
        return facts[0].completed(facts[-1]) if facts else None

    @property
    def input_preview(self) -> str | None:
        """The arguments that distinguish the call, on one line."""
        return self.first.input_preview or (self.end.input_preview if self.end else None)

    @property
    def output_preview(self) -> str | None:
        """The beginning of its result, on one line."""
        return self.end.output_preview if self.end else None

    @property
    def preview(self) -> str:
        """What distinguishes the call from its siblings: its arguments, and its error or its result."""
        outcome = one_line(self.end.error) if self.end and self.end.error else self.output_preview
        return " → ".join(part for part in (self.input_preview, outcome) if part)

    def merged(self, other: Call) -> Call:
        """Both parts of the same call; the earlier start counts, and the end with the usage."""
        return Call(self.call_id, _earlier(self.start, other.start), _earlier(self.end, other.end))


def _earlier(one: Mark | None, other: Mark | None) -> Mark | None:
    if one is None or other is None:
        return one or other
    return min(one, other, key=lambda mark: (not mark.is_counted, mark.order))


def mark_of(event: Event) -> tuple[CallSubject, Mark] | None:
    """The start or end in this event, and the subject to pair it by without a call ID."""
    if event.type not in MARK_TYPES:
        return None
    payload = plain_payload(event)
    agent_name = event.agent_name or text_of(payload, "agent_name")
    model: ModelFacts | None = None
    match event.type:
        case "tool_call":
            kind, name, status = "tool", text_of(payload, *TOOL_NAMES) or "tool", tool_status(payload)
            about = f"{agent_name or ''}/{name}"
        case "agent_start" | "agent_end":
            kind, name = "agent", agent_name or text_of(payload, "node_name") or "agent"
            status = end_status(payload) if event.type == "agent_end" else "started"
            about = name
        case "model_call":
            kind, name, status = "model", name_of_model(payload), tool_status(payload)
            about, model = f"{event.agent_name or ''}/{name}", ModelFacts.of(payload)
        case "node_start" | "node_stop":
            about = text_of(payload, "node_id", "node_name") or "node"
            kind, name = "node", text_of(payload, "node_name") or about
            status = "started" if event.type == "node_start" else end_status(payload)
        case "block":
            kind, name = "tool", text_of(payload, "tool_name") or "tool"
            about = text_of(payload, "tool_use_id") or name
            if payload.get("kind") == "tool_use":
                status = "started"
            elif payload.get("kind") == "tool_result":
                status = end_status(payload)
            else:
                return None
        case _:
            return None
    given = input_preview(event.type, payload)
    result = None if status == "started" else output_preview(payload)
    if given is None and result is None:
        other = other_fields_preview(event.type, payload)
        given, result = (other, None) if status == "started" else (None, other)
    mark = Mark(
        order=event.order,
        kind=kind,
        name=name,
        status=status,
        agent_name=agent_name,
        parent_call_id=event.parent_call_id,
        duration_ms=duration_of(payload),
        error=error_of(payload),
        model=model,
        input_preview=given,
        output_preview=result,
    )
    return (kind, about), mark


@dataclass(frozen=True, slots=True)
class Calls:
    """All calls of a run, from events in any order."""

    named: Mapping[str, Call]  # by call id
    unnamed: Mapping[CallSubject, tuple[Mark, ...]]  # in order
    has_models: bool = False  # some are calls of models, which may be recorded twice
    links: Links = field(default_factory=dict)
    has_outside_calls: bool = False  # of programs without a recorder: their parents have to be found

    def plus(self, events: Iterable[Event]) -> Calls:
        """These calls and those of more events."""
        named, fresh = dict(self.named), dict[CallSubject, list[Mark]]()
        has_models = self.has_models
        links, has_outside_calls = dict(self.links), self.has_outside_calls
        for event in events:
            found = mark_of(event)
            if found is None:
                if event.type == CALL_LINK and event.call_id is not None:
                    link = event.order, event.parent_call_id
                    links[event.call_id] = min(link, links.get(event.call_id, link), key=itemgetter(0))
                continue
            subject, mark = found
            has_models = has_models or mark.model is not None
            if event.producer is None and event.parent_call_id is not None:
                has_outside_calls = True
            if event.call_id is None:
                fresh.setdefault(subject, []).append(mark)
                continue
            call, other = Call.of(event.call_id, mark), named.get(event.call_id)
            named[event.call_id] = other.merged(call) if other else call
        unnamed = dict(self.unnamed)
        for subject, marks in fresh.items():
            together = [*unnamed.get(subject, ()), *marks]
            unnamed[subject] = tuple(sorted(together, key=lambda mark: mark.order))
        return Calls(named, unnamed, has_models, links, has_outside_calls)

    def by_id(self) -> Mapping[str, Call]:
        """Every call by its ID, or by its first event without one."""
        calls = self.named
        if self.unnamed:
            paired = (call for marks in self.unnamed.values() for call in _pair(marks))
            calls = {**{call.call_id: call for call in paired}, **self.named}
        if self.has_outside_calls:
            calls = resolve_parents(calls, self.links)
        return _join_repeated(calls) if self.has_models else calls

    def only(self, is_wanted: Callable[[Order], bool]) -> Calls:
        """The calls whose first event is accepted, and the accepted unnamed starts and ends."""
        named = {call_id: call for call_id, call in self.named.items() if is_wanted(call.first.order)}
        unnamed = {
            subject: accepted
            for subject, marks in self.unnamed.items()
            if (accepted := tuple(mark for mark in marks if is_wanted(mark.order)))
        }
        return Calls(named, unnamed, self.has_models, self.links, self.has_outside_calls)

    @property
    def last_order(self) -> Order | None:
        """The order of the last start or end; None without any."""
        named = (mark for call in self.named.values() for mark in (call.start, call.end) if mark)
        unnamed = (marks[-1] for marks in self.unnamed.values())
        return max((mark.order for mark in (*named, *unnamed)), default=None)


NO_CALLS = Calls({}, {})


def _pair(marks: Iterable[Mark]) -> Iterator[Call]:
    open_starts: list[Mark] = []
    for mark in marks:
        if mark.is_start:
            open_starts.append(mark)
        else:
            start = open_starts.pop() if open_starts else None
            yield Call(_id_from(start or mark), start, mark)
    for start in open_starts:
        yield Call(_id_from(start), start)


def _id_from(mark: Mark) -> str:
    return f"{mark.kind}:{mark.order[3]}"


def _join_repeated(calls: Mapping[str, Call]) -> Mapping[str, Call]:
    """The calls, with those of one model response as one: the outermost layer's, completed by the others'."""
    groups: dict[str, list[Call]] = {}
    for call in calls.values():
        key = call.end.model.response_key(call.call_id) if call.end and call.end.model else None
        if key is not None:
            groups.setdefault(key, []).append(call)
    leaders: dict[str, str] = {}  # a call that is recorded twice -> the one that stays
    joined: dict[str, Call] = {}
    for group in groups.values():
        for records in _records_by_call(group):
            if len(records) == 1:
                continue
            first, *others = sorted(records, key=_precedence)
            leaders |= {other.call_id: first.call_id for other in others}
            joined[first.call_id] = _completed(first, others)
    if not leaders:
        return calls
    return {
        call_id: _reparented(joined.get(call_id, call), calls, leaders)
        for call_id, call in calls.items()
        if call_id not in leaders
    }


def _records_by_call(group: Sequence[Call]) -> Iterable[Sequence[Call]]:
    """The records of one response ID by call: all are of one call, unless the ID is in use for several."""
    if len(group) == 1 or not _reuses_response_id(group):
        return [group]
    found: dict[str, list[Call]] = {}
    for call in group:
        facts = call.end.model if call.end else None
        found.setdefault((facts.same_as if facts else None) or call.call_id, []).append(call)
    return found.values()


def _reuses_response_id(group: Iterable[Call]) -> bool:
    """Whether several calls have this response ID: some local servers have only a few.

    An adapter or client records each call once, and the spans of one call overlap.
    """
    layers: list[str] = []
    spans: list[tuple[int, int]] = []
    for call in group:
        facts = call.end.model if call.end else None
        if call.end is None or facts is None or facts.same_as not in (None, call.call_id):
            continue
        if facts.layer == SPAN_LAYER:
            spans.append((call.started_at, call.end.at))
        elif facts.recorded_by:
            layers.append(facts.recorded_by)
    are_apart = bool(spans) and max(start for start, _ in spans) > min(end for _, end in spans)
    return are_apart or len(layers) > len(set(layers))


def _precedence(call: Call) -> tuple[int, int, Order]:
    layer = call.end.model.layer if call.end and call.end.model else 0
    return layer, call.started_at, call.first.order


def _completed(call: Call, others: Iterable[Call]) -> Call:
    """The call, with what only the other records of it state, and with the usage that the totals have."""
    end = call.end
    if end is None or end.model is None:
        return call
    records = [end.model, *(other.model for other in others if other.model is not None)]
    records.sort(key=lambda facts: not facts.is_counted)
    facts = reduce(ModelFacts.completed, records)
    return replace(call, end=replace(end, model=replace(facts, recorded_by=end.model.recorded_by)))


def _reparented(call: Call, calls: Mapping[str, Call], leaders: Mapping[str, str]) -> Call:
    """The call, below the record that stays if its parent was recorded twice."""
    parent = call.parent_call_id
    seen: set[str] = set()
    while parent is not None and parent in leaders and parent not in seen:
        seen.add(parent)
        leader = leaders[parent]
        parent = leader if leader != call.call_id else calls[parent].parent_call_id
    if parent == call.parent_call_id:
        return call
    start, end = (
        None if mark is None else replace(mark, parent_call_id=parent) for mark in (call.start, call.end)
    )
    return Call(call.call_id, start, end)

"""Agent spans, tool calls and graph nodes, paired from the events that start and end them.

A start and an end belong together by their call ID. Other producers have none for agents and nodes; there an
end closes the latest open start of the same agent, node or tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from longwatch.model.event import (
    AgentSpan,
    Event,
    Order,
    ToolCall,
    duration_of,
    end_status,
    error_of,
    text_of,
)

ABANDONED = "abandoned"  # the status of a call without an end in a run that has ended

CallSubject = tuple[str, str]  # the kind and the subject of a call; pairs calls without an ID


@dataclass(frozen=True, slots=True)
class Mark:
    """The start or the end of a call, from one event."""

    order: Order
    kind: str  # agent, tool or node
    name: str
    status: str  # started, completed, failed, skipped, or the producer's own text
    agent_name: str | None = None
    parent_call_id: str | None = None
    duration_ms: float | None = None
    error: str | None = None

    @property
    def at(self) -> int:
        """When it happened, in epoch milliseconds."""
        return self.order[0]

    @property
    def is_start(self) -> bool:
        """Whether this is the start of the call, not its end."""
        return self.status == "started"


@dataclass(frozen=True, slots=True)
class Call:
    """One agent span, tool call or graph node: its start, its end, or both."""

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

    def merged(self, other: Call) -> Call:
        """Both parts of the same call; of two starts or two ends the earlier counts."""
        return Call(self.call_id, _earlier(self.start, other.start), _earlier(self.end, other.end))


def _earlier(one: Mark | None, other: Mark | None) -> Mark | None:
    if one is None or other is None:
        return one or other
    return one if one.order <= other.order else other


def mark_of(event: Event) -> tuple[CallSubject, Mark] | None:
    """The start or end in this event, and the subject to pair it by without a call ID."""
    payload = event.payload
    match event.type:
        case "tool_call":
            tool = ToolCall.of(event)
            kind, name, status = "tool", tool.operation, tool.status
            about = f"{tool.agent_name or ''}/{name}"
        case "agent_start" | "agent_end":
            span = AgentSpan.of(event)
            kind, name, status = "agent", span.agent_name, span.status
            about = name
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
    mark = Mark(
        order=event.order,
        kind=kind,
        name=name,
        status=status,
        agent_name=event.agent_name or text_of(payload, "agent_name"),
        parent_call_id=event.parent_call_id,
        duration_ms=duration_of(payload),
        error=error_of(payload),
    )
    return (kind, about), mark


@dataclass(frozen=True, slots=True)
class Calls:
    """All calls of a run, from events in any order."""

    named: Mapping[str, Call]  # by call id
    unnamed: Mapping[CallSubject, tuple[Mark, ...]]  # in order

    def plus(self, events: Iterable[Event]) -> Calls:
        """These calls and those of more events."""
        named, fresh = dict(self.named), dict[CallSubject, list[Mark]]()
        for event in events:
            found = mark_of(event)
            if found is None:
                continue
            subject, mark = found
            if event.call_id is None:
                fresh.setdefault(subject, []).append(mark)
                continue
            call, other = Call.of(event.call_id, mark), named.get(event.call_id)
            named[event.call_id] = other.merged(call) if other else call
        unnamed = dict(self.unnamed)
        for subject, marks in fresh.items():
            together = [*unnamed.get(subject, ()), *marks]
            unnamed[subject] = tuple(sorted(together, key=lambda mark: mark.order))
        return Calls(named, unnamed)

    def by_id(self) -> Mapping[str, Call]:
        """Every call by its ID, or by its first event without one."""
        if not self.unnamed:
            return self.named
        paired = (call for marks in self.unnamed.values() for call in _pair(marks))
        return {**{call.call_id: call for call in paired}, **self.named}

    def only(self, is_wanted: Callable[[Order], bool]) -> Calls:
        """The calls whose first event is accepted, and the accepted unnamed starts and ends."""
        named = {call_id: call for call_id, call in self.named.items() if is_wanted(call.first.order)}
        unnamed = {
            subject: accepted
            for subject, marks in self.unnamed.items()
            if (accepted := tuple(mark for mark in marks if is_wanted(mark.order)))
        }
        return Calls(named, unnamed)

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

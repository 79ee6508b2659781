"""A run is the fold of its events. Everything here is pure, and any order of arrival gives the same run.

Two terminal events have a rule: a producer's own word beats one that was written for it; among those of
equal authority success beats partial, partial beats failed, failed beats cancelled, and any of them beats
unknown (an agent can finish while its invoker fails); among equals the earliest counts, so that ending a run
twice gives one end time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from longwatch.events import Event, Order, ToolCall, call_status, number_of, text_of
from longwatch.numbering import Numbers


class Status(StrEnum):
    """How a run stands, in the one vocabulary used inside longwatch."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PARTIAL = "partial"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


STARTS: Mapping[str, str] = {  # event type -> kind of run that it starts
    "workflow_start": "workflow",
    "SESSION_INITIATED": "session",
}

ENDS: Mapping[str, Status] = {  # event type -> how the run ended, unless the event itself says more
    "workflow_complete": Status.SUCCEEDED,
    "workflow_error": Status.FAILED,
    "AGENT_BACKGROUND_TASK_COMPLETED": Status.SUCCEEDED,
    "AGENT_BACKGROUND_TASK_FAILED": Status.FAILED,
    "AGENT_ENTRYPOINT_FAILED": Status.FAILED,
    "SESSION_SUCCEEDED": Status.SUCCEEDED,
    "SESSION_FAILED": Status.FAILED,
    "SESSION_UNCONFIRMED": Status.UNKNOWN,
}

STATUS_WORDS: Mapping[str, Status] = {  # words of other producers, translated at the door
    "completed": Status.SUCCEEDED,
    "complete": Status.SUCCEEDED,
    "success": Status.SUCCEEDED,
    "succeeded": Status.SUCCEEDED,
    "partial": Status.PARTIAL,
    "failed": Status.FAILED,
    "failure": Status.FAILED,
    "error": Status.FAILED,
    "interrupted": Status.CANCELLED,
    "cancelled": Status.CANCELLED,
    "canceled": Status.CANCELLED,
    "unknown": Status.UNKNOWN,
}

_PRECEDENCE = {
    Status.SUCCEEDED: 4,
    Status.PARTIAL: 3,
    Status.FAILED: 2,
    Status.CANCELLED: 1,
    Status.UNKNOWN: 0,
}

SILENT_AFTER_MS = 60_000

_SESSION_PREFIXES = ("SESSION_", "AGENT_", "TASK_")


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended, and which event says so."""

    status: Status
    order: Order
    own_word: bool = True  # False: written for a producer that did not say it itself
    error: str | None = None

    @property
    def at(self) -> int:
        """When the run ended, in epoch milliseconds."""
        return self.order[0]

    @classmethod
    def of(cls, event: Event) -> Ending | None:
        """The ending that this event states, if it is a terminal one."""
        status = ENDS.get(event.type)
        if status is None:
            return None
        word = text_of(event.payload, "status")
        if word is not None:
            status = STATUS_WORDS.get(word.lower(), status)
        return cls(
            status=status,
            order=event.order,
            own_word=not event.payload.get("written_for"),
            error=text_of(event.payload, "error_message", "error"),
        )

    def beats(self, other: Ending | None) -> bool:
        """Whether this ending counts rather than the other."""
        if other is None:
            return True
        mine = (self.own_word, _PRECEDENCE[self.status])
        theirs = (other.own_word, _PRECEDENCE[other.status])
        return mine > theirs if mine != theirs else self.order < other.order


@dataclass(frozen=True, slots=True)
class Origin:
    """The event that says what kind of run this is and what it is called."""

    inferred: bool  # True: no start event seen yet, guessed from another one
    order: Order
    kind: str
    name: str | None = None
    parent_run_id: str | None = None

    @classmethod
    def of(cls, event: Event) -> Origin:
        """What this event tells about where the run comes from."""
        kind = STARTS.get(event.type)
        if kind is None:
            guess = "session" if event.type.startswith(_SESSION_PREFIXES) else "workflow"
            return cls(True, event.order, guess)
        said = event.payload
        return cls(
            inferred=False,
            order=event.order,
            kind=text_of(said, "kind") or kind,
            name=text_of(said, "name", "workflow_name"),
            parent_run_id=text_of(said, "parent_run_id"),
        )


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run as one line of a list. Two summaries of parts of a run merge into one of the whole."""

    run_id: str
    origin: Origin
    started_at: int
    last_order: Order
    last_event_type: str
    events: int
    agents: frozenset[str] = frozenset()
    failed_calls: int = 0
    ending: Ending | None = None
    expired_before: int | None = None  # events that occurred before this time have been deleted

    @property
    def kind(self) -> str:
        return self.origin.kind

    @property
    def name(self) -> str | None:
        return self.origin.name

    @property
    def parent_run_id(self) -> str | None:
        return self.origin.parent_run_id

    @property
    def status(self) -> Status:
        return self.ending.status if self.ending else Status.RUNNING

    @property
    def ended_at(self) -> int | None:
        return self.ending.at if self.ending else None

    @property
    def error(self) -> str | None:
        return self.ending.error if self.ending else None

    @property
    def last_event_at(self) -> int:
        return self.last_order[0]

    def duration_ms(self, now_ms: int) -> int:
        """From the first event to the end, or to now while the run is open."""
        return max(0, (self.ended_at if self.ended_at is not None else now_ms) - self.started_at)

    def merged(self, other: RunSummary) -> RunSummary:
        """The summary of both parts together. Commutative and associative."""
        mine, theirs = self.origin, other.origin
        last = self if self.last_order >= other.last_order else other
        ending = self.ending
        if other.ending is not None and other.ending.beats(ending):
            ending = other.ending
        expired = [each for each in (self.expired_before, other.expired_before) if each is not None]
        return RunSummary(
            run_id=self.run_id,
            origin=min(mine, theirs, key=lambda origin: (origin.inferred, origin.order)),
            started_at=min(self.started_at, other.started_at),
            last_order=last.last_order,
            last_event_type=last.last_event_type,
            events=self.events + other.events,
            agents=self.agents if self.agents >= other.agents else self.agents | other.agents,
            failed_calls=self.failed_calls + other.failed_calls,
            ending=ending,
            expired_before=max(expired) if expired else None,
        )


def summarise(events: Iterable[Event]) -> dict[str, RunSummary]:
    """One summary for each run among these events."""
    summaries: dict[str, RunSummary] = {}
    for run_id, group in _by_run(events).items():
        origin: Origin | None = None
        ending: Ending | None = None
        agents: set[str] = set()
        failed = 0
        first, last = group[0].occurred_at, group[0]
        for event in group:
            if event.occurred_at < first:
                first = event.occurred_at
            if event.order > last.order:
                last = event
            if event.agent_name is not None:
                agents.add(event.agent_name)
            if event.type == "tool_call":
                failed += call_status(str(event.payload.get("status", ""))) == "failed"
            elif event.type in ENDS:
                candidate = Ending.of(event)
                if candidate is not None and candidate.beats(ending):
                    ending = candidate
            if event.type in STARTS or origin is None:
                told = Origin.of(event)
                if origin is None or (told.inferred, told.order) < (origin.inferred, origin.order):
                    origin = told
            elif origin.inferred and event.order < origin.order:
                origin = Origin.of(event)
        if origin is not None:
            summaries[run_id] = RunSummary(
                run_id=run_id,
                origin=origin,
                started_at=first,
                last_order=last.order,
                last_event_type=last.type,
                events=len(group),
                agents=frozenset(agents),
                failed_calls=failed,
                ending=ending,
            )
    return summaries


def _by_run(events: Iterable[Event]) -> dict[str, list[Event]]:
    groups: dict[str, list[Event]] = {}
    for event in events:
        group = groups.get(event.run_id)
        if group is None:
            groups[event.run_id] = [event]
        else:
            group.append(event)
    return groups


@dataclass(frozen=True, slots=True)
class Mark:
    """The start or the end of a call, as one event told it."""

    order: Order
    status: str  # started, completed, failed, skipped
    duration_ms: float | None = None
    error: str | None = None

    @property
    def at(self) -> int:
        return self.order[0]


@dataclass(frozen=True, slots=True)
class Call:
    """One agent span, tool call or graph node: its start and its end, paired by call id."""

    call_id: str
    kind: str  # agent, tool or node
    name: str
    agent_name: str | None = None
    parent_call_id: str | None = None
    start: Mark | None = None
    end: Mark | None = None

    @property
    def status(self) -> str:
        return self.end.status if self.end else "started"

    @property
    def started_at(self) -> int:
        """When it began; for a call whose start was never told, when it ended less its duration."""
        if self.start is not None:
            return self.start.at
        assert self.end is not None
        return self.end.at - round(self.end.duration_ms or 0)

    @property
    def duration_ms(self) -> float | None:
        """What the producer measured, else the time between the two events."""
        if self.end is None:
            return None
        if self.end.duration_ms is not None:
            return self.end.duration_ms
        return self.end.at - self.start.at if self.start else None

    def merged(self, other: Call) -> Call:
        """What both tell of the same call."""
        first = self if self._first <= other._first else other
        second = other if first is self else self
        return Call(
            call_id=first.call_id,
            kind=first.kind,
            name=first.name,
            agent_name=first.agent_name or second.agent_name,
            parent_call_id=first.parent_call_id or second.parent_call_id,
            start=_earlier(self.start, other.start),
            end=_earlier(self.end, other.end),
        )

    @property
    def _first(self) -> tuple[bool, Order]:
        mark = self.start or self.end
        assert mark is not None
        return (self.start is None, mark.order)


def _earlier(one: Mark | None, other: Mark | None) -> Mark | None:
    if one is None or other is None:
        return one or other
    return one if one.order <= other.order else other


def call_of(event: Event) -> Call | None:
    """The call this event starts or ends, if it does."""
    said = event.payload
    error = text_of(said, "error_message", "error")
    duration = number_of(said, "duration_ms", "execution_time_ms")
    match event.type:
        case "tool_call":
            tool = ToolCall.of(event)
            kind, name, status = "tool", tool.operation, tool.status
            fallback = f"tool:{event.event_id}"
        case "agent_start" | "agent_end":
            name = event.agent_name or text_of(said, "agent_name") or "agent"
            kind, fallback = "agent", f"agent:{name}"
            word = text_of(said, "status") or ("failed" if error else "completed")
            status = "started" if event.type == "agent_start" else call_status(word)
        case "node_start" | "node_stop":
            node = text_of(said, "node_id", "node_name") or "node"
            kind, name, fallback = "node", text_of(said, "node_name") or node, f"node:{node}"
            word = text_of(said, "status") or ("failed" if error else "completed")
            status = "started" if event.type == "node_start" else call_status(word)
        case _:
            return None
    mark = Mark(event.order, status, duration, error)
    begins = status == "started"
    return Call(
        call_id=event.call_id or fallback,
        kind=kind,
        name=name,
        agent_name=event.agent_name or text_of(said, "agent_name"),
        parent_call_id=event.parent_call_id,
        start=mark if begins else None,
        end=None if begins else mark,
    )


@dataclass(frozen=True, slots=True)
class ProducerTally:
    """Which of one producer's events were seen, and how many it says there are."""

    seen: Numbers = Numbers()
    count: int | None = None  # stated by the producer when it closed

    def missing(self) -> tuple[tuple[int, int], ...]:
        """The ranges of numbers that should be there and are not."""
        return tuple(self.seen.gaps(up_to=self.count))

    def merged(self, other: ProducerTally) -> ProducerTally:
        counts = [each for each in (self.count, other.count) if each is not None]
        return ProducerTally(self.seen | other.seen, max(counts) if counts else None)


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that the events of a run say together."""

    summary: RunSummary
    calls: Mapping[str, Call] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)  # event type -> how many
    producers: Mapping[str, ProducerTally] = field(default_factory=dict)

    @property
    def run_id(self) -> str:
        return self.summary.run_id

    @property
    def status(self) -> Status:
        return self.summary.status

    @property
    def tool_calls(self) -> list[Call]:
        return [call for call in self.ordered_calls() if call.kind == "tool"]

    @property
    def agent_spans(self) -> list[Call]:
        return [call for call in self.ordered_calls() if call.kind == "agent"]

    def ordered_calls(self) -> list[Call]:
        """All calls, in the order they began."""
        return sorted(self.calls.values(), key=lambda call: (call.started_at, call.call_id))


def fold(events: Iterable[Event], onto: Run | None = None) -> Run | None:
    """Add events of one run to what is known of it. Nothing at all folds to None."""
    group = list(events)
    if not group:
        return onto
    run_ids = {event.run_id for event in group} | ({onto.run_id} if onto else set())
    if len(run_ids) > 1:
        raise ValueError(f"events of several runs cannot be folded into one: {sorted(run_ids)}")
    summary = summarise(group)[group[0].run_id]
    calls = dict(onto.calls) if onto else {}
    counts = dict(onto.counts) if onto else {}
    producers = dict(onto.producers) if onto else {}
    for event in group:
        counts[event.type] = counts.get(event.type, 0) + 1
        call = call_of(event)
        if call is not None:
            known = calls.get(call.call_id)
            calls[call.call_id] = known.merged(call) if known else call
        if event.producer is not None and event.number is not None:
            tally = producers.get(event.producer, ProducerTally())
            stated = number_of(event.payload, "count") if event.type == "producer_closed" else None
            tally = replace(tally, seen=tally.seen.with_number(event.number))
            if stated is not None:
                tally = replace(tally, count=max(tally.count or 0, int(stated)))
            producers[event.producer] = tally
    return Run(
        summary=onto.summary.merged(summary) if onto else summary,
        calls=calls,
        counts=counts,
        producers=producers,
    )


@dataclass(frozen=True, slots=True)
class Condition:
    """Something worth saying about a run that is no part of its history."""

    name: str  # silent or missing
    message: str


def conditions(run: Run, now_ms: int, *, silent_after_ms: int = SILENT_AFTER_MS) -> list[Condition]:
    """What is true of the run at this moment and would not be at another: computed, never stored."""
    found: list[Condition] = []
    quiet_ms = now_ms - run.summary.last_event_at
    if run.summary.ending is None and quiet_ms > silent_after_ms:
        found.append(Condition("silent", f"no event for {quiet_ms // 1000} s; the run is still open"))
    for producer, tally in sorted(run.producers.items()):
        for low, high in tally.missing():
            span = f"{low}" if low == high else f"{low}–{high}"
            found.append(Condition("missing", f"missing {span} of producer {producer}"))
    return found

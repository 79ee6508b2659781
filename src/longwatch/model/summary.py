"""The summary of a run, from its events alone; summaries of two parts of a run merge into one.

The status of a run is that of its last attempt: see `model.attempts`, and `model.endings` for the choice
between two endings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from longwatch.model.attempts import FACT_TYPES, NO_FACTS, Attempt, Lifecycle, lifecycle_of
from longwatch.model.endings import (
    ENDS,
    MAYBE_OBSERVER_TYPES,
    SESSION_PREFIXES,
    STARTS,
    STATUS_WORDS,
    Ending,
    Status,
    is_activity,
)
from longwatch.model.event import TOOL_NAMES, Event, Order, run_duration_ms, text_of, tool_status
from longwatch.model.failures import SPAN_ENDS, FailedCalls, failed_calls_of, merge_failed_calls
from longwatch.model.labels import NO_LABELS, TAGGED, RunLabels, labels_of, limit_names
from longwatch.model.totals import NO_TOTALS, TOTAL_TYPES, RunTotals, totals_of
from longwatch.model.waiting import Wait, Waits, merge_waits, open_waits, waits_of

__all__ = [
    "ENDS",
    "STARTS",
    "STATUS_WORDS",
    "Attempt",
    "Ending",
    "Lifecycle",
    "Origin",
    "RunSummary",
    "Status",
    "summarise",
]

_KINDS = {  # types that only occur in runs of one kind -> that kind
    "conversation_added": "project",
    "turn_added": "conversation",
    "turn_numbered": "conversation",
    "turn_started": "turn",
    "turn_line": "turn",
    "turn_result": "turn",
    "turn_end_claimed": "turn",
    "block": "turn",
    "turn_completed": "turn",
    "turn_failed": "turn",
    "turn_cancelled": "turn",
    "turn_corrected": "turn",
    "job_transition": "execution",
    "server_transition": "execution",
    "action_transition": "execution",
    "execution_asked": "execution",
    "execution_ended": "execution",
    "execution_corrected": "execution",
    "execution_closed": "execution",
    "watch_stopped": "execution",
    "wave_added": "execution",
    "wave_count_set": "execution",
}


MAX_ACTIVE = 8  # producers whose last activity is in a summary
MAX_TOOLS = 30  # whose names are in a summary
LABEL_TYPES = STARTS.keys() | {TAGGED}

Activity = tuple[tuple[int, str], ...]  # when a producer was last active, and which; the latest first


@dataclass(frozen=True, slots=True)
class Origin:
    """The kind and the name of a run, and the event that states them."""

    inferred: bool  # True: no start event yet, derived from another event
    order: Order
    kind: str
    name: str | None = None
    parent_run_id: str | None = None

    @classmethod
    def of(cls, event: Event) -> Origin:
        """The origin that this event states or implies."""
        kind = STARTS.get(event.type)
        if kind is None:
            return cls(True, event.order, _infer_kind(event.type))
        payload = event.payload
        return cls(
            inferred=False,
            order=event.order,
            kind=text_of(payload, "kind") or kind,
            name=text_of(payload, "name", "workflow_name"),
            parent_run_id=text_of(payload, "parent_run_id"),
        )

    def beats(self, other: Origin) -> bool:
        """Whether this origin counts instead of the other: a start beats an inferred one; else the first."""
        return (self.inferred, self.order) < (other.inferred, other.order)


def _infer_kind(type_: str) -> str:
    return "session" if type_.startswith(SESSION_PREFIXES) else _KINDS.get(type_, "workflow")


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a list shows of a run. Summaries of two parts of a run merge into one."""

    run_id: str
    origin: Origin
    started_at: int
    last_order: Order  # of the last sign of activity
    last_event_type: str
    events: int
    agents: frozenset[str] = frozenset()
    failed_calls: int = 0  # events of failed tool calls
    lifecycle: Lifecycle = NO_FACTS
    expired_before: int | None = None  # events that occurred before this time have been deleted
    is_active: bool = True  # False: all events are from observers, also that of `last_order`
    activity: Activity = ()
    totals: RunTotals = field(default=NO_TOTALS, hash=False)  # of all attempts
    waits: Waits = ()  # those that are open and the latest
    labels: RunLabels = NO_LABELS
    tools: frozenset[str] = frozenset()  # names of called tools
    last_failed_calls: FailedCalls = ()

    @property
    def kind(self) -> str:
        return self.origin.kind

    @property
    def name(self) -> str | None:
        return self.origin.name

    @property
    def tags(self) -> frozenset[str]:
        return self.labels.tags

    @property
    def parent_run_id(self) -> str | None:
        return self.origin.parent_run_id

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Every attempt at the run, the earliest first."""
        return self.lifecycle.attempts

    @property
    def ending(self) -> Ending | None:
        """The ending of the last attempt."""
        ending = self.lifecycle.current.ending
        return ending if ending is None or ending.status is not Status.DIED else self._narrow(ending)

    def _narrow(self, death: Ending) -> Ending:
        """The death with an interval that starts no earlier than the last activity."""
        not_before = self.last_event_at if self.is_active else 0
        if death.not_before is not None:
            not_before = max(not_before, death.not_before)
        not_after = None if death.not_after is None else max(death.not_after, not_before)
        return replace(death, not_before=not_before, not_after=not_after)

    @property
    def status(self) -> Status:
        return self.lifecycle.current.status

    @property
    def ended_at(self) -> int | None:
        """When the run ended; None while it is open, or if only an interval is known."""
        ending = self.ending
        return None if ending is None else ending.at

    @property
    def ended_between(self) -> tuple[int, int | None] | None:
        """The interval in which a run died: not before, not after."""
        ending = self.ending
        if ending is None or ending.not_before is None:
            return None
        return ending.not_before, ending.not_after

    @property
    def error(self) -> str | None:
        ending = self.ending
        return ending.error if ending else None

    @property
    def warning_count(self) -> int:
        """The number of warnings in the ending of the last attempt."""
        ending = self.ending
        return ending.warnings if ending else 0

    @property
    def last_event_at(self) -> int:
        """The time of the last activity, which excludes events of observers."""
        return self.last_order[0]

    @property
    def attempt_started_at(self) -> int:
        """When the last attempt started."""
        attempts = self.attempts
        start = attempts[-1].start
        return self.started_at if len(attempts) == 1 or start is None else start[0]

    @property
    def attempt_active_at(self) -> int:
        """When the last attempt was last active. Processes of an earlier one may still be at work."""
        attempts = self.attempts
        if len(attempts) == 1 or not self.activity:
            return self.last_event_at
        named = self.lifecycle.named_attempts()
        current = (None, attempts[-1].id, attempts[-1].also)
        own = [at for at, producer in self.activity if named.get(producer) in current]
        return max([self.attempt_started_at, *own])

    @property
    def waiting(self) -> tuple[Wait, ...]:
        """The waits of the last attempt that are open, the longest first.

        A run that has ended waits for nothing, and neither does a producer that has closed.
        """
        if not self.waits or self.ending is not None:
            return ()
        closed = {producer for _, producer in self.lifecycle.closed}
        began = self.attempt_started_at if len(self.attempts) > 1 else 0
        return open_waits(self.waits, closed=closed, began=began)

    def without_waits_of(self, producers: frozenset[str]) -> RunSummary:
        """The run, if the processes of these producers are gone: nothing waits there any more."""
        left = tuple(wait for wait in self.waits if wait.producer not in producers)
        return self if len(left) == len(self.waits) else replace(self, waits=left)

    def duration_ms(self, now_ms: int) -> int | None:
        """How long the last attempt took, or takes so far; None if only an interval is known."""
        ending = self.ending
        end = now_ms if ending is None else ending.at
        return None if end is None else run_duration_ms(self.attempt_started_at, end)

    @property
    def duration_between(self) -> tuple[int, int | None] | None:
        """How long the last attempt of a run took that died: at least, at most."""
        between = self.ended_between
        if between is None:
            return None
        start = self.attempt_started_at
        least, most = (None if edge is None else run_duration_ms(start, edge) for edge in between)
        return least or 0, most

    def longest_duration_ms(self, now_ms: int) -> int:
        """The duration to sort by: for a run that died the longest possible one that is known."""
        between = self.duration_between
        if between is not None:
            return between[0] if between[1] is None else between[1]
        return self.duration_ms(now_ms) or 0

    def merged(self, other: RunSummary) -> RunSummary:
        """The summary of both parts together. Commutative and associative."""
        last = self if self._recency >= other._recency else other
        expired = [edge for edge in (self.expired_before, other.expired_before) if edge is not None]
        return RunSummary(
            run_id=self.run_id,
            origin=other.origin if other.origin.beats(self.origin) else self.origin,
            started_at=min(self.started_at, other.started_at),
            last_order=last.last_order,
            last_event_type=last.last_event_type,
            events=self.events + other.events,
            agents=self.agents if self.agents >= other.agents else self.agents | other.agents,
            failed_calls=self.failed_calls + other.failed_calls,
            lifecycle=self.lifecycle.merged(other.lifecycle),
            expired_before=max(expired) if expired else None,
            is_active=last.is_active,
            activity=_latest([*self.activity, *other.activity]),
            totals=self.totals.plus(other.totals),
            waits=merge_waits(self.waits, other.waits),
            labels=self.labels.merged(other.labels),
            tools=self.tools
            if self.tools >= other.tools
            else limit_names(self.tools | other.tools, MAX_TOOLS),
            last_failed_calls=merge_failed_calls(self.last_failed_calls, other.last_failed_calls),
        )

    @property
    def _recency(self) -> tuple[bool, Order]:
        return self.is_active, self.last_order


def summarise(events: Iterable[Event]) -> dict[str, RunSummary]:
    """One summary for each run among these events."""
    groups: dict[str, list[Event]] = {}
    for event in events:
        groups.setdefault(event.run_id, []).append(event)
    return {run_id: _summary(run_id, group) for run_id, group in groups.items()}


def _summary(run_id: str, events: list[Event]) -> RunSummary:
    # The recorder's writer thread runs this for every event it commits, so an event that neither starts nor
    # ends the run costs a few comparisons only.
    first = events[0]
    first_order = first.order
    last, is_active, last_order = first, is_activity(first), first_order
    facts: list[Event] = []
    stated: list[Event] = []  # by starts and tags
    agents: set[str] = set()
    tools: set[str] = set()
    activity: dict[str, int] = {}
    counted: list[Event] = []
    ends: list[Event] = []  # of calls that may have failed
    failed = 0
    for event in events:
        order = event.order
        if order[0] > activity.get(order[1], -1) and (
            event.type not in MAYBE_OBSERVER_TYPES or is_activity(event)
        ):
            activity[order[1]] = order[0]
        if order > last_order or not is_active:
            active = event.type not in MAYBE_OBSERVER_TYPES or is_activity(event)
            if active > is_active or (active is is_active and order > last_order):
                last, is_active, last_order = event, active, order
        if order < first_order:
            first, first_order = event, order
        if event.agent_name is not None:
            agents.add(event.agent_name)
        if event.type == "tool_call":
            if (tool := text_of(event.payload, *TOOL_NAMES)) is not None:
                tools.add(tool)
            if tool_status(event.payload) == "failed":
                failed += 1
                ends.append(event)
        elif event.type in FACT_TYPES:
            facts.append(event)
        elif event.type in TOTAL_TYPES:
            counted.append(event)
        elif event.type in SPAN_ENDS:
            ends.append(event)
        if event.type in LABEL_TYPES:
            stated.append(event)
    starts = [event for event in stated if event.type in STARTS]
    return RunSummary(
        run_id=run_id,
        origin=Origin.of(min(starts, key=lambda start: start.order) if starts else first),
        started_at=first.occurred_at,
        last_order=last_order,
        last_event_type=last.type,
        events=len(events),
        agents=frozenset(agents),
        failed_calls=failed,
        lifecycle=lifecycle_of(facts) if facts else NO_FACTS,
        is_active=is_active,
        activity=_latest((at, producer) for producer, at in activity.items()),
        totals=totals_of(counted) if counted else NO_TOTALS,
        waits=waits_of(counted) if counted else (),
        labels=labels_of(stated) if stated else NO_LABELS,
        tools=limit_names(frozenset(tools), MAX_TOOLS),
        last_failed_calls=failed_calls_of((*ends, *counted)) if ends or counted else (),
    )


def _latest(active: Iterable[tuple[int, str]]) -> Activity:
    """The last activity of each producer, of those that were active last."""
    last = {producer: at for at, producer in sorted(active)}
    return tuple(sorted(((at, producer) for producer, at in last.items()), reverse=True)[:MAX_ACTIVE])

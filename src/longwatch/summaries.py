"""A run as one line of a list, from its events alone; two summaries of parts of a run merge into one.

Two terminal events have a rule: a producer's own word beats one that was written for it; among those of
equal authority success beats partial, partial beats failed, failed beats cancelled, and any of them beats
unknown (an agent can finish while its invoker fails); among equals the earliest counts, so that ending a run
twice gives one end time. A correction is later truth: it beats all of these, and the latest one counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from longwatch.events import Event, Order, error_of, text_of, tool_status


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
    "project_added": "project",
    "project_created": "project",
    "conversation_created": "conversation",
    "turn_created": "turn",
    "execution_started": "execution",
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
    "turn_completed": Status.SUCCEEDED,
    "turn_failed": Status.FAILED,
    "turn_cancelled": Status.CANCELLED,
    "execution_ended": Status.UNKNOWN,
    "execution_corrected": Status.UNKNOWN,
}

CORRECTIONS = frozenset({"execution_corrected"})  # terminal events that say what an earlier one had wrong

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

_SESSION_PREFIXES = ("SESSION_", "AGENT_", "TASK_")
_KINDS = {  # types that only occur in runs of one kind -> that kind
    "conversation_added": "project",
    "turn_added": "conversation",
    "turn_started": "turn",
    "turn_line": "turn",
    "block": "turn",
    "turn_completed": "turn",
    "turn_failed": "turn",
    "turn_cancelled": "turn",
    "job_transition": "execution",
    "server_transition": "execution",
    "action_transition": "execution",
    "execution_asked": "execution",
    "execution_ended": "execution",
    "execution_corrected": "execution",
}


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended, and which event says so."""

    status: Status
    order: Order
    own_word: bool = True  # False: written for a producer that did not say it itself
    error: str | None = None
    correction: bool = False  # True: later truth, whatever was said before

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
            error=error_of(event.payload),
            correction=event.type in CORRECTIONS,
        )

    def beats(self, other: Ending | None) -> bool:
        """Whether this ending counts rather than the other."""
        if other is None:
            return True
        if self.correction or other.correction:
            return (self.correction, self.order) > (other.correction, other.order)
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
            return cls(True, event.order, _guessed_kind(event.type))
        said = event.payload
        return cls(
            inferred=False,
            order=event.order,
            kind=text_of(said, "kind") or kind,
            name=text_of(said, "name", "workflow_name"),
            parent_run_id=text_of(said, "parent_run_id"),
        )

    def beats(self, other: Origin) -> bool:
        """Whether this origin counts rather than the other: a start rather than a guess, then the earlier."""
        return (self.inferred, self.order) < (other.inferred, other.order)


def _guessed_kind(type_: str) -> str:
    return "session" if type_.startswith(_SESSION_PREFIXES) else _KINDS.get(type_, "workflow")


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
    failed_calls: int = 0  # events that tell of a failed tool call
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
        last = self if self.last_order >= other.last_order else other
        ending = self.ending
        if other.ending is not None and other.ending.beats(ending):
            ending = other.ending
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
            ending=ending,
            expired_before=max(expired) if expired else None,
        )


def summarise(events: Iterable[Event]) -> dict[str, RunSummary]:
    """One summary for each run among these events."""
    groups: dict[str, list[Event]] = {}
    for event in events:
        groups.setdefault(event.run_id, []).append(event)
    return {run_id: _summary(run_id, group) for run_id, group in groups.items()}


def _summary(run_id: str, events: list[Event]) -> RunSummary:
    # The recorder's writer thread runs this for every event it commits, so an event that neither starts nor
    # ends the run costs a few comparisons only.
    first = last = events[0]
    first_order = last_order = first.order
    starts: list[Event] = []
    ending: Ending | None = None
    agents: set[str] = set()
    failed = 0
    for event in events:
        order = event.order
        if order > last_order:
            last, last_order = event, order
        elif order < first_order:
            first, first_order = event, order
        if event.agent_name is not None:
            agents.add(event.agent_name)
        if event.type == "tool_call":
            failed += tool_status(event.payload) == "failed"
        elif event.type in STARTS:
            starts.append(event)
        elif event.type in ENDS:
            stated = Ending.of(event)
            if stated is not None and stated.beats(ending):
                ending = stated
    return RunSummary(
        run_id=run_id,
        origin=Origin.of(min(starts, key=lambda start: start.order) if starts else first),
        started_at=first.occurred_at,
        last_order=last_order,
        last_event_type=last.type,
        events=len(events),
        agents=frozenset(agents),
        failed_calls=failed,
        ending=ending,
    )

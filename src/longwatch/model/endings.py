"""The events that start and end a run, the status of a run, and which of two endings counts.

An ending has an authority. From the strongest: a correction; the producer's own report; an ending written
for a producer whose exit was observed; `died`, which only states that every process of the run is gone. Among
endings of equal authority success beats partial, partial beats failed, failed beats cancelled and any of
them beats unknown (an agent can finish while its invoker fails); among equals the earliest counts, so that
ending a run twice gives one end time. Of two corrections the later counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from longwatch.model.event import UNREADABLE, Event, Order, error_of, number_of, text_of


class Status(StrEnum):
    """The status of a run, in the vocabulary used inside longwatch."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PARTIAL = "partial"
    CANCELLED = "cancelled"
    DIED = "died"  # every process that worked on it exited without reporting an outcome
    UNKNOWN = "unknown"


_MORE = re.compile("… and ([0-9,]{1,12}) more")

STARTS: Mapping[str, str] = {  # event type -> kind of run
    "workflow_start": "workflow",
    "SESSION_INITIATED": "session",
    "project_added": "project",
    "project_created": "project",
    "conversation_created": "conversation",
    "turn_created": "turn",
    "execution_started": "execution",
}

ENDS: Mapping[str, Status] = {  # event type -> status, unless the event states one
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
    "turn_corrected": Status.UNKNOWN,
    "execution_ended": Status.UNKNOWN,
    "execution_corrected": Status.UNKNOWN,
    "execution_closed": Status.UNKNOWN,
    "watch_stopped": Status.UNKNOWN,
}

CORRECTIONS = frozenset(  # terminal events that correct an earlier one
    {"execution_corrected", "execution_closed", "turn_corrected"}
)

STATUS_WORDS: Mapping[str, Status] = {  # status texts of other producers
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
    "died": Status.DIED,
    "unknown": Status.UNKNOWN,
}

SESSION_PREFIXES = ("SESSION_", "AGENT_", "TASK_")

# Written by observers of a run, not by its work: never a sign of activity.
OBSERVER_TYPES = frozenset(
    {"notified", "late_batch", "producer_closed", "operator_note", UNREADABLE}
    | {"execution_closed", "watch_stopped", "wave_added", "wave_count_set"}  # decisions of operators
)

MAYBE_OBSERVER_TYPES = OBSERVER_TYPES | {"workflow_error"}  # an observer writes it for a run that died

DEADLINE = "deadline_at"  # epoch ms, in the event that starts a run: it decides nothing

PROCESS_DIED = "process_died"  # error code of the ending that an observer writes for a run that died
PRODUCER_DEAD = "producer_dead"  # the same in journals of earlier versions

_PRECEDENCE = {
    Status.SUCCEEDED: 4,
    Status.PARTIAL: 3,
    Status.FAILED: 2,
    Status.CANCELLED: 1,
    Status.UNKNOWN: 0,
    Status.DIED: -1,
}


def warning_count(payload: Mapping[str, Any]) -> int:
    """The number of warnings of an ending. A truncated list ends with `… and 1,500 more`."""
    warnings = payload.get("warnings")
    if not isinstance(warnings, list | tuple) or not warnings:
        return 0
    cut = _MORE.fullmatch(str(warnings[-1]))
    return len(warnings) if cut is None else len(warnings) - 1 + int(cut[1].replace(",", ""))


@dataclass(frozen=True, slots=True)
class Ending:
    """The ending of a run, and the event that states it."""

    status: Status
    order: Order
    own_word: bool = True  # False: written for a producer that did not report an outcome
    error: str | None = None
    correction: bool = False  # True: overrides every earlier ending
    attempt: str | None = None  # the attempt that it ends, if the event states one
    # Only if the order is a position and not a time, as for `died`:
    processes: frozenset[str] | None = None  # IDs of those that are gone; None: all of them
    not_before: int | None = None  # epoch ms
    not_after: int | None = None  # epoch ms; None: unknown
    warnings: int = 0  # in the event

    @property
    def at(self) -> int | None:
        """When the run ended, in epoch milliseconds; None if only an interval is known."""
        return None if self.status is Status.DIED or self.not_before is not None else self.order[0]

    @classmethod
    def of(cls, event: Event) -> Ending | None:
        """The ending that this event states, if it is a terminal event.

        An unreadable event contains the ending that is stored with the run: it may have stated it.
        """
        status = ENDS.get(event.type)
        if status is None:
            return _decode_ending(event.payload.get(STORED_ENDING)) if event.type == UNREADABLE else None
        payload = event.payload
        word = text_of(payload, "status")
        if word is not None:
            status = STATUS_WORDS.get(word.lower(), status)
        if text_of(payload, "error_code") == PRODUCER_DEAD:
            status = Status.DIED
        if status is Status.DIED:
            return _death(event)
        return cls(
            status=status,
            order=event.order,
            own_word=not payload.get("written_for"),
            error=error_of(payload),
            correction=event.type in CORRECTIONS,
            attempt=attempt_id_of(event),
            warnings=warning_count(payload),
        )

    def beats(self, other: Ending | None) -> bool:
        """Whether this ending counts instead of the other."""
        if other is None:
            return True
        if self.correction or other.correction:
            return (self.correction, self.order) > (other.correction, other.order)
        mine = (self.own_word, _PRECEDENCE[self.status])
        theirs = (other.own_word, _PRECEDENCE[other.status])
        return mine > theirs if mine != theirs else self.order < other.order


STORED_ENDING = "ending"  # in the payload of an unreadable event


def encode_ending(ending: Ending) -> dict[str, object]:
    """The ending that is stored with a run, for the payload of an unreadable event."""
    fields = {
        "status": ending.status.value,
        "order": list(ending.order),
        "own_word": ending.own_word,
        "correction": ending.correction,
        "error": ending.error,
        "attempt": ending.attempt,
        "processes": None if ending.processes is None else sorted(ending.processes),
        "not_before": ending.not_before,
        "not_after": ending.not_after,
        "warnings": ending.warnings or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _decode_ending(value: object) -> Ending | None:
    """The ending that `encode_ending` wrote; None for anything else."""
    if not isinstance(value, Mapping):
        return None
    status, order = value.get("status"), value.get("order")
    if not isinstance(status, str) or status not in _PRECEDENCE or not isinstance(order, list):
        return None
    if list(map(type, order)) != [int, str, int, str]:
        return None
    processes = value.get("processes")
    ids = (
        frozenset(each for each in processes if isinstance(each, str))
        if isinstance(processes, list)
        else None
    )
    not_before, not_after = (number_of(value, name) for name in ("not_before", "not_after"))
    warnings = number_of(value, "warnings")
    return Ending(
        status=Status(status),
        order=(order[0], order[1], order[2], order[3]),
        own_word=value.get("own_word") is True,
        error=text_of(value, "error"),
        correction=value.get("correction") is True,
        attempt=text_of(value, "attempt"),
        processes=ids,
        not_before=None if not_before is None else int(not_before),
        not_after=None if not_after is None else int(not_after),
        warnings=0 if warnings is None else int(warnings),
    )


def _death(event: Event) -> Ending:
    payload = event.payload
    listed = payload.get("processes")
    ids = frozenset(each for each in listed if isinstance(each, str)) if isinstance(listed, list) else None
    not_before, not_after = (number_of(payload, name) for name in ("not_before", "not_after"))
    if not_before is None:  # its time is just after the last activity
        not_before = max(0, event.occurred_at - 1)
    return Ending(
        status=Status.DIED,
        order=event.order,
        own_word=False,
        error=error_of(payload),
        attempt=attempt_id_of(event),
        processes=ids,
        not_before=int(not_before),
        not_after=None if not_after is None else int(not_after),
    )


def attempt_id_of(event: Event) -> str | None:
    """The attempt that an event states; for a session, the execution of its state machine."""
    attempt = text_of(event.payload, "attempt")
    if attempt is None and event.type.startswith(SESSION_PREFIXES):
        return text_of(event.payload, "execution")
    return attempt


def is_activity(event: Event) -> bool:
    """Whether an event is a sign of work on the run; events of observers are not."""
    if event.type not in MAYBE_OBSERVER_TYPES:
        return True
    if event.type in OBSERVER_TYPES:
        return False
    ending = Ending.of(event)
    return ending is None or ending.status is not Status.DIED

"""The phase of an execution, and when it is polled next.

Times here are those of pollers, whose clocks differ. They decide when a call is made and by which poller,
never how an execution ended: the version of the record decides which write counts, and the source's clock how
much time has passed.
"""

from __future__ import annotations

from enum import StrEnum

from longwatch.executions.model import Execution, ItemState
from longwatch.polling.backoff import Backoff
from longwatch.polling.schedules import EXECUTION_PHASES, Phased


class ExecutionPhase(StrEnum):
    """How far the items are."""

    PENDING = "pending"  # none has begun
    STARTED = "started"  # the transition: some are in progress, and none has finished
    IN_PROGRESS = "in_progress"  # some have finished, some have not


def phase_of(execution: Execution) -> ExecutionPhase:
    """The phase, from the states of all items. An execution without any is pending: empty is never done."""
    states = {item.state for _, item in execution.items()}
    if any(state.is_final for state in states):
        return ExecutionPhase.IN_PROGRESS
    if states & {ItemState.IN_PROGRESS, ItemState.UNKNOWN}:
        return ExecutionPhase.STARTED
    return ExecutionPhase.PENDING


def delay_of(execution: Execution, phases: Phased = EXECUTION_PHASES) -> float:
    """Seconds from one poll to the next in its phase."""
    return phases.seconds.get(phase_of(execution).value, phases.otherwise)


# For a source that does not respond: retry soon, but not so often that it never recovers.
SOURCE_BACKOFF = Backoff(5.0, 2.0, 300.0)
CLOCK_TOLERANCE_MS = 60 * 1000  # a timestamp further ahead comes from a wrong clock


LONGEST_LEASE_MS = 10 * 60 * 1000


def next_poll_at(execution: Execution, phases: Phased = EXECUTION_PHASES) -> int:
    """When to poll next, in epoch ms. An execution that was never polled is due since its start.

    The deadline is a reason to poll at once, unless the source requested a wait. A verdict that is stored and
    not yet in the journal is due since it was found.
    """
    if execution.verdict is not None:
        return execution.verdict.at
    polled_at = execution.last_polled_at
    if polled_at is None:
        return execution.started_at
    if execution.next_poll_at is not None and execution.next_poll_at > polled_at:
        return execution.next_poll_at
    if execution.failures:
        waits = SOURCE_BACKOFF
        for _ in range(min(execution.failures, 64)):
            waits = waits.failed()
        return polled_at + round((waits.delay or 0.0) * 1000)
    due = polled_at + round(delay_of(execution, phases) * 1000)
    deadline = deadline_at(execution)
    return deadline if deadline is not None and polled_at < deadline < due else due


def is_due(execution: Execution, now_ms: int, phases: Phased = EXECUTION_PHASES) -> bool:
    """Whether a poll is due, to the millisecond."""
    if execution.closed:
        return False
    if execution.verdict is not None:  # it only has to be appended, whatever the clock of its source says
        return True
    polled_at = execution.last_polled_at
    if polled_at is not None and polled_at > now_ms + CLOCK_TOLERANCE_MS:
        return True
    return now_ms >= next_poll_at(execution, phases)


def is_leased(execution: Execution, now_ms: int, *, to_other_than: str = "") -> bool:
    """Whether another poller holds its lease. A lease saves calls; the version of the record keeps order."""
    until = execution.lease_until
    if until is None or execution.lease_holder in (None, to_other_than):
        return False
    return now_ms < until <= now_ms + LONGEST_LEASE_MS  # a lease from a wrong clock would never expire


def deadline_at(execution: Execution) -> int | None:
    """When the execution becomes overdue; None: never."""
    if execution.deadline_ms is None:
        return None
    return execution.started_at + execution.deadline_ms


def is_overdue(execution: Execution, now_ms: int) -> bool:
    """Whether an open execution is past its deadline. Its source decides, not the deadline."""
    deadline = deadline_at(execution)
    return execution.is_open and deadline is not None and now_ms >= deadline

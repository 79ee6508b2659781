"""What is true of an open execution at this moment, and why it is still running. Computed, never stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longwatch.watching.due import deadline_at, is_overdue, next_poll_at
from longwatch.watching.model import Execution, JobState
from longwatch.watching.phases import Phase, phase_of
from longwatch.watching.waiting import is_unknown_to_source

if TYPE_CHECKING:
    from longwatch.watching.cadence.eta import Eta
    from longwatch.watching.cadence.lessons import Lessons

UNREACHABLE_AFTER = 3  # polls in a row without a response
UNWATCHED_AFTER_MS = 3 * 60 * 1000  # past the time of the next poll
MOST_NAMED = 3  # jobs, servers or launch actions that report one unknown status

# Without anything new. A recovery stays pending for a quarter of an hour while its snapshots are taken.
SILENT_AFTER_MS = 10 * 60 * 1000
SILENT_PENDING_AFTER_MS = 30 * 60 * 1000
# Where past executions of the same shape say how long the phase takes, half as long again is silent, but
# never sooner than this: a few polls have to have brought nothing.
FAR = 1.5
SILENT_AT_LEAST_MS = 5 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Condition:
    """Something worth saying that is no part of the execution's history."""

    name: str  # unwatched, unreachable, missing, unknown status, overdue, slow or silent
    message: str


def conditions(execution: Execution, now_ms: int, lessons: Lessons | None = None) -> list[Condition]:
    """Every condition that holds, the gravest first. Only with lessons can one be slow."""
    eta = lessons.eta_of(execution, now_ms) if lessons and execution.is_open else None
    return conditions_by(execution, now_ms, eta)


def conditions_by(execution: Execution, now_ms: int, eta: Eta | None) -> list[Condition]:
    """The same, from an ETA that is known already."""
    return list(_conditions(execution, now_ms, eta)) if execution.is_open else []


def _conditions(execution: Execution, now_ms: int, eta: Eta | None) -> Iterator[Condition]:
    waited = now_ms - next_poll_at(execution)
    if waited > UNWATCHED_AFTER_MS:
        yield Condition(
            "unwatched",
            f"poll overdue by {length_text(waited)}; is longwatch executions watch, or a poller, running?",
        )
    if execution.failures >= UNREACHABLE_AFTER:
        error = execution.last_error or "no reason given"
        yield Condition(
            "unreachable",
            f"no response from {execution.source} to {execution.failures} polls in a row: {error}",
        )
    yield from _missing(execution)
    for word, names in execution.unknown_words().items():
        yield Condition("unknown status", f"Unknown status {word!r} of {_listed(names)}, treated as running.")
    if is_overdue(execution, now_ms):
        over = now_ms - (deadline_at(execution) or now_ms)
        yield Condition("overdue", f"past its deadline by {length_text(over)}; polling continues")
    slowness = eta.slowness() if eta else None
    if slowness is not None:
        yield Condition("slow", slowness)
    if now_ms > silent_at(execution, eta) and execution.failures < UNREACHABLE_AFTER:
        yield Condition("silent", f"nothing new for {length_text(now_ms - changed_at(execution))}")


def _missing(execution: Execution) -> Iterator[Condition]:
    lost = [job for wave in execution.waves for job in wave.jobs if job.state is JobState.MISSING]
    never = [job.job_id for job in lost if is_unknown_to_source(job)]
    gone = [job.job_id for job in lost if not is_unknown_to_source(job)]
    texts = []
    if never:
        ids = ", ".join(never)
        texts.append(f"job id unknown to {execution.source}: {ids}; check the id, the region and the account")
    if gone:
        texts.append(f"{execution.source} no longer knows {', '.join(gone)}")
    if texts:
        yield Condition("missing", "; ".join(texts))


def _listed(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def silent_at(execution: Execution, eta: Eta | None = None) -> int:
    """When the execution becomes silent, in epoch ms, unless a poll brings something new before that."""
    usually = eta.phase_usually if eta else None
    return changed_at(execution) + silence_ms(phase_of(execution), usually.high if usually else None)


def silence_ms(phase: Phase, usual_seconds: float | None) -> int:
    """How long nothing new is normal in a phase that nine of ten leave within `usual_seconds`."""
    if usual_seconds is not None:
        return max(SILENT_AT_LEAST_MS, round(FAR * usual_seconds * 1000))
    return SILENT_PENDING_AFTER_MS if phase is Phase.PENDING else SILENT_AFTER_MS


def changed_at(execution: Execution) -> int:
    """When a poll last brought something new; before the first change, the start."""
    return max(execution.last_change_at or 0, execution.started_at)


def length_text(ms: int) -> str:
    """A length of time for people: `90 s`, `12 min`, `3.5 h`."""
    seconds = max(ms, 0) // 1000
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"

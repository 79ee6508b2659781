"""What is true of an open execution at this moment, and why it is still running. Computed, never stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from longwatch.watching.due import deadline_at, is_overdue, next_poll_at
from longwatch.watching.model import Execution, JobState

if TYPE_CHECKING:
    from longwatch.watching.cadence.lessons import Lessons

UNREACHABLE_AFTER = 3  # polls in a row without an answer
SILENT_AFTER_MS = 10 * 60 * 1000  # without anything new
MOST_NAMED = 3  # jobs, servers or launch actions that report one unknown status
UNWATCHED_AFTER_MS = 3 * 60 * 1000  # past the time at which somebody should have asked


@dataclass(frozen=True, slots=True)
class Condition:
    """Something worth saying that is no part of the execution's history."""

    name: str  # unwatched, unreachable, missing, unknown status, overdue, slow or silent
    message: str


def conditions(execution: Execution, now_ms: int, lessons: Lessons | None = None) -> list[Condition]:
    """Every condition that holds, the gravest first. What is slow only the past can tell."""
    if not execution.is_open:
        return []
    found = []
    waited = now_ms - next_poll_at(execution)
    if waited > UNWATCHED_AFTER_MS:
        found.append(Condition("unwatched", f"nobody has asked for {_words(waited)} beyond its time"))
    if execution.failures >= UNREACHABLE_AFTER:
        found.append(
            Condition(
                "unreachable",
                f"{execution.source} has not answered {execution.failures} times in a row: "
                f"{execution.last_error or 'no reason was given'}",
            )
        )
    lost = [job.job_id for wave in execution.waves for job in wave.jobs if job.state is JobState.MISSING]
    if lost:
        found.append(Condition("missing", f"{execution.source} no longer knows {', '.join(lost)}"))
    found += [
        Condition("unknown status", f"Unknown status {word!r} of {_listed(names)}, treated as running.")
        for word, names in execution.unknown_words().items()
    ]
    if is_overdue(execution, now_ms):
        over = now_ms - (deadline_at(execution) or now_ms)
        found.append(Condition("overdue", f"past its deadline for {_words(over)}; it is asked about on"))
    eta = lessons.eta_of(execution, now_ms) if lessons else None
    slowness = eta.slowness() if eta else None
    if slowness is not None:
        found.append(Condition("slow", slowness))
    changed = max(execution.last_change_at or 0, execution.started_at)
    if now_ms - changed > SILENT_AFTER_MS and execution.failures < UNREACHABLE_AFTER:
        found.append(Condition("silent", f"nothing new for {_words(now_ms - changed)}"))
    return found


def _listed(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _words(ms: int) -> str:
    seconds = ms // 1000
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"

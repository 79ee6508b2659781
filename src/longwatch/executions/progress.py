"""How many items of an execution are done, and why an item failed.

An item is done when what it is there for has happened. A failed, cancelled or unfinished item has ended at
most, and is counted apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from longwatch.executions.model import (
    Execution,
    ItemState,
    Job,
    JobKind,
    JobState,
    Mode,
    Stage,
    Verdict,
    WorkItem,
)
from longwatch.executions.outcomes import with_instance
from longwatch.model.summary import Status

MOST_WARNINGS = 3  # in one line; a recovery of 300 servers can have thousands

_BY_VERDICT = {Status.FAILED: "failed", Status.PARTIAL: "failed", Status.CANCELLED: "cancelled"}


class ItemResult(StrEnum):
    """What became of one item."""

    OPEN = "open"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class ItemProgress:
    """The items of an execution, counted by what became of them."""

    total: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0

    def words(self) -> str:
        """For people: `3 of 5 done, 1 failed`."""
        counts = ((self.failed, "failed"), (self.cancelled, "cancelled"))
        rest = "".join(f", {count} {word}" for count, word in counts if count)
        return f"{self.done} of {self.total} done{rest}"


def progress_of(execution: Execution) -> ItemProgress:
    """Count the items of all waves."""
    counts = Counter(
        item_result(server, execution, job) for wave in execution.stages for server, job in items_of(wave)
    )
    return ItemProgress(
        total=counts.total(),
        done=counts[ItemResult.DONE],
        failed=counts[ItemResult.FAILED],
        cancelled=counts[ItemResult.CANCELLED],
    )


def items_of(wave: Stage) -> Iterator[tuple[WorkItem, Job | None]]:
    """Every item of a wave with the job that decides about it; None: no job lists it yet."""
    decided = wave.attempts()
    for server in wave.items():
        job = decided[server.item_id][0] if server.item_id in decided else None
        yield with_instance(server, wave), job


def item_result(server: WorkItem, execution: Execution, job: Job | None) -> ItemResult:
    """What became of one item. A verdict also decides on items that never reached a final state."""
    match server.state:
        case ItemState.DONE:
            return ItemResult.OPEN if _has_open_actions(server, execution) else ItemResult.DONE
        case ItemState.TERMINATED:
            is_goal = job is not None and job.kind is JobKind.TERMINATE
            return ItemResult.DONE if is_goal or server.instance_id else ItemResult.FAILED
        case ItemState.FAILED:
            return ItemResult.FAILED
        case ItemState.CANCELLED:
            return ItemResult.CANCELLED
    verdict = execution.verdict
    found = ItemResult(_BY_VERDICT.get(verdict.status, "open")) if verdict else ItemResult.OPEN
    is_cancelled = found is ItemResult.FAILED and job is not None and job.cancelled
    return ItemResult.CANCELLED if is_cancelled else found


def failure_reason(server: WorkItem, execution: Execution, job: Job | None) -> str | None:
    """Why an item failed, in the source's words where it gave some; None for an item that did not fail."""
    if item_result(server, execution, job) is not ItemResult.FAILED:
        return None
    if server.reason:
        return server.reason
    if server.state is ItemState.FAILED:
        return f"{execution.source} gave no reason"
    if server.state is ItemState.TERMINATED:
        return "terminated, never seen launched"
    is_finished = job is not None and job.state is JobState.FINISHED
    when = "after its job finished" if is_finished else "when the execution was closed"
    return f"still {server.source_status or server.state.value} {when}"


def verdict_text(verdict: Verdict) -> str:
    """The verdict for people: `succeeded with 2 warnings, late`."""
    count = len(verdict.warnings)
    warnings = f" with {warnings_text(count)}" if count else ""
    return f"{verdict.status}{warnings}{', late' if verdict.late else ''}"


def warnings_text(count: int) -> str:
    return f"{count} {'warning' if count == 1 else 'warnings'}"


def first_warnings(verdict: Verdict) -> list[str]:
    """The warnings that fit into a line, and how many more there are."""
    more = len(verdict.warnings) - MOST_WARNINGS
    return [*verdict.warnings[:MOST_WARNINGS], *([f"and {more:,} more"] if more > 0 else [])]


def _has_open_actions(server: WorkItem, execution: Execution) -> bool:
    if execution.mode is not Mode.RECOVERY or execution.verdict is not None:
        return False
    return not all(action.state.is_final for action in server.steps)

"""How many items of an execution are done, and why an item failed.

An item is done when it has reached its goal. Failed, cancelled and unfinished items are counted separately.
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
    """The result of one item."""

    OPEN = "open"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class ItemProgress:
    """The items of an execution, counted by result."""

    total: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0

    def text(self) -> str:
        """For people: `3 of 5 done, 1 failed`."""
        counts = ((self.failed, "failed"), (self.cancelled, "cancelled"))
        rest = "".join(f", {count} {word}" for count, word in counts if count)
        return f"{self.done} of {self.total} done{rest}"


def progress_of(execution: Execution) -> ItemProgress:
    """Count the items of all stages."""
    counts = Counter(
        item_result(item, execution, job) for stage in execution.stages for item, job in items_of(stage)
    )
    return ItemProgress(
        total=counts.total(),
        done=counts[ItemResult.DONE],
        failed=counts[ItemResult.FAILED],
        cancelled=counts[ItemResult.CANCELLED],
    )


def items_of(stage: Stage) -> Iterator[tuple[WorkItem, Job | None]]:
    """Every item of a stage with the job that decides about it; None: no job lists it yet."""
    decided = stage.attempts()
    for item in stage.items():
        job = decided[item.item_id][0] if item.item_id in decided else None
        yield with_instance(item, stage), job


def item_result(item: WorkItem, execution: Execution, job: Job | None) -> ItemResult:
    """The result of one item. A verdict also decides on items that never reached a final state."""
    match item.state:
        case ItemState.DONE:
            return ItemResult.OPEN if _has_open_steps(item, execution) else ItemResult.DONE
        case ItemState.TERMINATED:
            is_goal = job is not None and job.kind is JobKind.TERMINATE
            return ItemResult.DONE if is_goal or item.instance_id else ItemResult.FAILED
        case ItemState.FAILED:
            return ItemResult.FAILED
        case ItemState.CANCELLED:
            return ItemResult.CANCELLED
    verdict = execution.verdict
    found = ItemResult(_BY_VERDICT.get(verdict.status, "open")) if verdict else ItemResult.OPEN
    is_cancelled = found is ItemResult.FAILED and job is not None and job.cancelled
    return ItemResult.CANCELLED if is_cancelled else found


def failure_reason(item: WorkItem, execution: Execution, job: Job | None) -> str | None:
    """Why an item failed, as its source reports it where it does; None for an item that did not fail."""
    if item_result(item, execution, job) is not ItemResult.FAILED:
        return None
    if item.reason:
        return item.reason
    if item.state is ItemState.FAILED:
        return f"{execution.source} gave no reason"
    if item.state is ItemState.TERMINATED:
        return f"terminated, never seen {execution.mode.terms.done}"
    is_finished = job is not None and job.state is JobState.FINISHED
    when = "after its job finished" if is_finished else "when the execution was closed"
    return f"still {item.source_status or item.state.value} {when}"


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


def _has_open_steps(item: WorkItem, execution: Execution) -> bool:
    if execution.mode is not Mode.RECOVERY or execution.verdict is not None:
        return False
    return not all(step.state.is_final for step in item.steps)

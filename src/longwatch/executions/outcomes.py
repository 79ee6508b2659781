"""Outcomes of items, stages and executions, as far as they are certain. None means that they are not.

A finished job does not imply success; only its items do. A status that no table has is never an end, however
long ago its job finished. An empty list never means "all done", and later stages may not exist yet: an
execution ends only when its number of stages is known and each of them has ended.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from longwatch.executions.due import deadline_at
from longwatch.executions.model import (
    Evidence,
    Execution,
    ItemState,
    Job,
    JobKind,
    JobState,
    Mode,
    Stage,
    StepState,
    Verdict,
    WorkItem,
)
from longwatch.model.summary import Status

GRACE_MS = 2 * 60 * 1000  # in which a finished job may still list an item as pending
GRACE_POLLS = 3  # of a finished job, needed as well: a single wrong date must not end the grace period


_FAILURES = {
    JobKind.LAUNCH: "launch failed",
    JobKind.TERMINATE: "termination failed",
    JobKind.SNAPSHOT: "conversion of its snapshot failed",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an item, a stage or an execution ended."""

    status: Status
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()  # facts that it relies on and that the source has not reported


def item_outcome(item: WorkItem, job: Job | None, mode: Mode, now_ms: int) -> Outcome | None:
    """The outcome of one item. `job` is the job that decides about it, or the last one that could have."""
    kind = job.kind if job else JobKind.LAUNCH
    match kind, item.state:
        case _, ItemState.UNKNOWN:
            return None
        case _, ItemState.ENDED:
            why = item.reason or "ended, outcome unknown"
            return Outcome(Status.UNKNOWN, (f"{item.item_id}: {why}",))
        case _, ItemState.FAILED:
            return Outcome(
                Status.FAILED,
                (f"{item.item_id}: {item.reason or ('failed' if mode is Mode.JOB else _FAILURES[kind])}",),
            )
        case _, ItemState.CANCELLED:
            return Outcome(Status.CANCELLED, (f"{item.item_id} was cancelled",))
        case JobKind.LAUNCH, ItemState.DONE:
            return _done_outcome(item, job, mode, now_ms)
        case (JobKind.TERMINATE, ItemState.TERMINATED) | (JobKind.SNAPSHOT, ItemState.DONE):
            return Outcome(Status.SUCCEEDED)
        case JobKind.LAUNCH, ItemState.TERMINATED if item.instance_id:  # it was launched, as it should be
            return Outcome(Status.SUCCEEDED, warnings=(f"{item.item_id} was terminated afterwards",))
        case JobKind.LAUNCH, ItemState.TERMINATED:
            return Outcome(Status.FAILED, (f"{item.item_id} was terminated and never seen launched",))
    return _unfinished_outcome(item, job, now_ms)


def _unfinished_outcome(item: WorkItem, job: Job | None, now_ms: int) -> Outcome | None:
    """The outcome of an item that has no final state: the end of its job and the grace period decide."""
    if job is None or job.state is not JobState.FINISHED or not _is_past_grace(job, job.finished_at, now_ms):
        return None
    word = item.source_status or item.state.value
    assumed = (f"{item.item_id} has ended, last reported as {word}",)
    if job.cancelled:
        why = f"{item.item_id} was cancelled with its job"
        return Outcome(Status.CANCELLED, (why,), assumed=assumed)
    if job.kind is JobKind.SNAPSHOT:
        why = "the log of its job does not report whether its snapshot was converted"
        return Outcome(Status.UNKNOWN, (f"{item.item_id}: {why}",), assumed=assumed)
    why = f"{item.item_id} is still {word} after its job has finished"
    return Outcome(Status.FAILED, (why,), assumed=assumed)


def _done_outcome(item: WorkItem, job: Job | None, mode: Mode, now_ms: int) -> Outcome | None:
    if mode is Mode.JOB:
        return Outcome(Status.SUCCEEDED)
    failed = tuple(
        f"{item.item_id}: launch action {step.name} failed" + (f": {step.reason}" if step.reason else "")
        for step in item.steps
        if step.state is StepState.FAILED
    )
    if mode is Mode.DRILL:
        return Outcome(Status.SUCCEEDED, warnings=failed)
    if job is None or not _is_over(job) or not all(each.state.is_final for each in item.steps):
        return None
    # An empty list may mean that none is configured or that none has begun: the grace period decides.
    if not item.steps and not _is_past_grace(job, item.since, now_ms):
        return None
    return Outcome(Status.SUCCEEDED, warnings=failed)


def _is_past_grace(job: Job, since: int | None, now_ms: int) -> bool:
    """Whether the grace period has passed, with enough polls that found the job finished.

    Both times are those of the source, so that pollers whose clocks differ agree.
    """
    if since is None or now_ms - since < GRACE_MS or job.finished_polls < GRACE_POLLS:
        return False
    return job.finished_for_ms is None or job.finished_for_ms >= GRACE_MS


def _is_over(job: Job) -> bool:
    """Whether a job cannot change any more: it has finished, even if its source has dropped it since.

    A job that was dropped while it ran may have retried an item or listed another one.
    """
    return job.state is JobState.FINISHED or (job.state is JobState.MISSING and job.finished_at is not None)


def stage_outcome(stage: Stage, mode: Mode, now_ms: int) -> Outcome | None:
    """The outcome of a stage, once each of its items has one.

    A job may list its items one by one and may retry one. So while a job runs, a stage has ended only if all
    items of its plan are done. Of several jobs that launch an item, the latest decides.
    """
    if not stage.jobs:
        return None  # it has not begun
    decided = stage.attempts()
    last = _last_finished(stage)
    outcomes = []
    for item in stage.items():
        job, _ = decided.get(item.item_id, (last, item))
        outcome = item_outcome(with_instance(item, stage), job, mode, now_ms)
        if outcome is None:
            return None
        outcomes.append(outcome)
    if not outcomes:
        if last is None or not _is_past_grace(last, last.finished_at, now_ms):
            return None
        terms = mode.terms
        why = f"{terms.stage} {stage.name} finished without any {terms.item}"
        assumed = (f"{terms.stage} {stage.name} has no {terms.item}",)
        return Outcome(Status.FAILED, (why,), assumed=assumed)
    if all(_is_over(job) for job in stage.jobs):
        if any(job.state is JobState.MISSING and not job.items for job in stage.jobs):
            return None  # it lists no item, and its source no longer reports whether it has any
        return _combine_stage(stage, outcomes, mode)
    if _are_complete(stage) and all(each.status is Status.SUCCEEDED for each in outcomes):
        return _combine_stage(stage, outcomes, mode)
    return None


def _combine_stage(stage: Stage, outcomes: list[Outcome], mode: Mode) -> Outcome:
    """The outcomes of a stage's items as one, with warnings about jobs that decide nothing.

    For a job that its source has dropped, the last reported states count.
    """
    together = _combine(outcomes)
    decided = stage.attempts()
    lasting = [
        f"{item.item_id} was not terminated by job {job.job_id}"
        for job in stage.jobs
        for item in job.items
        if job.kind is JobKind.TERMINATE
        and item.state is not ItemState.TERMINATED
        and decided[item.item_id][0].job_id != job.job_id
    ]
    forgotten = [
        f"job {job.job_id} is no longer listed; its {mode.terms.item}s had ended"
        for job in stage.jobs
        if job.state is JobState.MISSING
    ]
    return replace(together, warnings=(*together.warnings, *lasting, *forgotten))


def with_instance(item: WorkItem, stage: Stage) -> WorkItem:
    """The item with the instance that any job of the stage names: it was launched before."""
    if item.instance_id or item.state is not ItemState.TERMINATED:
        return item
    named = (each.instance_id for job in stage.jobs for each in job.items if each.item_id == item.item_id)
    return replace(item, instance_id=next((each for each in named if each), None))


def _last_finished(stage: Stage) -> Job | None:
    """The job of the stage that finished last, if all have."""
    if any(job.state is not JobState.FINISHED for job in stage.jobs):
        return None
    return max(stage.jobs, key=lambda job: job.finished_at or 0)


def _are_complete(stage: Stage) -> bool:
    """Whether the plan names the items, all of them are listed, and no job may still list them."""
    listed = {item.item_id for job in stage.jobs for item in job.items}
    is_listing = any(not job.items and not _is_over(job) for job in stage.jobs)
    return bool(stage.expected_items) and set(stage.expected_items) <= listed and not is_listing


def execution_outcome(execution: Execution, now_ms: int) -> Outcome | None:
    """The outcome of the execution; None while it is not certain."""
    if (
        execution.total_stages is None
        or len(execution.stages) < execution.total_stages
        or not execution.stages
    ):
        return None
    outcomes = [stage_outcome(stage, execution.mode, now_ms) for stage in execution.stages]
    known = [outcome for outcome in outcomes if outcome is not None]
    return _combine(known) if len(known) == len(outcomes) else None


def decide_verdict(execution: Execution, evidence: tuple[Evidence, ...], now_ms: int) -> Verdict | None:
    """The verdict on an execution, with its evidence. A deadline decides nothing; lateness is noted."""
    if not evidence:
        return None
    outcome = execution_outcome(execution, now_ms)
    if outcome is None:
        return None
    deadline = deadline_at(execution)
    return Verdict(
        status=outcome.status,
        at=now_ms,
        evidence=evidence,
        message="; ".join(outcome.reasons) or None,
        late=deadline is not None and now_ms > deadline,
        warnings=outcome.warnings,
        corrects=execution.verdict.status if execution.verdict else None,
        assumed=outcome.assumed,
    )


def _combine(outcomes: list[Outcome]) -> Outcome:
    """Combine outcomes: partial where some succeeded and some did not."""
    reasons = tuple(reason for outcome in outcomes for reason in outcome.reasons)
    warnings = tuple(warning for outcome in outcomes for warning in outcome.warnings)
    assumed = tuple(fact for outcome in outcomes for fact in outcome.assumed)
    statuses = {outcome.status for outcome in outcomes}
    if len(statuses) == 1:
        return Outcome(statuses.pop(), reasons, warnings, assumed)
    if statuses & {Status.SUCCEEDED, Status.PARTIAL}:
        return Outcome(Status.PARTIAL, reasons, warnings, assumed)
    return Outcome(Status.FAILED, reasons, warnings, assumed)

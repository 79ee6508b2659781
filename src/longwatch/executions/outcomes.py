"""How servers, waves and executions ended, as far as that is certain. None means that it is not.

A job that has finished says nothing about success; only its servers do. A status that no table has is never
an end, however long ago its job has finished. An empty list is never "all done",
and later waves may not exist yet: an execution ends only when its number of waves is known and each has its
end.
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

GRACE_MS = 2 * 60 * 1000  # in which a finished job may still list a server as pending
GRACE_POLLS = 3  # that a finished job needs as well: a date that was wrong once ends no grace


_FAILURES = {
    JobKind.LAUNCH: "launch failed",
    JobKind.TERMINATE: "termination failed",
    JobKind.SNAPSHOT: "conversion of its snapshot failed",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How something ended."""

    status: Status
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()  # facts that it rests on and that the source has not reported


def item_outcome(server: WorkItem, job: Job | None, mode: Mode, now_ms: int) -> Outcome | None:
    """How one server ended. `job` is the one that decides about it, or the last one that could have."""
    kind = job.kind if job else JobKind.LAUNCH
    match kind, server.state:
        case _, ItemState.UNKNOWN:
            return None
        case _, ItemState.ENDED:
            why = server.reason or "ended, outcome unknown"
            return Outcome(Status.UNKNOWN, (f"{server.item_id}: {why}",))
        case _, ItemState.FAILED:
            return Outcome(Status.FAILED, (f"{server.item_id}: {server.reason or _FAILURES[kind]}",))
        case _, ItemState.CANCELLED:
            return Outcome(Status.CANCELLED, (f"{server.item_id} was cancelled",))
        case JobKind.LAUNCH, ItemState.DONE:
            return _done_outcome(server, job, mode, now_ms)
        case (JobKind.TERMINATE, ItemState.TERMINATED) | (JobKind.SNAPSHOT, ItemState.DONE):
            return Outcome(Status.SUCCEEDED)
        case JobKind.LAUNCH, ItemState.TERMINATED if server.instance_id:  # it was there, as it should be
            return Outcome(Status.SUCCEEDED, warnings=(f"{server.item_id} was terminated afterwards",))
        case JobKind.LAUNCH, ItemState.TERMINATED:
            return Outcome(Status.FAILED, (f"{server.item_id} was terminated and never seen launched",))
    return _unfinished_outcome(server, job, now_ms)


def _unfinished_outcome(server: WorkItem, job: Job | None, now_ms: int) -> Outcome | None:
    """How a server ended that its job left as it is: the end of the job and the grace period decide."""
    if job is None or job.state is not JobState.FINISHED or not _is_past_grace(job, job.finished_at, now_ms):
        return None
    word = server.source_status or server.state.value
    assumed = (f"{server.item_id} has ended, last reported as {word}",)
    if job.cancelled:
        why = f"{server.item_id} was cancelled with its job"
        return Outcome(Status.CANCELLED, (why,), assumed=assumed)
    if job.kind is JobKind.SNAPSHOT:
        why = "the log of its job does not say whether its snapshot was converted"
        return Outcome(Status.UNKNOWN, (f"{server.item_id}: {why}",), assumed=assumed)
    why = f"{server.item_id} is still {word} after its job has finished"
    return Outcome(Status.FAILED, (why,), assumed=assumed)


def _done_outcome(server: WorkItem, job: Job | None, mode: Mode, now_ms: int) -> Outcome | None:
    if mode is Mode.JOB:
        return Outcome(Status.SUCCEEDED)
    failed = tuple(
        f"{server.item_id}: launch action {action.name} failed"
        + (f": {action.reason}" if action.reason else "")
        for action in server.steps
        if action.state is StepState.FAILED
    )
    if mode is Mode.DRILL:
        return Outcome(Status.SUCCEEDED, warnings=failed)
    if job is None or not _is_over(job) or not all(each.state.is_final for each in server.steps):
        return None
    # None listed may mean none configured, or none begun: the source gets a moment to list them.
    if not server.steps and not _is_past_grace(job, server.since, now_ms):
        return None
    return Outcome(Status.SUCCEEDED, warnings=failed)


def _is_past_grace(job: Job, since: int | None, now_ms: int) -> bool:
    """Whether it has been so for the grace period, and for enough polls of a job that has finished.

    Both times are those of the source, so that pollers whose clocks differ agree.
    """
    if since is None or now_ms - since < GRACE_MS or job.finished_polls < GRACE_POLLS:
        return False
    return job.finished_for_ms is None or job.finished_for_ms >= GRACE_MS


def _is_over(job: Job) -> bool:
    """Whether a job can bring no more: it has finished, also if its source has forgotten it since.

    One that was forgotten while it ran may have tried a server again, or listed another: nobody can know.
    """
    return job.state is JobState.FINISHED or (job.state is JobState.MISSING and job.finished_at is not None)


def stage_outcome(wave: Stage, mode: Mode, now_ms: int) -> Outcome | None:
    """How a wave ended: when every one of its servers has.

    A job may list its servers one by one and may try one again. So while a job runs, only the plan's servers
    all launched is an end. Of several jobs that launch a server the latest decides.
    """
    if not wave.jobs:
        return None  # it has not begun
    decided = wave.attempts()
    last = _last_finished(wave)
    outcomes = []
    for server in wave.items():
        job, _ = decided.get(server.item_id, (last, server))
        outcome = item_outcome(with_instance(server, wave), job, mode, now_ms)
        if outcome is None:
            return None
        outcomes.append(outcome)
    if not outcomes:
        if last is None or not _is_past_grace(last, last.finished_at, now_ms):
            return None
        why = f"wave {wave.name} finished and lists no server"
        return Outcome(Status.FAILED, (why,), assumed=(f"wave {wave.name} has no server",))
    if all(_is_over(job) for job in wave.jobs):
        if any(job.state is JobState.MISSING and not job.items for job in wave.jobs):
            return None  # it lists no server, and can not be asked whether it has any
        return _combine_stage(wave, outcomes)
    if _are_complete(wave) and all(each.status is Status.SUCCEEDED for each in outcomes):
        return _combine_stage(wave, outcomes)
    return None


def _combine_stage(wave: Stage, outcomes: list[Outcome]) -> Outcome:
    """The outcomes of a wave's servers as its own, with warnings about jobs that decide nothing.

    Of a job that its source has forgotten, how its servers were last seen counts.
    """
    together = _combine(outcomes)
    decided = wave.attempts()
    lasting = [
        f"{server.item_id} was not terminated by job {job.job_id}"
        for job in wave.jobs
        for server in job.items
        if job.kind is JobKind.TERMINATE
        and server.state is not ItemState.TERMINATED
        and decided[server.item_id][0].job_id != job.job_id
    ]
    forgotten = [
        f"job {job.job_id} is no longer known; its servers had ended"
        for job in wave.jobs
        if job.state is JobState.MISSING
    ]
    return replace(together, warnings=(*together.warnings, *lasting, *forgotten))


def with_instance(server: WorkItem, wave: Stage) -> WorkItem:
    """The server with the instance that any job of the wave names: it was launched before it was gone."""
    if server.instance_id or server.state is not ItemState.TERMINATED:
        return server
    named = (each.instance_id for job in wave.jobs for each in job.items if each.item_id == server.item_id)
    return replace(server, instance_id=next((each for each in named if each), None))


def _last_finished(wave: Stage) -> Job | None:
    """The job of the wave that finished last, if all have."""
    if any(job.state is not JobState.FINISHED for job in wave.jobs):
        return None
    return max(wave.jobs, key=lambda job: job.finished_at or 0)


def _are_complete(wave: Stage) -> bool:
    """Whether the plan names the servers, all of them are listed, and no job may list them again."""
    listed = {server.item_id for job in wave.jobs for server in job.items}
    is_listing = any(not job.items and not _is_over(job) for job in wave.jobs)
    return bool(wave.expected_items) and set(wave.expected_items) <= listed and not is_listing


def execution_outcome(execution: Execution, now_ms: int) -> Outcome | None:
    """How the execution ended, if it is certain that it has."""
    if (
        execution.total_stages is None
        or len(execution.stages) < execution.total_stages
        or not execution.stages
    ):
        return None
    outcomes = [stage_outcome(wave, execution.mode, now_ms) for wave in execution.stages]
    known = [outcome for outcome in outcomes if outcome is not None]
    return _combine(known) if len(known) == len(outcomes) else None


def decide_verdict(execution: Execution, evidence: tuple[Evidence, ...], now_ms: int) -> Verdict | None:
    """The verdict on an execution, with what it rests on. A deadline decides nothing; being late is told."""
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
    """Several outcomes as one: partial where some succeeded and some did not."""
    reasons = tuple(reason for outcome in outcomes for reason in outcome.reasons)
    warnings = tuple(warning for outcome in outcomes for warning in outcome.warnings)
    assumed = tuple(fact for outcome in outcomes for fact in outcome.assumed)
    statuses = {outcome.status for outcome in outcomes}
    if len(statuses) == 1:
        return Outcome(statuses.pop(), reasons, warnings, assumed)
    if statuses & {Status.SUCCEEDED, Status.PARTIAL}:
        return Outcome(Status.PARTIAL, reasons, warnings, assumed)
    return Outcome(Status.FAILED, reasons, warnings, assumed)

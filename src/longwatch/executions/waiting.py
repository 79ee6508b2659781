"""What an open execution is waiting for: the item, launch action, job or wave that keeps it open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from longwatch.executions.model import Execution, ItemState, Job, JobState, Mode, Stage, WorkItem
from longwatch.executions.outcomes import stage_outcome

MOST_NAMED = 3  # items of one wave, and waves; the rest is counted


def waiting_for(execution: Execution, now_ms: int) -> str | None:
    """What has to happen before the execution can end; None once it has a verdict or is closed."""
    if not execution.is_open:
        return None
    waves, total = execution.stages, execution.total_stages
    if not waves:
        return "the first wave: none is stored yet"
    unfinished = [wave for wave in waves if stage_outcome(wave, execution.mode, now_ms) is None]
    if unfinished:
        named = len(waves) > 1
        texts = [f"{wave.name}: {_in_wave(wave, execution)}" for wave in unfinished]
        return _few(texts, "; ", "waves") if named else _in_wave(unfinished[0], execution)
    if total is None:
        return "the number of waves: all stored waves have ended, and more may follow"
    if len(waves) < total:
        return f"wave {len(waves) + 1} of {total}: not stored yet"
    return f"the next response from {execution.source}, which decides"


def is_unknown_to_source(job: Job) -> bool:
    """Whether the source answered that it has no such job, and never listed it before."""
    return (
        job.state is JobState.MISSING
        and job.source_status is None
        and not job.items
        and job.finished_at is None
    )


def is_unseen(thing: Job | WorkItem) -> bool:
    """Whether no response has mentioned it yet: its state is only the one it was stored with."""
    pending = thing.state in (JobState.PENDING, ItemState.PENDING)
    return pending and thing.since is None and thing.source_status is None


def state_text(server: WorkItem) -> str:
    """The state of an item for people; one that no response has mentioned has none."""
    return "not listed yet" if is_unseen(server) else server.state.value.replace("_", " ")


def _in_wave(wave: Stage, execution: Execution) -> str:
    if not wave.jobs:
        return "its job: none is stored yet"
    parts = [*_jobs_without_response(wave, execution.source), *_open_items(wave, execution.mode)]
    running = [job for job in wave.jobs if job.state not in (JobState.FINISHED, JobState.MISSING)]
    if parts:
        return _few(parts, ", ", "items") + _lateness(wave)
    servers = list(wave.items())
    jobs = ", ".join(job.job_id for job in running or wave.jobs)
    if not servers:
        return f"job {jobs} to list its items" + ("" if running else ": it has finished without any")
    if running:
        return f"{_all_ended(servers)}, job {jobs} not finished"
    if execution.mode is Mode.RECOVERY and not any(server.steps for server in servers):
        return "the launch actions: none is listed yet"
    return f"job {jobs} to be confirmed as finished"


def _jobs_without_response(wave: Stage, source: str) -> Iterator[str]:
    for job in wave.jobs:
        if is_unknown_to_source(job):
            yield f"job {job.job_id}: unknown to {source}"
        elif job.state is JobState.MISSING and job.finished_at is None:
            yield f"job {job.job_id}: no longer known to {source}"
        elif is_unseen(job) and not job.items:
            yield f"the first response from {source} about job {job.job_id}"


def _open_items(wave: Stage, mode: Mode) -> Iterator[str]:
    unanswered = any(is_unseen(job) and not job.items for job in wave.jobs)
    for server in wave.items():
        if server.state is ItemState.UNKNOWN:
            yield f"{server.item_id} (unknown status {server.source_status!r})"
        elif not server.state.is_final:
            if not (unanswered and is_unseen(server)):
                yield f"{server.item_id} ({state_text(server)})"
        elif mode is Mode.RECOVERY and server.state is ItemState.DONE:
            for action in server.steps:
                if not action.state.is_final:
                    yield f"launch action {action.name} of {server.item_id}"


def _all_ended(servers: Sequence[WorkItem]) -> str:
    count = len(servers)
    all_of = "the only item" if count == 1 else f"all {count} items"
    failed = sum(server.state is not ItemState.DONE for server in servers)
    if not failed:
        return f"{all_of} launched"
    return f"{all_of} ended, {failed} of them not launched" if count > 1 else f"{all_of} ended"


def _lateness(wave: Stage) -> str:
    finished = all(job.state is JobState.FINISHED for job in wave.jobs)
    is_late = finished and any(not server.state.is_final for server in wave.items())
    return ", not final although its job has finished" if is_late else ""


def _few(texts: Sequence[str], between: str, what: str) -> str:
    more = len(texts) - MOST_NAMED
    named = between.join(texts[:MOST_NAMED])
    return f"{named}{between}and {more} more {what if more > 1 else what[:-1]}" if more > 0 else named

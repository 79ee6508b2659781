"""The true state of a simulated execution, from its plan alone: nothing here uses the rules it checks."""

from __future__ import annotations

from longwatch.executions.model import Mode
from longwatch.model.summary import Status
from longwatch.testing.drs.scripts import ServerScript, step_at
from tests.simulation.executions.plans import NEVER, ExecutionPlan, JobPlan, WavePlan

GRACE = 120.0  # seconds, as the documents have it
TOLERANCE = 6.0  # clocks of pollers differ by as much

LAUNCH_STATUSES = frozenset({"PENDING", "IN_PROGRESS", "LAUNCHED", "FAILED", "TERMINATED"})
ACTION_ENDS = frozenset({"SUCCEEDED", "FAILED"})

GOOD, BAD, CANCELLED, LOST = "good", "bad", "cancelled", "lost"


def status_at(plan: ExecutionPlan, seconds: float) -> Status | None:
    """How the execution has ended by then; None: it is not certain yet."""
    if not plan.states_total:
        return None
    fates: set[str] = set()
    for wave in plan.waves:
        found = None if seconds < wave.stored else _wave_fates(plan, wave, seconds)
        if found is None:
            return None
        fates |= found
    if LOST in fates:
        return Status.UNKNOWN
    if fates == {GOOD}:
        return Status.SUCCEEDED
    if GOOD in fates:
        return Status.PARTIAL
    return Status.CANCELLED if fates == {CANCELLED} else Status.FAILED


def visits(plan: ExecutionPlan) -> dict[tuple[str, str], int]:
    """How often each server comes to each word."""
    counted: dict[tuple[str, str], int] = {}
    for job in plan.jobs:
        for server in job.script.servers:
            for _, word in server.steps:
                key = (server.server_id, word.lower() if word in LAUNCH_STATUSES else "unknown")
                counted[key] = counted.get(key, 0) + 1
    return counted


def changes_after_the_end(plan: ExecutionPlan) -> bool:
    """Whether what was true at the end may be otherwise later."""
    return any("after the grace" in word for word in plan.words)


def _wave_fates(plan: ExecutionPlan, wave: WavePlan, seconds: float) -> set[str] | None:
    if any(seconds < job.begins for job in wave.jobs):
        return None
    if any(_is_lost(job, seconds) for job in wave.jobs):
        return {LOST}
    ends = [job.begins + _completed(job) for job in wave.jobs]
    listed: dict[str, tuple[JobPlan, ServerScript, float]] = {}
    for job in wave.jobs:
        then = min(seconds, job.gone[0]) if job.is_gone(seconds) and job.gone else seconds
        for server in job.script.servers:
            if then - job.begins >= server.listed_from:
                listed[server.server_id] = (job, server, then)
    is_over = all(end <= seconds for end in ends)
    past_grace = max(ends) + GRACE - TOLERANCE <= seconds
    fates = [_fate(plan.mode, *each, seconds) for each in listed.values()]
    missing = [each for each in wave.planned if each not in listed]
    lists = {id(job) for job, _, _ in listed.values()}
    is_listing = any(end > seconds and id(job) not in lists for job, end in zip(wave.jobs, ends, strict=True))
    if wave.planned and not missing and not is_listing and all(fate == GOOD for fate in fates):
        return {GOOD}
    if not is_over or None in fates:
        return None
    if (missing or not fates) and not past_grace:
        return None
    outcomes = {fate for fate in fates if fate is not None}
    if missing:
        outcomes.add(CANCELLED if all(_was_cancelled(job) for job in wave.jobs) else BAD)
    return outcomes or {BAD}


def _fate(mode: Mode, job: JobPlan, server: ServerScript, then: float, seconds: float) -> str | None:
    word = step_at(server.steps, then - job.begins)
    end = job.begins + _completed(job)
    if word == "LAUNCHED":
        return _launched(mode, job, server, then, seconds, end)
    if word == "TERMINATED":
        return GOOD
    if word == "FAILED":
        return BAD
    if word not in LAUNCH_STATUSES:
        return None  # it may mean anything, however long ago the job has finished
    if end + GRACE - TOLERANCE > seconds:
        return None
    return CANCELLED if _was_cancelled(job) else BAD


def _launched(
    mode: Mode, job: JobPlan, server: ServerScript, then: float, seconds: float, end: float
) -> str | None:
    if mode is not Mode.RECOVERY:
        return GOOD
    now = then - job.begins
    begun = [action for action in server.actions if action.begins <= now]
    if end > seconds or any(action.ends is None or action.ends > now for action in begun):
        return None
    if any(action.status not in ACTION_ENDS for action in begun):
        return None
    since = max(after for after, word in server.steps if word == "LAUNCHED")
    return GOOD if begun or job.begins + since + GRACE - TOLERANCE <= seconds else None


def _completed(job: JobPlan) -> float:
    return next((after for after, word in job.script.steps if word == "COMPLETED"), NEVER)


def _was_cancelled(job: JobPlan) -> bool:
    return any(entry.event == "JOB_CANCEL" for entry in job.script.log)


def _is_lost(job: JobPlan, seconds: float) -> bool:
    """Whether its service has forgotten it for good before every poller can be sure to have seen its end."""
    if job.gone is None or job.gone[1] < NEVER or job.gone[0] > seconds:
        return False
    return job.begins + _completed(job) > job.gone[0] - 60.0  # a poller may not have polled in time

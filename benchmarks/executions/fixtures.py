"""Executions of one stage with three items."""

from __future__ import annotations

from longwatch.executions.model import Evidence, Execution, ItemState, Job, JobState, Stage, Verdict, WorkItem
from longwatch.model.summary import Status

START_MS = 1_794_736_800_000


def job_id_of(number: int) -> str:
    return f"drsjob-{number:017}"


def execution(number: int, *, closed: bool) -> Execution:
    """An execution that is running, or one that ended earlier."""
    state = ItemState.DONE if closed else ItemState.PENDING
    at = START_MS - number * 1000 if closed else START_MS + number
    items = tuple(WorkItem(f"s-{number:016}{each}", state, since=at) for each in range(3))
    job = Job(
        job_id_of(number),
        JobState.FINISHED if closed else JobState.PENDING,
        items if closed else (),
        region="eu-west-1",
    )
    evidence = (Evidence("drs:DescribeJobs", at),)
    return Execution(
        execution_id=f"{'closed' if closed else 'open'}-{number}",
        plan_id="plan-1",
        started_at=at,
        stages=(Stage("one", (job,)),),
        total_stages=1,
        deadline_ms=None,
        verdict=Verdict(Status.SUCCEEDED, at, evidence) if closed else None,
        closed=closed,
        version=1,
    )

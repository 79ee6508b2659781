"""Executions, jobs and servers for tests, with few words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longwatch.executions.model import (
    Evidence,
    Execution,
    ItemState,
    Job,
    JobState,
    Mode,
    Stage,
    Step,
    StepState,
    WorkItem,
)
from longwatch.executions.outcomes import GRACE_MS, GRACE_POLLS
from longwatch.executions.responses import SourceResponse

START = 1_794_736_800_000  # 2026-11-15T10:00:00Z
SECOND, MINUTE = 1_000, 60_000

PENDING, IN_PROGRESS, LAUNCHED = ItemState.PENDING, ItemState.IN_PROGRESS, ItemState.DONE
FAILED, TERMINATED, CANCELLED = ItemState.FAILED, ItemState.TERMINATED, ItemState.CANCELLED

EVIDENCE = (Evidence("drs:DescribeJobs", START, {"jobs": {}}),)


def servers(*states: ItemState, since: int | None = START, **more: Any) -> tuple[WorkItem, ...]:
    """A server for each state: s-1, s-2, …"""
    return tuple(WorkItem(f"s-{n}", state, since=since, **more) for n, state in enumerate(states, 1))


def job(*states: ItemState, state: JobState = JobState.STARTED, job_id: str = "j-1", **more: Any) -> Job:
    """A job that was seen, with a server for each state. Finished ones are past their polls."""
    if state is JobState.FINISHED:
        more.setdefault("finished_at", START)
        more.setdefault("finished_polls", GRACE_POLLS)
        more.setdefault("finished_for_ms", GRACE_MS)
    return Job(job_id, state, servers(*states), since=START, **more)


def finished(*states: ItemState, **more: Any) -> Job:
    return job(*states, state=JobState.FINISHED, **more)


def execution(*waves: Stage, mode: Mode = Mode.DRILL, **more: Any) -> Execution:
    """An execution that began at START and has a wave count."""
    more.setdefault("total_stages", len(waves) or None)
    return Execution(
        execution_id="x-1",
        plan_id="p-1",
        mode=mode,
        started_at=more.pop("started_at", START),
        stages=waves,
        **more,
    )


def drill(*states: ItemState, **more: Any) -> Execution:
    """One wave with one running job."""
    return execution(Stage("one", (job(*states),)), **more)


def action(state: StepState, run_id: str = "r-1", **more: Any) -> Step:
    return Step("install", run_id, state, **more)


def response(at: int, *jobs: Job, missing: tuple[str, ...] = ()) -> SourceResponse:
    """A response of the source, without what only a poll adds."""
    jobs_by_id: Mapping[str, Job] = {each.job_id: each for each in jobs}
    return SourceResponse("drs:DescribeJobs", at, jobs_by_id, frozenset(missing))

"""Executions, jobs and servers for tests, with few words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longwatch.watching.answers import Answer
from longwatch.watching.model import (
    Action,
    ActionState,
    Evidence,
    Execution,
    Job,
    JobState,
    Mode,
    Server,
    ServerState,
    Wave,
)
from longwatch.watching.outcomes import GRACE_MS, GRACE_POLLS

START = 1_794_736_800_000  # 2026-11-15T10:00:00Z
SECOND, MINUTE = 1_000, 60_000

PENDING, IN_PROGRESS, LAUNCHED = ServerState.PENDING, ServerState.IN_PROGRESS, ServerState.LAUNCHED
FAILED, TERMINATED, CANCELLED = ServerState.FAILED, ServerState.TERMINATED, ServerState.CANCELLED

EVIDENCE = (Evidence("drs:DescribeJobs", START, {"jobs": {}}),)


def servers(*states: ServerState, since: int | None = START, **more: Any) -> tuple[Server, ...]:
    """A server for each state: s-1, s-2, …"""
    return tuple(Server(f"s-{n}", state, since=since, **more) for n, state in enumerate(states, 1))


def job(*states: ServerState, state: JobState = JobState.STARTED, job_id: str = "j-1", **more: Any) -> Job:
    """A job that was seen, with a server for each state. Finished ones are past their polls."""
    if state is JobState.FINISHED:
        more.setdefault("finished_at", START)
        more.setdefault("finished_polls", GRACE_POLLS)
        more.setdefault("finished_for_ms", GRACE_MS)
    return Job(job_id, state, servers(*states), since=START, **more)


def finished(*states: ServerState, **more: Any) -> Job:
    return job(*states, state=JobState.FINISHED, **more)


def execution(*waves: Wave, mode: Mode = Mode.DRILL, **more: Any) -> Execution:
    """An execution that began at START and knows how many waves it has."""
    more.setdefault("total_waves", len(waves) or None)
    return Execution(
        execution_id="x-1",
        plan_id="p-1",
        mode=mode,
        started_at=more.pop("started_at", START),
        waves=waves,
        **more,
    )


def drill(*states: ServerState, **more: Any) -> Execution:
    """One wave with one running job."""
    return execution(Wave("one", (job(*states),)), **more)


def action(state: ActionState, run_id: str = "r-1", **more: Any) -> Action:
    return Action("install", run_id, state, **more)


def answer(at: int, *jobs: Job, missing: tuple[str, ...] = ()) -> Answer:
    """What the source says, without what only a poll knows."""
    told: Mapping[str, Job] = {each.job_id: each for each in jobs}
    return Answer("drs:DescribeJobs", at, told, frozenset(missing))

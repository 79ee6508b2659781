"""Executions for tests of the server and the page: what a store has after some polls, without any poller."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from longwatch.executions.model import (
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
from longwatch.executions.outcomes import decide_verdict
from longwatch.executions.responses import SourceResponse, apply_response
from longwatch.executions.stores.base import ExecutionStore
from longwatch.executions.transitions import append_new, end_event, start_event, transition_events
from longwatch.journal.base import Journal

CALL = "drs:DescribeJobs"
PENDING, GOING, LAUNCHED, FAILED = (
    ItemState.PENDING,
    ItemState.IN_PROGRESS,
    ItemState.DONE,
    ItemState.FAILED,
)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def fresh(execution_id: str = "x-1", *names: str, ago_ms: int = 60_000, **more: Any) -> Execution:
    """An execution with a wave of one job for each name, which began some time ago."""
    waves = tuple(
        Stage(name, (Job(f"job-{number}", region="eu-west-1"),))
        for number, name in enumerate(names or ("one",))
    )
    at = now_ms() - ago_ms
    return Execution(
        **{
            "execution_id": execution_id,
            "plan_id": "plan-east",
            "started_at": at - at % 1000,
            "stages": waves,
            "total_stages": len(waves),
            **more,
        }
    )


def wave_job(number: int, *states: ItemState, state: JobState = JobState.STARTED, **more: Any) -> Job:
    """A job of the source: a server for each state, s-11, s-12, …"""
    servers = tuple(
        WorkItem(f"s-{number}{at}", each, source_status=each.value.upper(), **more)
        for at, each in enumerate(states, 1)
    )
    return Job(f"job-{number}", state, servers, source_status=state.value.upper())


def action(name: str, state: StepState, reason: str | None = None) -> Step:
    return Step(name, f"run-{name}", state, reason)


class Watched:
    """An execution in its store and its journal, updated by responses as a poller would."""

    def __init__(self, store: ExecutionStore, journal: Journal, execution: Execution) -> None:
        self._store = store
        self._journal = journal
        self.now = store.add(execution)
        journal.append([start_event(self.now)])

    def receive(self, *jobs: Job, at: int | None = None) -> Execution:
        """Apply a response of the source."""
        at = now_ms() if at is None else at
        job_ids = {job.job_id for wave in self.now.stages for job in wave.jobs}
        jobs_by_id = {job.job_id: job for job in jobs if job.job_id in job_ids}
        response = SourceResponse(CALL, at, jobs_by_id)
        after = apply_response(self.now, response)
        events = list(transition_events(self.now, after, at))
        found = decide_verdict(after, (response.evidence,), at)
        if found is not None:
            after = replace(after, verdict=found, closed=True)
            events.append(end_event(after, found))
        append_new(self._journal, events)
        self.now = self._store.update(after)
        return self.now

    def change(self, **fields: Any) -> Execution:
        self.now = self._store.update(replace(self.now, **fields))
        return self.now


def recovery(execution_id: str, **more: Any) -> Execution:
    return fresh(execution_id, "databases", "front", mode=Mode.RECOVERY, **more)

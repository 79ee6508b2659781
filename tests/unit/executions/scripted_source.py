"""A source for tests: it returns the jobs it was given, and fails on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from longwatch.clock import Clock
from longwatch.executions.compose import WatchingParts
from longwatch.executions.model import Execution, ExecutionKey, Job
from longwatch.executions.responses import SourceResponse
from longwatch.executions.sources.base import Source, SourceProblem, SourceResult
from longwatch.executions.stores.base import ExecutionStore
from longwatch.journal.base import Journal
from longwatch.model.event import START as FROM_START
from longwatch.model.event import Event
from longwatch.settings import Settings


class ScriptedSource:
    """A `Source` that lists these jobs and no others."""

    name = "drs"

    def __init__(self, clock: Clock, *jobs: Job) -> None:
        self.jobs = {job.job_id: job for job in jobs}
        self.problem: SourceProblem | None = None
        self.requests: list[list[str]] = []  # the executions of each question
        self._clock = clock

    def set_jobs(self, *jobs: Job) -> None:
        self.jobs = {job.job_id: job for job in jobs}

    def poll(self, executions: Sequence[Execution]) -> Mapping[ExecutionKey, SourceResult]:
        self.requests.append([each.execution_id for each in executions])
        at = self._clock.now_ms()
        return {each.key: self.problem or self._response(each, at) for each in executions}

    def _response(self, execution: Execution, at: int) -> SourceResponse:
        wanted = execution.job_ids()
        listed = {each: self.jobs[each] for each in wanted if each in self.jobs}
        return SourceResponse("drs:DescribeJobs", at, listed, frozenset(wanted) - listed.keys())

    def close(self) -> None:
        """Nothing to close."""


def watching(store: ExecutionStore, journal: Journal, source: Source, clock: Clock) -> WatchingParts:
    """The parts that a process watches with, around this store, journal and source."""
    return WatchingParts(
        Settings("memory://"), store=store, journal=journal, sources={source.name: source}, clock=clock
    )


def events_of(journal: Journal, run_id: str) -> list[Event]:
    return sorted(journal.read(run_id, after=FROM_START, limit=5_000).events, key=lambda event: event.order)


def types_of(journal: Journal, run_id: str) -> list[str]:
    return [event.type for event in events_of(journal, run_id)]

"""Sources made from declarations, with parallel calls where a system accepts one id per call."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.executions.due import deadline_at
from longwatch.executions.model import Execution, ExecutionKey, Job, JobState
from longwatch.executions.responses import SourceResponse
from longwatch.executions.sources.base import IdCheck, SourceCheck, SourceProblem, SourceResult
from longwatch.executions.sources.dates import observed_at
from longwatch.executions.sources.declarations import Declaration
from longwatch.executions.sources.mapping import (
    RawJob,
    map_job,
    map_status,
    mark_superseded,
    new_execution,
    no_status,
)

MAX_PARALLEL = 8  # one hanging endpoint must not delay the others, nor a service be flooded

T = TypeVar("T")


def run_parallel(call: Callable[[str], T], ids: Sequence[str]) -> dict[str, T]:
    """Call for each id in parallel."""
    if len(ids) < 2:
        return {each: call(each) for each in ids}
    with ThreadPoolExecutor(min(MAX_PARALLEL, len(ids)), thread_name_prefix="longwatch-source") as pool:
        return dict(zip(ids, pool.map(call, ids), strict=True))


MAX_CLOCK_DIFFERENCE_MS = 60 * 60 * 1000  # some servers have a clock that was never set

AwsTarget = tuple[str | None, str | None]
"""A region and an account."""
PolledJob = RawJob | SourceProblem | None
"""What a call returned about one id; None: the system does not have it."""
FIRST_RESPONSE_MS = 5_000  # for which the response to `begin` counts as the first poll
LATER_JOB = SourceProblem(
    "a job that has ended and a later one at the same URL cannot be distinguished", lasting=True
)


class Caller(Protocol):
    """Makes the calls of one declaration. Threads may share it."""

    def call(self, target: AwsTarget, ids: Sequence[str]) -> Mapping[str, PolledJob]:
        """Poll the system for these ids. Errors of the system are returned as problems."""

    def close(self) -> None:
        """Close connections."""


class DeclaredSource:
    """A `Source` for one declaration."""

    def __init__(self, declaration: Declaration, caller: Caller, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.declaration = declaration
        self._caller = caller
        self._clock = clock
        self._first: dict[
            tuple[AwsTarget, str], tuple[int, RawJob]
        ] = {}  # responses with a Retry-After, and when they arrived

    @property
    def name(self) -> str:
        return self.declaration.name

    def poll(self, executions: Sequence[Execution]) -> Mapping[ExecutionKey, SourceResult]:
        at = self._clock.now_ms()
        # A URL of a job that has ended may report a later job by now.
        ended = {each.key for each in executions if each.closed and self.declaration.repeats}
        targets: dict[AwsTarget, dict[str, None]] = {}
        for execution in executions:
            for job in execution.jobs() if execution.key not in ended else ():
                targets.setdefault((job.region, job.account), {})[job.job_id] = None
        found = {target: self._poll_target(target, list(ids), at) for target, ids in targets.items()}
        return {
            each.key: LATER_JOB if each.key in ended else self._response_for(each, found, at)
            for each in executions
        }

    def begin(
        self, job_id: str, *, region: str | None = None, account: str | None = None
    ) -> Execution | SourceProblem | None:
        target = (region or region_in(job_id), account)
        found = self._caller.call(target, [job_id])[job_id]
        if not isinstance(found, RawJob):
            return found
        mapped = map_status(self.declaration, found)
        if mapped is None:
            return no_status(self.declaration, job_id, found)
        now_ms = self._clock.now_ms()
        now = _observed_at(now_ms, [found.date])
        execution = new_execution(
            self.declaration, job_id, found, mapped, region=target[0], account=account, now=now
        )
        if found.retry_after_seconds is not None:
            self._first[target, next(execution.jobs()).job_id] = (now_ms, found)
        return execution

    def check(self) -> SourceProblem | None:
        return self._caller.check() if isinstance(self._caller, SourceCheck) else None

    def check_id(self, job_id: str) -> SourceProblem | None:
        shape = self.declaration.id_shape
        if shape is not None and not re.fullmatch(shape, job_id):
            return SourceProblem(
                f"Invalid id {job_id!r} for {self.name}: {self.declaration.about}", lasting=True
            )
        return self._caller.check_id(job_id) if isinstance(self._caller, IdCheck) else None

    def close(self) -> None:
        self._caller.close()

    def _poll_target(self, target: AwsTarget, ids: Sequence[str], at: int) -> Mapping[str, PolledJob]:
        """Poll the system for each id. A response to `begin` with a Retry-After counts as the first poll."""
        first = {each: self._first.pop((target, each), None) for each in ids}
        found: dict[str, PolledJob] = {
            each: cached[1]
            for each, cached in first.items()
            if cached is not None and at - cached[0] <= FIRST_RESPONSE_MS
        }
        rest = [each for each in ids if each not in found]
        return {**found, **self._caller.call(target, rest)} if rest else found

    def _response_for(
        self, execution: Execution, found: Mapping[AwsTarget, Mapping[str, PolledJob]], at: int
    ) -> SourceResult:
        """The response for one execution, or the problem of one of its jobs: never a partial response."""
        jobs: dict[str, Job] = {}
        missing = set()
        dates: list[int | None] = []
        retry_after: float | None = None
        for job in execution.jobs():
            raw = found[job.region, job.account][job.job_id]
            if isinstance(raw, SourceProblem):
                return raw
            if raw is None:
                missing.add(job.job_id)
                continue
            dates.append(raw.date)
            mapped = map_status(self.declaration, raw)
            if mapped is None:
                return no_status(self.declaration, job.job_id, raw)
            jobs[job.job_id] = map_job(job, mark_superseded(self.declaration, execution, raw, mapped))
            retry_after = (
                max(retry_after or 0.0, raw.retry_after_seconds) if raw.retry_after_seconds else retry_after
            )
        return SourceResponse(
            self.declaration.call.name,
            _observed_at(at, dates),
            jobs,
            frozenset(missing),
            self._next_at(execution, jobs, at, retry_after),
            polled_at=at,
            retry_after_seconds=retry_after,
            is_dated=_is_dated(at, dates),
        )

    def _next_at(
        self, execution: Execution, jobs: Mapping[str, Job], at: int, retry_after: float | None
    ) -> int | None:
        """The next poll by the declaration, no later than the deadline unless the system requests it."""
        is_pending = all(job.state is JobState.PENDING for job in jobs.values())
        declared = self.declaration
        seconds = declared.pending_seconds if is_pending else declared.running_seconds
        if retry_after is not None:
            return at + round(max(retry_after, seconds or 0.0) * 1000)
        if seconds is None:
            return None
        due, deadline = at + round(seconds * 1000), deadline_at(execution)
        return deadline if deadline is not None and at < deadline < due else due


def _observed_at(local_ms: int, dates: Sequence[int | None]) -> int:
    """The time of a response by its source, or by the local clock if the source's is far off.

    Events carry this time, and a follower of a table would miss events with a time long ago.
    """
    return observed_at(local_ms, dates) if _is_dated(local_ms, dates) else local_ms


def _is_dated(local_ms: int, dates: Sequence[int | None]) -> bool:
    is_near = abs(observed_at(local_ms, dates) - local_ms) <= MAX_CLOCK_DIFFERENCE_MS
    return is_near and any(each is not None for each in dates)


def region_in(job_id: str) -> str | None:
    """The region of an ARN."""
    parts = job_id.split(":")
    return parts[3] or None if len(parts) > 5 and parts[0] == "arn" else None

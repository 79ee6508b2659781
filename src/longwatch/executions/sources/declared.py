"""Sources that are declarations, with several calls at once where a system takes one id per call."""

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

AT_ONCE = 8  # one endpoint that hangs must not hold up the others, and no service be flooded

T = TypeVar("T")


def run_parallel(call: Callable[[str], T], ids: Sequence[str]) -> dict[str, T]:
    """What is said about each id, in the time of the slowest few."""
    if len(ids) < 2:
        return {each: call(each) for each in ids}
    with ThreadPoolExecutor(min(AT_ONCE, len(ids)), thread_name_prefix="longwatch-source") as pool:
        return dict(zip(ids, pool.map(call, ids), strict=True))


MOST_APART_MS = 60 * 60 * 1000  # any server can be watched, also one whose clock was never set

AwsTarget = tuple[str | None, str | None]
"""A region and an account."""
PolledJob = RawJob | SourceProblem | None
"""What was said about one id; None: the system does not know it."""
FIRST_MS = 5_000  # how old the response that `begin` got may be as the first answer
LATER_JOB = SourceProblem(
    "nothing tells a job that has ended from a later one of the same address", lasting=True
)


class Caller(Protocol):
    """Makes the calls of one declaration. Threads may share it."""

    def call(self, target: AwsTarget, ids: Sequence[str]) -> Mapping[str, PolledJob]:
        """What the system says about each of these ids. Nothing is raised for what the system does."""

    def close(self) -> None:
        """Let go of connections."""


class DeclaredSource:
    """A `Source` for one declaration."""

    def __init__(self, declaration: Declaration, caller: Caller, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.declaration = declaration
        self._caller = caller
        self._clock = clock
        self._first: dict[
            tuple[AwsTarget, str], tuple[int, RawJob]
        ] = {}  # responses that asked to wait, and when

    @property
    def name(self) -> str:
        return self.declaration.name

    def poll(self, executions: Sequence[Execution]) -> Mapping[ExecutionKey, SourceResult]:
        at = self._clock.now_ms()
        # What such an id means now says nothing about the job that it meant when that ended.
        past = {each.key for each in executions if each.closed and self.declaration.repeats}
        places: dict[AwsTarget, dict[str, None]] = {}
        for execution in executions:
            for job in _jobs(execution) if execution.key not in past else ():
                places.setdefault((job.region, job.account), {})[job.job_id] = None
        found = {target: self._found(target, list(ids), at) for target, ids in places.items()}
        return {
            each.key: LATER_JOB if each.key in past else self._answer(each, found, at) for each in executions
        }

    def begin(
        self, what: str, *, region: str | None = None, account: str | None = None
    ) -> Execution | SourceProblem | None:
        target = (region or region_in(what), account)
        found = self._caller.call(target, [what])[what]
        if not isinstance(found, RawJob):
            return found
        said = map_status(self.declaration, found)
        if said is None:
            return no_status(self.declaration, what, found)
        asked = self._clock.now_ms()
        now = _observed_at(asked, [found.date])
        execution = new_execution(
            self.declaration, what, found, said, region=target[0], account=account, now=now
        )
        if found.again_seconds is not None:
            self._first[target, _jobs(execution)[0].job_id] = (asked, found)
        return execution

    def check(self) -> SourceProblem | None:
        return self._caller.check() if isinstance(self._caller, SourceCheck) else None

    def check_id(self, job_id: str) -> SourceProblem | None:
        shape = self.declaration.id_shape
        if shape is not None and not re.fullmatch(shape, job_id):
            return SourceProblem(
                f"{job_id!r} is not an id of {self.name}: {self.declaration.about}", lasting=True
            )
        return self._caller.check_id(job_id) if isinstance(self._caller, IdCheck) else None

    def close(self) -> None:
        self._caller.close()

    def _found(self, target: AwsTarget, ids: Sequence[str], at: int) -> Mapping[str, PolledJob]:
        """What the system says about each id. A response to `begin` that asked to wait is the first one."""
        first = {each: self._first.pop((target, each), None) for each in ids}
        found: dict[str, PolledJob] = {
            each: kept[1] for each, kept in first.items() if kept is not None and at - kept[0] <= FIRST_MS
        }
        rest = [each for each in ids if each not in found]
        return {**found, **self._caller.call(target, rest)} if rest else found

    def _answer(
        self, execution: Execution, found: Mapping[AwsTarget, Mapping[str, PolledJob]], at: int
    ) -> SourceResult:
        """The answer for one execution: whole, or a problem. A part of it could be taken for the whole."""
        jobs: dict[str, Job] = {}
        missing = set()
        dates: list[int | None] = []
        wish: float | None = None
        for job in _jobs(execution):
            thing = found[job.region, job.account][job.job_id]
            if isinstance(thing, SourceProblem):
                return thing
            if thing is None:
                missing.add(job.job_id)
                continue
            dates.append(thing.date)
            said = map_status(self.declaration, thing)
            if said is None:
                return no_status(self.declaration, job.job_id, thing)
            jobs[job.job_id] = map_job(job, mark_superseded(self.declaration, execution, thing, said))
            wish = max(wish or 0.0, thing.again_seconds) if thing.again_seconds else wish
        return SourceResponse(
            self.declaration.call.name,
            _observed_at(at, dates),
            jobs,
            frozenset(missing),
            self._next_at(execution, jobs, at, wish),
            polled_at=at,
            retry_after_seconds=wish,
            is_dated=_is_dated(at, dates),
        )

    def _next_at(
        self, execution: Execution, jobs: Mapping[str, Job], at: int, wish: float | None
    ) -> int | None:
        """When to ask again by the declaration. The deadline asks at once, unless the system has a wish."""
        waits = all(job.state is JobState.PENDING for job in jobs.values())
        declared = self.declaration
        seconds = declared.pending_seconds if waits else declared.running_seconds
        if wish is not None:
            return at + round(max(wish, seconds or 0.0) * 1000)
        if seconds is None:
            return None
        due, deadline = at + round(seconds * 1000), deadline_at(execution)
        return deadline if deadline is not None and at < deadline < due else due


def _observed_at(local_ms: int, dates: Sequence[int | None]) -> int:
    """The time of an answer by its source, or by our clock if theirs is far off.

    Events are stamped with it, and a follower of a table would miss what is stamped long ago.
    """
    return observed_at(local_ms, dates) if _is_dated(local_ms, dates) else local_ms


def _is_dated(local_ms: int, dates: Sequence[int | None]) -> bool:
    is_near = abs(observed_at(local_ms, dates) - local_ms) <= MOST_APART_MS
    return is_near and any(each is not None for each in dates)


def region_in(what: str) -> str | None:
    """The region that an ARN names."""
    parts = what.split(":")
    return parts[3] or None if len(parts) > 5 and parts[0] == "arn" else None


def _jobs(execution: Execution) -> list[Job]:
    return [job for wave in execution.stages for job in wave.jobs]

"""The disaster-recovery service of the demo: scripted jobs, asked about in DRS's own words.

With boto3 installed the real client asks the simulator over its wire protocol. Without it the same scripts
answer in this process, and the answers go through the same translation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Protocol

from longwatch.clock import Clock
from longwatch.executions.model import Execution, ExecutionKey
from longwatch.executions.responses import SourceResponse
from longwatch.executions.sources.base import Source, SourceResult
from longwatch.executions.sources.drs import CALL, DrsSource, parse_job
from longwatch.storage.aws import ClientOptions, isolated_session, make_client
from longwatch.testing.drs.scripts import JobScript, job_id_of

REGION = "eu-north-1"


class DrillService(Protocol):
    """Begins jobs."""

    def play(self, script: JobScript, *, job_id: str | None = None) -> str:
        """Begin a job now, and return its id."""


@dataclass(frozen=True, slots=True)
class Service:
    """Something that plays jobs, and the source that asks about them."""

    jobs: DrillService
    source: Source


@contextmanager
def drs_service(clock: Clock, *, speed: float, ask_again_ms: int) -> Iterator[Service]:
    """A DRS of our own, in which every second of the clock is `speed` seconds of the scripts."""
    if find_spec("boto3") is None:
        scripted = ScriptedJobs(clock, speed=speed)
        yield Service(scripted, Hasty(scripted, ask_again_ms))
        return
    from longwatch.testing.drs import DrsSimulator

    with DrsSimulator(clock=clock, speed=speed) as simulator:
        source = DrsSource(lambda region, account: _client(simulator.url), clock=clock)
        try:
            yield Service(simulator, Hasty(source, ask_again_ms))
        finally:
            source.close()


class ScriptedJobs:
    """A `Source` that reads the scripts themselves."""

    name = "drs"

    def __init__(self, clock: Clock, *, speed: float = 1.0) -> None:
        self._clock = clock
        self._speed = speed
        self._jobs: dict[str, tuple[int, JobScript]] = {}

    def play(self, script: JobScript, *, job_id: str | None = None) -> str:
        """Begin a job now, and return its id."""
        name = job_id_of(job_id or f"drsjob-{len(self._jobs) + 1}")
        self._jobs[name] = (self._clock.now_ms(), script)
        return name

    def poll(self, executions: Sequence[Execution]) -> Mapping[ExecutionKey, SourceResult]:
        now = self._clock.now_ms()
        known = {job_id: self._item(job_id, now) for job_id in self._jobs}
        jobs = {job_id: parse_job(item) for job_id, item in known.items() if item is not None}
        return {
            each.key: SourceResponse(
                CALL,
                now,
                {id_: jobs[id_] for id_ in each.job_ids() if id_ in jobs},
                polled_at=now,
                is_dated=True,
            )
            for each in executions
        }

    def close(self) -> None:
        """Nothing to let go of."""

    def _item(self, job_id: str, now: int) -> dict[str, Any] | None:
        began, script = self._jobs[job_id]
        return script.at((now - began) / 1000 * self._speed, job_id=job_id, started_at=began)


class Hasty:
    """A source that wants to be asked again soon: its minutes are seconds."""

    def __init__(self, source: Source, ask_again_ms: int) -> None:
        self.name = source.name
        self._source = source
        self._ask_again_ms = ask_again_ms

    def poll(self, executions: Sequence[Execution]) -> Mapping[ExecutionKey, SourceResult]:
        return {
            key: replace(told, next_at=told.at + self._ask_again_ms)
            if isinstance(told, SourceResponse)
            else told
            for key, told in self._source.poll(executions).items()
        }

    def close(self) -> None:
        self._source.close()


def _client(url: str) -> Any:
    """A client that nothing around it disturbs: neither a profile of somebody's account nor a proxy."""
    session = isolated_session(access_key="demo", secret_key="demo")
    options = ClientOptions(connect_seconds=2, read_seconds=5, attempts=1, use_proxies=False)
    return make_client(session, "drs", region=REGION, endpoint=url, options=options)

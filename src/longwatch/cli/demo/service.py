"""The disaster-recovery service of the demo: scripted jobs in the format of DRS.

With boto3 installed, the real client polls the simulator over its wire protocol. Without it, the same scripts
are read in this process, and mapped in the same way.
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
    """Starts jobs."""

    def play(self, script: JobScript, *, job_id: str | None = None) -> str:
        """Start a job now, and return its id."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service that plays jobs, and the source that polls it."""

    jobs: DrillService
    source: Source


@contextmanager
def drs_service(clock: Clock, *, speed: float, interval_ms: int) -> Iterator[Service]:
    """A simulated DRS in which every second of the clock is `speed` seconds of the scripts."""
    if find_spec("boto3") is None:
        scripted = ScriptedJobs(clock, speed=speed)
        yield Service(scripted, FastSource(scripted, interval_ms))
        return
    from longwatch.testing.drs import DrsSimulator

    with DrsSimulator(clock=clock, speed=speed) as simulator:
        source = DrsSource(lambda region, account: _client(simulator.url), clock=clock)
        try:
            yield Service(simulator, FastSource(source, interval_ms))
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
        """Start a job now, and return its id."""
        name = job_id_of(job_id or f"drsjob-{len(self._jobs) + 1}")
        self._jobs[name] = (self._clock.now_ms(), script)
        return name

    def poll(self, executions: Sequence[Execution]) -> Mapping[ExecutionKey, SourceResult]:
        now = self._clock.now_ms()
        items = {job_id: self._item(job_id, now) for job_id in self._jobs}
        jobs = {job_id: parse_job(item) for job_id, item in items.items() if item is not None}
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
        """Nothing to close."""

    def _item(self, job_id: str, now: int) -> dict[str, Any] | None:
        began, script = self._jobs[job_id]
        return script.at((now - began) / 1000 * self._speed, job_id=job_id, started_at=began)


class FastSource:
    """A source that is polled at this interval: its minutes are seconds."""

    def __init__(self, source: Source, interval_ms: int) -> None:
        self.name = source.name
        self._source = source
        self._interval_ms = interval_ms

    def poll(self, executions: Sequence[Execution]) -> Mapping[ExecutionKey, SourceResult]:
        return {
            key: replace(result, next_at=result.at + self._interval_ms)
            if isinstance(result, SourceResponse)
            else result
            for key, result in self._source.poll(executions).items()
        }

    def close(self) -> None:
        self._source.close()


def _client(url: str) -> Any:
    """A client without the profiles and proxies of the environment."""
    session = isolated_session(access_key="demo", secret_key="demo")
    options = ClientOptions(connect_seconds=2, read_seconds=5, attempts=1, use_proxies=False)
    return make_client(session, "drs", region=REGION, endpoint=url, options=options)

"""A simulated DRS: an HTTP server on this machine that plays scripts, and fails on request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.testing.drs.scripts import JobScript, drill, job_id_of, recovery
from longwatch.testing.services import (
    Reply,
    ServiceError,
    SimulatedService,
    parse_request,
    render_error,
    render_response,
    routes,
)

PAGE = 100  # jobs in a response, unless the caller requests fewer


class DrsSimulator(SimulatedService):
    """A DRS for one region. Each second of the clock is `speed` seconds of the scripts."""

    content_type = "application/json"

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK, speed: float = 1.0, page: int = PAGE) -> None:
        super().__init__(clock=clock)
        self.calls: Counter[str] = Counter()  # by operation, with those that failed
        self._speed = speed
        self._page = page
        self._jobs: dict[str, tuple[int, JobScript]] = {}  # with the start in epoch ms
        self._faults: list[ServiceError | None] = []  # of the next calls; None: no response
        self._denied: set[str] = set()  # operations

    def play(self, script: JobScript, *, job_id: str | None = None) -> str:
        """Start a job now, and return its id."""
        with self._lock:
            name = job_id_of(job_id or f"drsjob-{len(self._jobs) + 1}")
            self._jobs[name] = (self._clock.now_ms(), script)
        return name

    def forget(self, job_id: str) -> None:
        """Drop this job from the service."""
        with self._lock:
            del self._jobs[job_id]

    def throttle(self, times: int = 1, *, retry_after: int | None = None) -> None:
        """Fail the next calls with a ThrottlingException."""
        members = {} if retry_after is None else {"retryAfterSeconds": str(retry_after)}
        self.fail("ThrottlingException", times, **members)

    def fail(self, shape: str, times: int = 1, **members: Any) -> None:
        """Fail the next calls with this error of the service's model."""
        with self._lock:
            self._faults += [ServiceError(shape, f"{shape}, by the test", **members)] * times

    def lose_answers(self, times: int = 1) -> None:
        """Close the connection of the next calls without a response."""
        with self._lock:
            self._faults += [None] * times

    def deny(self, operation: str) -> None:
        """Deny this operation from now on."""
        with self._lock:
            self._denied.add(operation)

    def recover(self) -> None:
        """Drop all pending faults, and grant every operation."""
        with self._lock:
            self._faults.clear()
            self._denied.clear()

    def reply(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply | None:
        operation = routes().get((method, path))
        if operation is None:
            return Reply(404, b"{}", {"x-amzn-ErrorType": "UnknownOperationException"})
        with self._lock:
            self.calls[operation] += 1
            fault: ServiceError | object | None = self._faults.pop(0) if self._faults else _NONE
            if operation in self._denied:
                fault = ServiceError("AccessDeniedException", f"no right to {operation}, by the test")
        if fault is None:
            return None
        try:
            if isinstance(fault, ServiceError):
                raise fault
            return render_response(operation, self._perform(operation, parse_request(operation, body)))
        except ServiceError as error:
            return render_error(operation, error)

    def _perform(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        match operation:
            case "DescribeJobs":
                return self._describe_jobs(parameters)
            case "DescribeJobLogItems":
                return self._describe_log(parameters)
            case "StartRecovery":
                return self._start(parameters)
        raise ServiceError("InternalServerException", f"{operation} is not simulated")

    def _describe_jobs(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        wanted = parameters.get("filters", {}).get("jobIDs")
        with self._lock:
            scripts = dict(self._jobs)
        ids = sorted(scripts if not wanted else [each for each in wanted if each in scripts])
        jobs = [job for each in ids if (job := self._job(each, *scripts[each])) is not None]
        return _paged(jobs, parameters, self._page)

    def _describe_log(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            job = self._jobs.get(parameters["jobID"])
        if job is None or self._job(parameters["jobID"], *job) is None:
            return {"items": []}
        began, script = job
        return _paged(script.log_at(self._seconds(began), started_at=began), parameters, self._page)

    def _start(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Start a job that succeeds, for orchestrators under test. longwatch itself never calls this."""
        script = drill if parameters.get("isDrill") else recovery
        job_id = self.play(script(*(each["sourceServerID"] for each in parameters["sourceServers"])))
        job = self._job(job_id, *self._jobs[job_id])
        return {} if job is None else {"job": job}

    def _job(self, job_id: str, began: int, script: JobScript) -> dict[str, Any] | None:
        return script.at(self._seconds(began), job_id=job_id, started_at=began)

    def _seconds(self, began: int) -> float:
        return (self._clock.now_ms() - began) / 1000 * self._speed


_NONE = object()


def _paged(items: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any], page: int) -> dict[str, Any]:
    begin = int(parameters.get("nextToken") or 0)
    end = begin + min(page, int(parameters.get("maxResults") or page))
    return {"items": list(items[begin:end]), **({"nextToken": str(end)} if end < len(items) else {})}

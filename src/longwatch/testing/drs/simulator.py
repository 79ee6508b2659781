"""The simulated service: an HTTP server on this machine that plays scripts and fails on request."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.testing.drs.scripts import JobScript, drill, job_id_of, recovery
from longwatch.testing.services import (
    Reply,
    ServiceError,
    parse_request,
    render_error,
    render_response,
    routes,
)

PAGE = 100  # jobs in an answer, unless the caller asks for fewer


class DrsSimulator:
    """A DRS for one region. Each second of the clock is `speed` seconds of the scripts."""

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK, speed: float = 1.0, page: int = PAGE) -> None:
        self.calls: Counter[str] = Counter()  # by operation, the refused ones too
        self._clock = clock
        self._speed = speed
        self._page = page
        self._lock = threading.Lock()
        self._jobs: dict[str, tuple[int, JobScript]] = {}  # when it began, in epoch ms
        self._faults: list[ServiceError | None] = []  # of the next calls; None: the answer is lost
        self._denied: set[str] = set()  # operations
        self._server = _DrsServer(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """Where it listens: what to give as `endpoint_url`, or in AWS_ENDPOINT_URL_DRS."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def now_ms(self) -> int:
        """The time of the service, which its responses are dated with."""
        return self._clock.now_ms()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def play(self, script: JobScript, *, job_id: str | None = None) -> str:
        """Begin a job now, and return its id."""
        with self._lock:
            name = job_id_of(job_id or f"drsjob-{len(self._jobs) + 1}")
            self._jobs[name] = (self._clock.now_ms(), script)
        return name

    def forget(self, job_id: str) -> None:
        """From now on the service does not know this job."""
        with self._lock:
            del self._jobs[job_id]

    def throttle(self, times: int = 1, *, retry_after: int | None = None) -> None:
        """Answer the next calls with a ThrottlingException."""
        wish = {} if retry_after is None else {"retryAfterSeconds": str(retry_after)}
        self.fail("ThrottlingException", times, **wish)

    def fail(self, shape: str, times: int = 1, **members: Any) -> None:
        """Answer the next calls with this error of the service's model."""
        with self._lock:
            self._faults += [ServiceError(shape, f"{shape}, by the test", **members)] * times

    def lose_answers(self, times: int = 1) -> None:
        """Close the connection of the next calls without a word."""
        with self._lock:
            self._faults += [None] * times

    def deny(self, operation: str) -> None:
        """From now on the caller has no right to this operation."""
        with self._lock:
            self._denied.add(operation)

    def recover(self) -> None:
        """Forget all faults that are still to come, and grant everything."""
        with self._lock:
            self._faults.clear()
            self._denied.clear()

    def reply(self, method: str, path: str, body: bytes) -> Reply | None:
        """The answer to a request; None: no answer at all."""
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

    def _perform(self, operation: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        match operation:
            case "DescribeJobs":
                return self._describe_jobs(asked)
            case "DescribeJobLogItems":
                return self._describe_log(asked)
            case "StartRecovery":
                return self._start(asked)
        raise ServiceError("InternalServerException", f"{operation} is not simulated")

    def _describe_jobs(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        wanted = asked.get("filters", {}).get("jobIDs")
        with self._lock:
            known = dict(self._jobs)
        ids = sorted(known if not wanted else [each for each in wanted if each in known])
        jobs = [job for each in ids if (job := self._job(each, *known[each])) is not None]
        return _paged(jobs, asked, self._page)

    def _describe_log(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            known = self._jobs.get(asked["jobID"])
        if known is None or self._job(asked["jobID"], *known) is None:
            return {"items": []}
        began, script = known
        return _paged(script.log_at(self._seconds(began), started_at=began), asked, self._page)

    def _start(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a job that goes well, for orchestrators under test. longwatch itself never calls this."""
        script = drill if asked.get("isDrill") else recovery
        job_id = self.play(script(*(each["sourceServerID"] for each in asked["sourceServers"])))
        job = self._job(job_id, *self._jobs[job_id])
        return {} if job is None else {"job": job}

    def _job(self, job_id: str, began: int, script: JobScript) -> dict[str, Any] | None:
        return script.at(self._seconds(began), job_id=job_id, started_at=began)

    def _seconds(self, began: int) -> float:
        return (self._clock.now_ms() - began) / 1000 * self._speed


_NONE = object()


def _paged(items: Sequence[Mapping[str, Any]], asked: Mapping[str, Any], page: int) -> dict[str, Any]:
    begin = int(asked.get("nextToken") or 0)
    end = begin + min(page, int(asked.get("maxResults") or page))
    return {"items": list(items[begin:end]), **({"nextToken": str(end)} if end < len(items) else {})}


class _DrsServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, simulator: DrsSimulator) -> None:
        self.simulator = simulator
        super().__init__(("127.0.0.1", 0), _DrsHandler)


class _DrsHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet for head and body: else each answer waits 40 ms for an acknowledgement
    server: _DrsServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        reply = self.server.simulator.reply("POST", self.path.partition("?")[0], body)
        if reply is None:
            self.close_connection = True
            return
        self.send_response(reply.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply.body)))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    def date_time_string(self, timestamp: float | None = None) -> str:
        """The `Date` of a response, by the clock of the simulator."""
        return super().date_time_string(self.server.simulator.now_ms() / 1000)

    def log_message(self, format: str, *args: object) -> None:
        """Tests have enough to say."""

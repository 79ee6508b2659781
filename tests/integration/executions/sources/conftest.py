"""Scripted servers on this machine, and the command that polls them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from longwatch.testing import FakeClock
from longwatch.testing.services import AwsService
from tests.integration.executions.sources.shell import Shell


@dataclass
class Reply:
    """One response."""

    code: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    lost: bool = False
    late: bool = False  # comes only when the test is over
    dated: bool = True


class Endpoint:
    """Returns the replies one after the other to GET requests; the last one is repeated."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, Mapping[str, str]]] = []
        self._replies: list[Reply] = [Reply(404)]
        self._over = threading.Event()
        self.hangs = threading.Event()  # a client waits for a response that is late
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.requests.append((self.path, dict(self.headers)))
                reply = outer._replies.pop(0) if len(outer._replies) > 1 else outer._replies[0]
                if reply.late:
                    outer.hangs.set()
                    outer._over.wait()
                if reply.lost or reply.late:
                    self.close_connection = True
                    return
                (self.send_response if reply.dated else self.send_response_only)(reply.code)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def returns(self, *responses: Reply | Mapping[str, object]) -> None:
        self._replies = [
            each if isinstance(each, Reply) else Reply(body=json.dumps(each).encode()) for each in responses
        ]

    def close(self) -> None:
        self._over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


@pytest.fixture
def elsewhere() -> Iterator[Endpoint]:
    """Another host, as far as HTTP is concerned."""
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def shell(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("COLUMNS", "200")
    return Shell(clock)


@pytest.fixture
def codebuild(monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsService]:
    with AwsService("codebuild") as service:
        monkeypatch.setenv("AWS_ENDPOINT_URL_CODEBUILD", service.url)
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        yield service

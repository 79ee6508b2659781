"""The HTTP server: it takes the next reply of its script for each request, in the order of arrival."""

from __future__ import annotations

import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from longwatch.testing.model_server.anthropic_messages import MESSAGES
from longwatch.testing.model_server.bedrock_converse import CONVERSE
from longwatch.testing.model_server.openai_chat import CHAT, EMBEDDINGS
from longwatch.testing.model_server.openai_responses import RESPONSES
from longwatch.testing.model_server.script import ModelApi, ModelFailure, ModelReply, ModelRequest, WireFormat

Scripted = ModelReply | ModelFailure

FORMATS = (CHAT, EMBEDDINGS, RESPONSES, MESSAGES, CONVERSE)
EXHAUSTED = ModelFailure(400, "The script has no further reply. Add one with ModelServer.add().")


class ModelServer:
    """Plays a script of replies and failures on a free loopback port. Each request has a thread of its own.

    `respond` takes the place of the script where the reply depends on the request, as with parallel calls.
    """

    def __init__(self, *script: Scripted, respond: Callable[[ModelRequest], Scripted] | None = None) -> None:
        self._script = deque(script)
        self._respond = respond
        self._lock = threading.Lock()
        self.requests: list[ModelRequest] = []
        self._server = _HttpServer(("127.0.0.1", 0), self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="model-server", daemon=True
        )

    @property
    def url(self) -> str:
        """The base URL; OpenAI clients take it with `/v1`."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def add(self, *replies: Scripted) -> None:
        """Extend the script."""
        with self._lock:
            self._script.extend(replies)

    def start(self) -> Self:
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop the server, and cut the connections that are still open."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        self._server.cut_connections()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def take(self, request: ModelRequest) -> tuple[Scripted, int]:
        """Log the request; returns its reply and its number."""
        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
            if self._respond is None:
                return (self._script.popleft() if self._script else EXHAUSTED), number
        return self._respond(request), number


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a connection that a client keeps open must not hold up the end of a test

    def __init__(self, address: tuple[str, int], model: ModelServer) -> None:
        self.model = model
        self._connections: set[socket.socket] = set()
        super().__init__(address, _ModelHandler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def cut_connections(self) -> None:
        for connection in list(self._connections):
            with suppress(OSError):  # its own thread has closed it
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: a client that closes its connection early is part of many tests."""


class _ModelHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _HttpServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = parse_request(self.path, dict(self.headers), body)
        if found is None:
            return self._send_json(404, {"error": {"message": f"No model API at {self.path}."}})
        wire, request = found
        reply, number = self.server.model.take(request)
        if isinstance(reply, ModelFailure):
            return self._send_failure(wire, reply)
        if reply.pause is not None:
            reply.pause(0)
        if reply.cut_after == 0:
            return self._cut()
        if request.stream and wire.stream is not None:
            return self._send_stream(wire, reply, wire.stream(request, reply, number), number)
        return self._send_json(
            200, wire.respond(request, reply, number), {"x-amzn-requestid": _id(reply, number)}
        )

    def _send_failure(self, wire: WireFormat, failure: ModelFailure) -> None:
        body = wire.describe_failure(failure)
        headers = {"x-amzn-errortype": str(body["__type"])} if wire.api is ModelApi.CONVERSE else {}
        if failure.retry_after is not None:
            headers["Retry-After"] = f"{failure.retry_after:g}"
        self._send_json(failure.status, body, headers)

    def _send_stream(self, wire: WireFormat, reply: ModelReply, chunks: Iterator[bytes], number: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", wire.stream_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("x-amzn-requestid", _id(reply, number))
        self.end_headers()
        for count, chunk in enumerate(chunks, start=1):
            if reply.pause is not None:
                reply.pause(count)
            self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
            self.wfile.flush()
            if count == reply.cut_after:
                return self._cut()
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _send_json(
        self, status: int, body: Mapping[str, object], headers: Mapping[str, str] | None = None
    ) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _cut(self) -> None:
        self.close_connection = True
        with suppress(OSError):  # the client was faster
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


def parse_request(
    path: str, headers: Mapping[str, str], body: bytes
) -> tuple[WireFormat, ModelRequest] | None:
    """The API of a request and its content; None if no API has this path or the body is not a JSON object."""
    plain = urlsplit(path).path
    for wire in FORMATS:
        match = wire.path.search(plain)
        if match is None:
            continue
        try:
            content = json.loads(body or b"{}")
        except ValueError:
            return None
        if not isinstance(content, dict):
            return None
        named = match.groupdict()
        model = unquote(named["model"]) if "model" in named else str(content.get("model", ""))
        stream = bool(named["stream"] if "stream" in named else content.get("stream"))
        return wire, ModelRequest(wire.api, path, headers, content, model, stream)
    return None


def _id(reply: ModelReply, number: int) -> str:
    return reply.response_id or f"request-{number}"

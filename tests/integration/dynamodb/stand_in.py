"""A server that stands in for DynamoDB, and records its requests."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Request:
    """A request as it came in."""

    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def is_fast(self) -> bool:
        return self.headers["user-agent"] == "longwatch"


Respond = Callable[[Request], tuple[int, object, dict[str, str]]]


@dataclass
class Server:
    """Responds as a test defines."""

    respond: Respond
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    hangs_up: bool = False  # after each response, without announcing it

    def ways(self) -> str:
        """By which way each request came: `f` fast query, `b` boto3."""
        return "".join("f" if each.is_fast else "b" for each in self.requests)


@contextmanager
def serving(respond: Respond, *, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    stand_in = Server(respond)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(headers, body, self.client_address[1])
            stand_in.requests.append(request)
            status, reply, further = stand_in.respond(request)
            text = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            for name, value in further.items():
                self.send_header(name, value)
            self.end_headers()
            self.close_connection = stand_in.hangs_up  # before the response, with which the test continues
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        stand_in.url = f"{'http' if tls is None else 'https'}://localhost:{server.server_port}"
        try:
            yield stand_in
        finally:
            server.shutdown()
            thread.join()

"""POST requests of notifications: limited in time, to allowed addresses, and without redirects."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import URLError

import pytest

from longwatch.storage import http
from longwatch.storage.http import MAX_REPLY_BYTES, post
from longwatch.storage.outgoing import ForbiddenAddress, OutgoingAddresses

Respond = Callable[[BaseHTTPRequestHandler], None]
LOOPBACK = OutgoingAddresses(("127.0.0.1",), is_public_only=True)


class Receiver:
    """A server on loopback, and what it received."""

    def __init__(self) -> None:
        self.received: list[tuple[str, str | None, bytes]] = []
        self.respond: Respond = lambda request: reply(request, 204)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.received.append((self.path, self.headers["X-Signature"], body))
                receiver.respond(self)

            do_GET = do_POST

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


def reply(request: BaseHTTPRequestHandler, code: int, body: bytes = b"", **headers: str) -> None:
    request.send_response(code)
    for name, value in {**headers, "Content-Length": str(len(body))}.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(body)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, args=(0.05,))
    thread.start()
    yield receiver
    receiver.server.shutdown()
    thread.join()
    receiver.server.server_close()


def test_the_body_and_the_headers_arrive(receiver: Receiver) -> None:
    response = post(f"{receiver.url}/hook", {"X-Signature": "s"}, b"body", addresses=LOOPBACK)

    assert response.code == 204
    assert receiver.received == [("/hook", "s", b"body")]


def test_the_response_is_truncated(receiver: Receiver) -> None:
    receiver.respond = lambda request: reply(request, 500, b"x" * 100_000)

    response = post(receiver.url, {}, b"", addresses=LOOPBACK)

    assert (response.code, len(response.body)) == (500, MAX_REPLY_BYTES)


def test_a_redirect_is_returned_instead_of_followed(receiver: Receiver) -> None:
    receiver.respond = lambda request: reply(request, 307, Location=f"{receiver.url}/else")

    assert post(receiver.url, {}, b"", addresses=LOOPBACK).code == 307
    assert len(receiver.received) == 1


def test_nothing_is_sent_to_an_address_that_is_not_allowed(receiver: Receiver) -> None:
    port = receiver.url.rpartition(":")[2]

    for address in ("http://127.0.0.1", "http://localhost", "https://localhost"):
        with pytest.raises(URLError) as failed:
            post(f"{address}:{port}", {}, b"secret", addresses=OutgoingAddresses(is_public_only=True))
        assert isinstance(failed.value.reason, ForbiddenAddress)
    assert receiver.received == []


def test_a_server_that_never_finishes_its_headers_is_left(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "TOTAL_SECONDS", 0.3)
    left = threading.Event()

    def drip(request: BaseHTTPRequestHandler) -> None:
        try:
            request.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while not left.wait(0.02):
                request.wfile.write(b"X-More: 1\r\n")
        except OSError:
            left.set()

    receiver.respond = drip
    with pytest.raises(TimeoutError, match="no complete response"):
        post(receiver.url, {}, b"", addresses=LOOPBACK)
    left.set()

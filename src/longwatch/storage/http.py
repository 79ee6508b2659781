"""The blocking HTTP client, on the standard library alone.

`HttpClient` sends one request and returns the response, whatever its status. How a response is read differs
between callers on purpose:

- `fetched`, for sources: whole, or not at all. An answer that was cut off could be taken for another. So its
  length is held against what was announced, and time, size and redirects have an end, whatever the server
  does. Headers, which may hold secrets, follow a redirect only to the same origin.
- `longwatch.remote.blocking_client`: a long poll has no end but its timeout, a refusal counts by its status
  even if its body is cut off, and a redirect is a refusal, because a token is for the server that was named.
- `longwatch.aws.invoker`: of an agent's answer the beginning is read; a redirect is a refusal, because the
  library would repeat the POST as a GET without its payload.

Two clients do without it: `longwatch.remote.client` has many polls on one event loop (httpx2), and
`longwatch.storage.dynamodb.fast_query` keeps its connections open to save time on each query.
"""

from __future__ import annotations

import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import Any
from urllib.parse import urljoin, urlsplit

TIMEOUT_SECONDS = 10.0  # without a byte
WHOLE_SECONDS = 30.0  # for an answer with all of its redirects
MOST_BYTES = 1024 * 1024
MOST_REDIRECTS = 5
AGENT = "longwatch"

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_WITHOUT_BODY = frozenset({204, 205, 304})
_CHUNK_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """One answer."""

    code: int
    body: bytes
    headers: Message
    moved_to: str | None = None  # where it came from, if not from the address that was asked for


class HttpClient:
    """Sends requests, each on a connection of its own. Threads may share it."""

    def __init__(
        self,
        *handlers: urllib.request.BaseHandler,
        use_proxies: bool = True,  # of the environment
    ) -> None:
        added = [*handlers, _NoRedirects()]
        if not use_proxies:
            added.append(urllib.request.ProxyHandler({}))
        # Made once: from Python 3.12 on, an opener reads the certificates of the machine.
        self._opener = urllib.request.build_opener(*added)

    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout_seconds: float,  # without a byte
    ) -> HTTPResponse:
        """The response, which the caller closes; a refusal and a redirect are responses too.

        Raises OSError, HTTPException or ValueError where there is none.
        """
        request = urllib.request.Request(url, data=body, headers=dict(headers), method=method)
        response: Any
        try:
            response = self._opener.open(request, timeout=timeout_seconds)
        except urllib.error.HTTPError as error:
            response = error  # which reads like any response
        return response  # type: ignore[no-any-return]


def fetched(url: str, headers: Mapping[str, str]) -> HttpResponse:
    """The answer of this address. Raises ValueError for what asking again does not mend, else OSError or
    HTTPException."""
    until = time.monotonic() + WHOLE_SECONDS
    address, sent = url, {"User-Agent": AGENT, "Accept": "application/json, */*", **headers}
    for _ in range(MOST_REDIRECTS + 1):
        page = _one(address, sent, until)
        location = page.headers["Location"]
        if page.code not in _REDIRECTS or not location:
            moved = None if address == url else address
            return HttpResponse(page.code, page.body, page.headers, moved)
        there = followed(address, location)
        if _origin(there) != _origin(address):
            sent = {"User-Agent": AGENT, "Accept": sent["Accept"]}
        address = there
    raise ValueError(f"there are more than {MOST_REDIRECTS} redirects, so nothing tells a status")


def followed(address: str, location: str) -> str:
    """Where a redirect leads. Raises ValueError if it is not followed, and tells no secret of it."""
    host = urlsplit(address).netloc
    try:
        there = urljoin(address, location)
        parts = urlsplit(there)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise ValueError(there)
    except ValueError:
        raise ValueError(f"{host} redirects to something that is no address of an HTTP server") from None
    if urlsplit(address).scheme == "https" and parts.scheme != "https":
        raise ValueError(f"{host} redirects from https to http, where anybody on the way could answer")
    return there


def _one(url: str, headers: Mapping[str, str], until: float) -> HttpResponse:
    """One answer, which may be a redirect. The body of that is not read."""
    with _ended_at(until) as line:
        client = HttpClient(_Plain(line), _Secure(line))
        try:
            response = client.send("GET", url, headers=headers, timeout_seconds=TIMEOUT_SECONDS)
        except (OSError, HTTPException):
            line.check()
            raise
        with response:
            code = response.status or 0
            body = b"" if code in _REDIRECTS else _body(response, line)
            line.check()
            return HttpResponse(code, body, response.headers)


def _body(response: HTTPResponse, line: _HttpConnection) -> bytes:
    body = b""
    while chunk := response.read1(_CHUNK_BYTES):
        body += chunk
        if len(body) > MOST_BYTES:
            raise ValueError(f"the answer is longer than {MOST_BYTES:,} bytes, so it is no status")
        line.check()
    line.check()
    announced = response.headers["Content-Length"]
    is_chunked = "chunked" in str(response.headers["Transfer-Encoding"] or "").casefold()
    if response.status in _WITHOUT_BODY or is_chunked:  # who breaks off a chunked answer is found out
        return body
    if announced is not None and announced.isdecimal() and len(body) < int(announced):
        raise IncompleteRead(body, int(announced) - len(body))
    if announced is None and not body:  # as if the connection was lost among the headers
        raise IncompleteRead(body)
    return body


class _HttpConnection:
    """The connection of a request, which is cut when its time is up: also while headers drip in."""

    def __init__(self, until: float) -> None:
        self._until = until
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def hold(self, connected: socket.socket) -> None:
        with self._lock:
            self._socket = connected
        self.check()

    def check(self) -> None:
        if time.monotonic() >= self._until:
            raise TimeoutError(f"no whole answer within {WHOLE_SECONDS:.0f} s")

    def cut(self) -> None:
        with self._lock, suppress(OSError):
            if self._socket is not None:
                # Not the method of a TLS socket, which would take from the reader what it reads with.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


@contextmanager
def _ended_at(until: float) -> Iterator[_HttpConnection]:
    line = _HttpConnection(until)
    timer = threading.Timer(max(0.0, until - time.monotonic()), line.cut)
    timer.daemon = True
    timer.start()
    try:
        yield line
    finally:
        timer.cancel()


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, line: _HttpConnection) -> None:
        super().__init__()
        self._line = line

    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        line = self._line

        class Connection(HTTPConnection):
            def connect(self) -> None:
                super().connect()
                line.hold(self.sock)

        return self.do_open(Connection, req)


class _Secure(urllib.request.HTTPSHandler):
    def __init__(self, line: _HttpConnection) -> None:
        super().__init__()
        self._line = line

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        line = self._line

        class Connection(HTTPSConnection):
            def connect(self) -> None:
                super().connect()
                line.hold(self.sock)

        return self.do_open(Connection, req)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Leaves redirects to us: the library reads all of a redirect's body first, however long that is."""

    def _not_followed(self, *_: object) -> None:
        return None

    http_error_301 = http_error_302 = http_error_303 = _not_followed  # type: ignore[assignment]
    http_error_307 = http_error_308 = _not_followed  # type: ignore[assignment]


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port

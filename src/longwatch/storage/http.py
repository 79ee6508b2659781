"""The blocking HTTP client, on the standard library alone.

`HttpClient` sends one request and returns the response, whatever its status. Callers read a response
differently on purpose:

- `fetch`, for sources, returns a complete response or raises: a truncated body could pass for another status.
  It compares the length with Content-Length and limits time, size and redirects. Headers, which may contain
  secrets, are sent on after a redirect only to the same origin.
- `post`, for notifications, limits the time and the addresses. Redirects are not followed.
- `longwatch.remote.blocking_client`: a long poll is limited by its timeout only. An error status counts even
  if its body is truncated. A redirect is an error, because a token belongs to the server that was named.
- `longwatch.aws.invoker` reads the beginning of an agent's response. A redirect is an error, because urllib
  would repeat the POST as a GET without its payload.

Two clients do not use it: `longwatch.remote.client` runs many polls on one event loop (httpx2), and
`longwatch.storage.dynamodb.fast_query` reuses its connections to save time on each query.
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

from longwatch.storage.outgoing import ForbiddenAddress, OutgoingAddresses

TIMEOUT_SECONDS = 10.0  # without a byte
TOTAL_SECONDS = 30.0  # for a response with all of its redirects
MAX_BYTES = 1024 * 1024
MAX_REPLY_BYTES = 4_096  # of a response to a POST
MAX_REDIRECTS = 5
AGENT = "longwatch"

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_WITHOUT_BODY = frozenset({204, 205, 304})
_CHUNK_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A complete response."""

    code: int
    body: bytes
    headers: Message
    moved_to: str | None = None  # the last URL, if the request was redirected


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
        # Created once: from Python 3.12 on, an opener loads the machine's certificates.
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
        """The response, of any status; the caller closes it.

        Raises OSError, HTTPException or ValueError if there is no response.
        """
        request = urllib.request.Request(url, data=body, headers=dict(headers), method=method)
        response: Any
        try:
            response = self._opener.open(request, timeout=timeout_seconds)
        except urllib.error.HTTPError as error:
            response = error  # can be read like any response
        return response  # type: ignore[no-any-return]


def fetch(url: str, headers: Mapping[str, str]) -> HttpResponse:
    """GET this URL. Raises ValueError if a retry does not help, else OSError or HTTPException."""
    until = time.monotonic() + TOTAL_SECONDS
    target, sent = url, {"User-Agent": AGENT, "Accept": "application/json, */*", **headers}
    for _ in range(MAX_REDIRECTS + 1):
        page = _get_once(target, sent, until)
        location = page.headers["Location"]
        if page.code not in _REDIRECTS or not location:
            moved = None if target == url else target
            return HttpResponse(page.code, page.body, page.headers, moved)
        target_before, target = target, resolve_redirect(target, location)
        if _origin(target) != _origin(target_before):
            sent = {"User-Agent": AGENT, "Accept": sent["Accept"]}
    raise ValueError(f"more than {MAX_REDIRECTS} redirects and no status")


def post(
    url: str, headers: Mapping[str, str], body: bytes, *, addresses: OutgoingAddresses | None = None
) -> HttpResponse:
    """POST to this URL, if its address is allowed. Redirects are not followed.

    The body of the response is truncated. Raises ValueError if a retry does not help, else OSError or
    HTTPException.
    """
    with _deadline(time.monotonic() + TOTAL_SECONDS, addresses) as line:
        client = HttpClient(_Plain(line), _Secure(line))
        try:
            response = client.send(
                "POST",
                url,
                headers={"User-Agent": AGENT, **headers},
                body=body,
                timeout_seconds=TIMEOUT_SECONDS,
            )
        except (OSError, HTTPException):
            line.check()
            raise
        with response:
            read = b""
            with suppress(OSError, HTTPException):  # the status has arrived, which is what counts
                read = response.read(MAX_REPLY_BYTES)
            line.check()
            return HttpResponse(response.status or 0, read, response.headers)


def resolve_redirect(url: str, location: str) -> str:
    """The URL that a redirect leads to. Raises ValueError, without any secret, if it is not followed."""
    host = urlsplit(url).netloc
    try:
        target = urljoin(url, location)
        parts = urlsplit(target)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise ValueError(target)
    except ValueError:
        raise ValueError(f"{host} redirects to an invalid HTTP URL") from None
    if urlsplit(url).scheme == "https" and parts.scheme != "https":
        raise ValueError(f"{host} redirects from https to http, which is not followed")
    return target


def _get_once(url: str, headers: Mapping[str, str], until: float) -> HttpResponse:
    """One response; the body of a redirect is not read."""
    with _deadline(until) as line:
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
        if len(body) > MAX_BYTES:
            raise ValueError(f"the response is longer than {MAX_BYTES:,} bytes")
        line.check()
    line.check()
    announced = response.headers["Content-Length"]
    is_chunked = "chunked" in str(response.headers["Transfer-Encoding"] or "").casefold()
    if response.status in _WITHOUT_BODY or is_chunked:  # a truncated chunked body raises by itself
        return body
    if announced is not None and announced.isdecimal() and len(body) < int(announced):
        raise IncompleteRead(body, int(announced) - len(body))
    if announced is None and not body:  # the connection may have been lost among the headers
        raise IncompleteRead(body)
    return body


class _HttpConnection:
    """The connection of a request; cut at the deadline, even while headers arrive slowly."""

    def __init__(self, until: float, addresses: OutgoingAddresses | None = None) -> None:
        self._until = until
        self._addresses = addresses
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def check_address(self, connected: socket.socket, host: str) -> None:
        """Raise `ForbiddenAddress` unless the address of the connection is allowed."""
        if self._addresses is not None:
            self._addresses.check(connected.getpeername()[0], host)

    def hold(self, connected: socket.socket) -> None:
        with self._lock:
            self._socket = connected
        self.check()

    def check(self) -> None:
        if time.monotonic() >= self._until:
            raise TimeoutError(f"no complete response within {TOTAL_SECONDS:.0f} s")

    def cut(self) -> None:
        with self._lock, suppress(OSError):
            if self._socket is not None:
                # Not the method of a TLS socket, which would drop the TLS state that a reader still uses.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


@contextmanager
def _deadline(until: float, addresses: OutgoingAddresses | None = None) -> Iterator[_HttpConnection]:
    line = _HttpConnection(until, addresses)
    timer = threading.Timer(max(0.0, until - time.monotonic()), line.cut)
    timer.daemon = True
    timer.start()
    try:
        yield line
    finally:
        timer.cancel()


class _CheckedConnection(HTTPConnection):
    """Checks the address of the connection before anything is sent, a TLS handshake included.

    A check of the name before could have got another address.
    """

    line: _HttpConnection
    is_proxied: bool  # by a proxy of the environment, which decides about addresses itself

    def connect(self) -> None:
        super().connect()
        if not self.is_proxied:
            try:
                self.line.check_address(self.sock, self.host)
            except ForbiddenAddress:
                self.close()
                raise


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, line: _HttpConnection) -> None:
        super().__init__()
        self._line = line

    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        class Connection(_CheckedConnection):
            line, is_proxied = self._line, req.has_proxy()

            def connect(self) -> None:
                super().connect()
                self.line.hold(self.sock)

        return self.do_open(Connection, req)


class _Secure(urllib.request.HTTPSHandler):
    def __init__(self, line: _HttpConnection) -> None:
        super().__init__()
        self._line = line

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        class Connection(HTTPSConnection, _CheckedConnection):
            line, is_proxied = self._line, getattr(req, "_tunnel_host", None) is not None

            def connect(self) -> None:
                super().connect()
                self.line.hold(self.sock)

        return self.do_open(Connection, req)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Returns redirects as responses: urllib would first read the whole body, however long."""

    def _keep(self, *_: object) -> None:
        return None

    http_error_301 = http_error_302 = http_error_303 = _keep  # type: ignore[assignment]
    http_error_307 = http_error_308 = _keep  # type: ignore[assignment]


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port

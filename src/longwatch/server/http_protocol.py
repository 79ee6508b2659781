"""uvicorn's HTTP protocol with limits on the size and time of headers and on the number of connections."""

from __future__ import annotations

import asyncio
import http
from functools import partial
from typing import Any, NoReturn

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from longwatch.server.access.limits import ServerLimits
from longwatch.server.errors import ApiError


class LimitedProtocol(HttpToolsProtocol):
    """Rejects requests that exceed a limit before the application receives them."""

    def __init__(self, *args: Any, limits: ServerLimits, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = limits
        self._header_bytes = 0
        self._unread = 0  # bytes since headers were last expected
        self._error: ApiError | None = None
        self._timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections:
            self._error = ApiError(
                503,
                "too_many_connections",
                "Too many open connections. Retry later.",
                headers={"Retry-After": "5"},
            )
            self.send_400_response("")
        else:
            self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timeout()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._timeout is not None and not self.transport.is_closing():
            # The parser reports a header at its end: a header without an end must not fill the memory.
            self._unread += len(data)
            if self._unread > self._limits.header_bytes + self._limits.target_bytes:
                self._error = self._limits.headers_too_large()
                self.send_400_response("")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._header_bytes = 0
        if self._timeout is None:
            self._expect_headers()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self._limits.target_bytes:
            self._reject(self._limits.url_too_long())

    def on_header(self, name: bytes, value: bytes) -> None:
        limits = self._limits
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > limits.header_bytes or len(self.headers) >= limits.header_count:
            self._reject(self._limits.headers_too_large())
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._cancel_timeout()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Send the error of a limit, or that the request is not HTTP."""
        self._cancel_timeout()
        error = self._error or ApiError(
            400, "bad_request", "Not an HTTP/1.1 request. Check the client or the proxy."
        )
        body = error.body
        phrase = http.HTTPStatus(error.status).phrase
        headers = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "connection": "close",
            **error.headers,
        }
        lines = [
            f"HTTP/1.1 {error.status} {phrase}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)
        self.transport.close()

    def _reject(self, error: ApiError) -> NoReturn:
        # An error in a callback stops the parser, and uvicorn calls `send_400_response`.
        self._error = error
        raise error

    def _expect_headers(self) -> None:
        self._unread = 0
        self._timeout = self.loop.call_later(self._limits.header_seconds, self._time_out)

    def _cancel_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def _time_out(self) -> None:
        self._timeout = None
        if not self.transport.is_closing():
            self._error = ApiError(
                408,
                "request_timeout",
                f"The headers did not arrive within {self._limits.header_seconds:g} s.",
            )
            self.send_400_response("")


def limited_protocol(limits: ServerLimits) -> Any:
    """The protocol for uvicorn's configuration, which makes one for each connection."""
    return partial(LimitedProtocol, limits=limits)

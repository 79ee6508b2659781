"""uvicorn's HTTP protocol with limits of its own: headers have a size and a time, connections a number."""

from __future__ import annotations

import asyncio
import http
from functools import partial
from typing import Any, NoReturn

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from longwatch.server.access.limits import ServerLimits
from longwatch.server.errors import ApiError


class LimitedProtocol(HttpToolsProtocol):
    """Refuses what is too large, too slow or too much before an application sees it."""

    def __init__(self, *args: Any, limits: ServerLimits, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = limits
        self._header_bytes = 0
        self._unread = 0  # bytes since headers were last expected
        self._refusal: ApiError | None = None
        self._too_late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections:
            self._refusal = ApiError(
                503,
                "too_many_connections",
                "Too many connections are open. Try again later.",
                headers={"Retry-After": "5"},
            )
            self.send_400_response("")
        else:
            self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._too_late is not None and not self.transport.is_closing():
            # The parser tells of a header when it has ended: one that never does must not fill the memory.
            self._unread += len(data)
            if self._unread > self._limits.header_bytes + self._limits.target_bytes:
                self._refusal = self._headers_too_large()
                self.send_400_response("")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._header_bytes = 0
        if self._too_late is None:
            self._expect_headers()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self._limits.target_bytes:
            most = self._limits.target_bytes
            self._refuse(
                ApiError(414, "uri_too_long", f"The address is longer than {most} bytes. Ask for less.")
            )

    def on_header(self, name: bytes, value: bytes) -> None:
        limits = self._limits
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > limits.header_bytes or len(self.headers) >= limits.header_count:
            self._refuse(self._headers_too_large())
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._headers_came()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Our own refusal if there is one, else that the request is no HTTP."""
        self._headers_came()
        error = self._refusal or ApiError(
            400, "bad_request", "This is no HTTP/1.1 request. Check the client or the proxy."
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

    def _headers_too_large(self) -> ApiError:
        limits = self._limits
        return ApiError(
            431,
            "request_header_fields_too_large",
            f"A request may have {limits.header_count} headers of {limits.header_bytes} bytes together. "
            "Send fewer.",
        )

    def _refuse(self, error: ApiError) -> NoReturn:
        # An error in a callback stops the parser, and uvicorn answers with `send_400_response`.
        self._refusal = error
        raise error

    def _expect_headers(self) -> None:
        self._unread = 0
        self._too_late = self.loop.call_later(self._limits.header_seconds, self._headers_too_late)

    def _headers_came(self) -> None:
        if self._too_late is not None:
            self._too_late.cancel()
            self._too_late = None

    def _headers_too_late(self) -> None:
        self._too_late = None
        if not self.transport.is_closing():
            self._refusal = ApiError(408, "request_timeout", "No whole request came in good time.")
            self.send_400_response("")


def limited_protocol(limits: ServerLimits) -> Any:
    """The protocol for uvicorn's configuration, which makes one for each connection."""
    return partial(LimitedProtocol, limits=limits)

"""Checks every request in plain ASGI: hosts, origins, tokens, sizes, times and rates.

It runs for every status poll as well, so it reads each header once and builds nothing that it does not need.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from longwatch.server.access.limits import Rates, ServerLimits, Slots, Traffic
from longwatch.server.access.origins import Hosts, add_common_headers, preflight
from longwatch.server.access.scopes import WEBSOCKET, has_route, required_scope
from longwatch.server.access.subprotocols import without_token
from longwatch.server.access.tokens import Access, TokenScope
from longwatch.server.errors import NOT_FOUND, ApiError
from longwatch.server.page.plain_pages import wants_page

log = logging.getLogger("longwatch.server")

DISCARDED_BODIES = 4  # times the limit of a body, which are read of a rejected one
DISCARD_SECONDS = 2.0
API = "/api/"
GRANTED = "longwatch.granted"  # in the scope of a WebSocket: the `TokenScope` of its handshake, or None
MCP_PATH = "/mcp"
READING = frozenset({"GET", "HEAD", "OPTIONS"})
GUARDED_HEADERS = frozenset(
    {
        b"host",
        b"origin",
        b"content-length",
        b"sec-fetch-site",
        b"sec-fetch-mode",
        b"access-control-request-method",
    }
)

FindCached = Callable[[Scope], tuple[Message, Message] | None]
"""The two messages of a cached response, or None."""


@dataclass(slots=True)
class RequestHeaders:
    """The headers of a request that the guard needs."""

    host: str | None = None
    origin: str | None = None
    length: int | None = None
    fetch_site: bytes = b""
    fetch_mode: bytes = b""
    is_preflight: bool = False


class Guard:
    """Passes a request to the application, or rejects it."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        access: Access,
        hosts: Hosts,
        limits: ServerLimits,
        closing: asyncio.Event,
        traffic: Traffic | None = None,
        find_cached: FindCached = lambda scope: None,
    ) -> None:
        self._traffic = traffic or Traffic()
        self._app = app
        self._find_cached = find_cached
        self._access = access
        self._hosts = hosts
        self._limits = limits
        self._closing = closing
        self._rates = Rates(limits.writes_per_second, limits.writes_at_once)
        self._slots = Slots(limits.streams, limits.streams_per_client, self._traffic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        self._traffic.requests += 1
        shared: str | None = None
        try:
            headers = self._read_headers(scope)
            self._check_names(headers)
            if headers.origin is not None and headers.origin in self._hosts.origins:
                shared = headers.origin
                if headers.is_preflight and scope["method"] == "OPTIONS":
                    await preflight(send, shared)
                    return
            self._check_scope(scope)
            if scope["type"] == "websocket":
                inner, reply = without_token(scope, send)
                inner[GRANTED] = self._access.scope_of(scope["headers"], scope.get("subprotocols", ()))
                await self._hold(inner, receive, reply)
            elif scope["method"] not in READING:
                await self._write(scope, receive, add_common_headers(send, shared), headers)
            elif _is_held(scope):
                await self._hold(scope, receive, add_common_headers(send, shared))
            elif shared is None and (cached := self._find_cached(scope)) is not None:
                start, body = cached
                await send(start)
                await send(body)
            else:
                await self._respond(scope, receive, add_common_headers(send, shared))
        except ApiError as error:
            self._traffic.refused += 1
            log.debug("rejected %s %s: %s", scope.get("method", "WS"), scope["path"], error.code)
            await send_error(scope, add_common_headers(send, shared), error)

    def _read_headers(self, scope: Scope) -> RequestHeaders:
        limits, found, size = self._limits, RequestHeaders(), 0
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > limits.target_bytes:
            raise limits.url_too_long()
        for name, value in headers:
            size += len(name) + len(value)
            if name not in GUARDED_HEADERS:
                continue
            if name == b"host":
                if found.host is not None:
                    raise ApiError(400, "bad_request", "The request has two Host headers. Send one.")
                found.host = value.decode("latin-1")
            elif name == b"origin":
                found.origin = value.decode("latin-1")
            elif name == b"content-length":
                found.length = int(value[:18]) if value.isdigit() else None  # 18 digits exceed any limit
            elif name == b"sec-fetch-site":
                found.fetch_site = value
            elif name == b"sec-fetch-mode":
                found.fetch_mode = value
            elif name == b"access-control-request-method":
                found.is_preflight = True
        if len(headers) > limits.header_count or size > limits.header_bytes:
            raise limits.headers_too_large()
        return found

    def _check_names(self, headers: RequestHeaders) -> None:
        if headers.host is None:
            raise ApiError(400, "bad_request", "The request has no Host header. Send one.")
        if not self._hosts.serves(headers.host):
            raise ApiError(
                403,
                "foreign_host",
                f"Host {headers.host[:100]!r} is not allowed. Allow it with --allow-host.",
            )
        if headers.origin is not None:
            if not self._hosts.admits(headers.origin, headers.host):
                raise ApiError(
                    403,
                    "foreign_origin",
                    f"Origin {headers.origin[:100]!r} is not allowed. Allow it with --allow-origin.",
                )
        elif headers.fetch_site == b"cross-site" and headers.fetch_mode != b"navigate":
            raise ApiError(
                403,
                "foreign_origin",
                "Other sites may not load this. Allow their origin with --allow-origin.",
            )

    def _check_scope(self, scope: Scope) -> None:
        if self._access.is_open:
            return
        required = required_scope(scope.get("method", WEBSOCKET), scope["path"])
        if required is None:
            return
        granted = self._access.scope_of(scope["headers"], scope.get("subprotocols", ()))
        if granted is None or not granted.allows(required):
            raise missing_scope(scope, granted)

    async def _write(self, scope: Scope, receive: Receive, send: Send, headers: RequestHeaders) -> None:
        wait_seconds = self._rates.take(client_of(scope), asyncio.get_running_loop().time())
        if wait_seconds:
            raise ApiError(
                429,
                "too_many_requests",
                "Too many writes. Retry after the seconds in Retry-After, and send more events at once.",
                headers={"Retry-After": str(ceil(wait_seconds))},
            )
        try:
            body = await self._body(receive, headers)
        except ApiError as error:
            if error.status == 413 and not any(name == b"expect" for name, _ in scope["headers"]):
                await _discard(receive, DISCARDED_BODIES * self._limits.body_bytes)
            raise
        if body is None:
            return
        if scope["path"] != MCP_PATH:
            await self._respond(scope, _replay(body, receive), send)
            return
        with self._slots.held(client_of(scope)) as is_free:  # the response may be a stream
            if not is_free:
                raise _too_many_streams()
            await self._respond(scope, _replay(body, receive), send)

    async def _body(self, receive: Receive, headers: RequestHeaders) -> bytes | None:
        """The whole body within the time limit; None if the client disconnected."""
        most = self._limits.body_bytes
        if headers.length is not None and headers.length > most:
            raise _too_large(most)
        parts: list[bytes] = []
        size, more = 0, True
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    part = message.get("body", b"")
                    size += len(part)
                    if size > most:
                        raise _too_large(most)
                    parts.append(part)
                    more = message.get("more_body", False)
        except asyncio.CancelledError:
            if self._closing.is_set():
                raise _closing() from None
            raise
        except TimeoutError:
            seconds = self._limits.body_seconds
            raise ApiError(
                408,
                "request_timeout",
                f"The body did not arrive within {seconds:g} s. Retry.",
                headers={"Connection": "close"},
            ) from None
        return b"".join(parts)

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application respond within the time limit, or until the server shuts down."""
        started = False
        try:
            async with asyncio.timeout(self._limits.answer_seconds) as limit:

                async def record(message: Message) -> None:
                    nonlocal started
                    if not started:
                        started = True
                        limit.reschedule(None)
                    await send(message)

                await self._app(scope, receive, record)
        except TimeoutError:
            if started:
                raise
            raise ApiError(
                503,
                "too_slow",
                f"No response within {self._limits.answer_seconds:g} s. Request less, or retry.",
                headers={"Retry-After": "5"},
            ) from None
        except asyncio.CancelledError:
            if not self._closing.is_set():
                raise
            if not started:
                raise _closing() from None

    async def _hold(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a stream, socket or long poll. Their number is limited; each ends when its client leaves."""
        with self._slots.held(client_of(scope)) as is_free:
            if not is_free:
                raise _too_many_streams()
            if scope["type"] == "http" and b"wait=" in scope["query_string"]:
                await self._poll(scope, receive, send)
                return
            try:
                await self._app(scope, receive, send)
            except asyncio.CancelledError:
                # The stream did not end in time, because its client had stopped reading.
                if not self._closing.is_set():
                    raise

    async def _poll(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        responding = loop.create_task(self._respond(scope, _no_body, send))
        leaving = loop.create_task(_wait_for_disconnect(receive))
        try:
            await asyncio.wait((responding, leaving), return_when=asyncio.FIRST_COMPLETED)
            if responding.done():
                responding.result()
        finally:
            for task in (responding, leaving):
                task.cancel()
            await asyncio.gather(responding, leaving, return_exceptions=True)


def missing_scope(scope: Scope, granted: TokenScope | None) -> ApiError:
    """The error of a rejected request. Only browsers and clients with a token learn about unknown routes."""
    path, method = scope["path"], scope.get("method", WEBSOCKET)
    is_page = wants_page(scope) and not path.startswith(API)
    if not has_route(path) and (granted is not None or is_page):
        return ApiError(404, NOT_FOUND, f"No route {path[:200]}. GET /openapi.json lists every route.")
    if granted is None:
        return ApiError(
            401,
            "unauthorized",
            "Token required. Send it as `Authorization: Bearer …`, or open /login in a browser.",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return ApiError(403, "forbidden", f"{method} {path[:200]} needs a token with the write scope.")


def client_of(scope: Scope) -> str:
    """The client that rates and slots are counted for."""
    client = scope.get("client")
    return client[0] if client else ""


def _is_held(scope: Scope) -> bool:
    return b"wait=" in scope["query_string"] or scope["path"] == "/api/stream"


async def send_error(scope: Scope, send: Send, error: ApiError) -> None:
    """Send the error, also instead of a WebSocket's handshake."""
    if scope["type"] == "http":
        await error.response_to(scope)(scope, _no_body, send)
    elif "websocket.http.response" in scope.get("extensions", {}):
        headers = [(b"content-type", b"application/json")]
        await send({"type": "websocket.http.response.start", "status": error.status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": error.body})
    else:
        await send({"type": "websocket.close", "code": 1008, "reason": error.code})


def _closing() -> ApiError:
    return ApiError(503, "closing", "The server is shutting down. Retry.", headers={"Retry-After": "1"})


def _too_many_streams() -> ApiError:
    return ApiError(
        503,
        "too_many_streams",
        "Too many open streams. Close one, or poll without `wait`.",
        headers={"Retry-After": "5"},
    )


def _too_large(most: int) -> ApiError:
    return ApiError(
        413,
        "content_too_large",
        f"The body is larger than {most} bytes. Split it.",
        headers={"Connection": "close"},
    )


async def _discard(receive: Receive, most: int) -> None:
    """Read and drop the rest of a rejected body, up to a limit.

    A client that sends the whole body before it reads, as `http.client` does, would find the connection
    closed and never receive the response.
    """
    size, more = 0, True
    with suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_SECONDS):
            while more and size < most:
                message = await receive()
                size += len(message.get("body", b""))
                more = message.get("more_body", False)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns a body that was read already."""
    is_sent = False

    async def replay() -> MutableMapping[str, Any]:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _no_body() -> MutableMapping[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _wait_for_disconnect(receive: Receive) -> None:
    """Return when the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass

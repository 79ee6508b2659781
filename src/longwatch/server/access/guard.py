"""Stands before every request: names, origins, tokens, sizes, times and rates, in plain ASGI.

It runs for every status poll too, so it looks at each header once and builds nothing it does not need.
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
from longwatch.server.access.origins import Hosts, preflight, sharing
from longwatch.server.access.scopes import WEBSOCKET, has_route, required_scope
from longwatch.server.access.tokens import Access, TokenScope
from longwatch.server.errors import NOT_FOUND, ApiError
from longwatch.server.page.plain_pages import wants_page

log = logging.getLogger("longwatch.server")

DISCARDED_BODIES = 4  # times the limit of a body, that are read of a refused one
DISCARD_SECONDS = 2.0
API = "/api/"
READING = frozenset({"GET", "HEAD", "OPTIONS"})
LOOKED_AT = frozenset(
    {
        b"host",
        b"origin",
        b"content-length",
        b"sec-fetch-site",
        b"sec-fetch-mode",
        b"access-control-request-method",
    }
)

Quick = Callable[[Scope], tuple[Message, Message] | None]
"""Answers at once what can be answered without waiting: the two messages, or None."""


@dataclass(slots=True)
class RequestHeaders:
    """What the guard needs of a request's headers."""

    host: str | None = None
    origin: str | None = None
    length: int | None = None
    fetch_site: bytes = b""
    fetch_mode: bytes = b""
    wants_method: bool = False  # a browser asks before it calls


class Guard:
    """Lets a request through to the application, or answers it."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        access: Access,
        hosts: Hosts,
        limits: ServerLimits,
        closing: asyncio.Event,
        traffic: Traffic | None = None,
        quick: Quick = lambda scope: None,
    ) -> None:
        self._traffic = traffic or Traffic()
        self._app = app
        self._quick = quick
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
            asked = self._asked(scope)
            self._check_names(scope, asked)
            if asked.origin is not None and asked.origin in self._hosts.origins:
                shared = asked.origin
                if asked.wants_method and scope["method"] == "OPTIONS":
                    await preflight(send, shared)
                    return
            self._check_scope(scope)
            if scope["type"] == "websocket":
                await self._hold(scope, receive, send)
            elif scope["method"] not in READING:
                await self._write(scope, receive, sharing(send, shared), asked)
            elif _is_held(scope):
                await self._hold(scope, receive, sharing(send, shared))
            elif shared is None and (known := self._quick(scope)) is not None:
                start, body = known
                await send(start)
                await send(body)
            else:
                await self._answer(scope, receive, sharing(send, shared))
        except ApiError as error:
            self._traffic.refused += 1
            log.debug("refused %s %s: %s", scope.get("method", "WS"), scope["path"], error.code)
            await refuse(scope, sharing(send, shared), error)

    def _asked(self, scope: Scope) -> RequestHeaders:
        limits, asked, size = self._limits, RequestHeaders(), 0
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > limits.target_bytes:
            raise ApiError(
                414, "uri_too_long", f"The address is longer than {limits.target_bytes} bytes. Ask for less."
            )
        for name, value in headers:
            size += len(name) + len(value)
            if name not in LOOKED_AT:
                continue
            if name == b"host":
                if asked.host is not None:
                    raise ApiError(400, "bad_request", "The request has two Host headers.")
                asked.host = value.decode("latin-1")
            elif name == b"origin":
                asked.origin = value.decode("latin-1")
            elif name == b"content-length":
                asked.length = (
                    int(value[:18]) if value.isdigit() else None
                )  # so many bytes are too many anyway
            elif name == b"sec-fetch-site":
                asked.fetch_site = value
            elif name == b"sec-fetch-mode":
                asked.fetch_mode = value
            elif name == b"access-control-request-method":
                asked.wants_method = True
        if len(headers) > limits.header_count or size > limits.header_bytes:
            raise ApiError(
                431,
                "request_header_fields_too_large",
                f"A request may have {limits.header_count} headers of {limits.header_bytes} bytes together. "
                "Send fewer.",
            )
        return asked

    def _check_names(self, scope: Scope, asked: RequestHeaders) -> None:
        if asked.host is None:
            raise ApiError(400, "bad_request", "The request has no Host header.")
        if not self._hosts.serves(asked.host):
            raise ApiError(
                403,
                "foreign_host",
                f"This server does not answer to {asked.host[:100]!r}. Should it? Add --allow-host.",
            )
        if asked.origin is not None:
            if not self._hosts.admits(asked.origin, asked.host):
                raise ApiError(
                    403,
                    "foreign_origin",
                    f"Pages of {asked.origin[:100]!r} may not call this server. "
                    "Should they? Add --allow-origin.",
                )
        elif asked.fetch_site == b"cross-site" and asked.fetch_mode != b"navigate":
            raise ApiError(403, "foreign_origin", "Pages of other sites may not load anything from here.")

    def _check_scope(self, scope: Scope) -> None:
        if self._access.is_open:
            return
        required = required_scope(scope.get("method", WEBSOCKET), scope["path"])
        if required is None:
            return
        has = self._access.scope_of(scope["headers"])
        if has is None or not has.allows(required):
            raise missing_scope(scope, has)

    async def _write(self, scope: Scope, receive: Receive, send: Send, asked: RequestHeaders) -> None:
        early = self._rates.take(client_of(scope), asyncio.get_running_loop().time())
        if early:
            raise ApiError(
                429,
                "too_many_requests",
                "Too many writes. Wait as long as Retry-After says, and send more events at once.",
                headers={"Retry-After": str(ceil(early))},
            )
        try:
            body = await self._body(receive, asked)
        except ApiError as error:
            if error.status == 413 and not any(name == b"expect" for name, _ in scope["headers"]):
                await _discard(receive, DISCARDED_BODIES * self._limits.body_bytes)
            raise
        if body is None:
            return
        await self._answer(scope, _replayed(body, receive), send)

    async def _body(self, receive: Receive, asked: RequestHeaders) -> bytes | None:
        """The whole body, in good time; None if the caller has left."""
        most = self._limits.body_bytes
        if asked.length is not None and asked.length > most:
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
                f"The body did not arrive within {seconds:g} s. Send it again.",
                headers={"Connection": "close"},
            ) from None
        return b"".join(parts)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer, in good time, or with whatever it has when the server goes down."""
        started = False
        try:
            async with asyncio.timeout(self._limits.answer_seconds) as limit:

                async def noting(message: Message) -> None:
                    nonlocal started
                    if not started:
                        started = True
                        limit.reschedule(None)
                    await send(message)

                await self._app(scope, receive, noting)
        except TimeoutError:
            if started:
                raise
            raise ApiError(
                503,
                "too_slow",
                f"No answer within {self._limits.answer_seconds:g} s. Ask for less, or try again.",
                headers={"Retry-After": "5"},
            ) from None
        except asyncio.CancelledError:
            if not self._closing.is_set():
                raise
            if not started:
                raise _closing() from None

    async def _hold(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A stream, a socket or a long poll: there are only so many, and one whose caller left ends."""
        with self._slots.held(client_of(scope)) as got:
            if not got:
                raise ApiError(
                    503,
                    "too_many_streams",
                    "Too many streams are open. Close one, or poll without `wait`.",
                    headers={"Retry-After": "5"},
                )
            if scope["type"] == "http" and b"wait=" in scope["query_string"]:
                await self._poll(scope, receive, send)
                return
            try:
                await self._app(scope, receive, send)
            except asyncio.CancelledError:
                # A stream that could not be ended in good time, since its reader had stopped reading.
                if not self._closing.is_set():
                    raise

    async def _poll(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        answering = loop.create_task(self._answer(scope, _no_body, send))
        leaving = loop.create_task(_left(receive))
        try:
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                answering.result()
        finally:
            for task in (answering, leaving):
                task.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)


def missing_scope(scope: Scope, has: TokenScope | None) -> ApiError:
    """Why a request is refused. That a path has no route is told to callers with a token, and to browsers."""
    path, method = scope["path"], scope.get("method", WEBSOCKET)
    is_page = wants_page(scope) and not path.startswith(API)
    if not has_route(path) and (has is not None or is_page):
        return ApiError(404, NOT_FOUND, f"Nothing at {path[:200]}. GET /openapi.json lists every route.")
    if has is None:
        return ApiError(
            401,
            "unauthorized",
            "A token is needed: send it as `Authorization: Bearer …`, or open /login in a browser.",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return ApiError(403, "forbidden", f"{method} {path[:200]} needs a token with the write scope.")


def client_of(scope: Scope) -> str:
    """Whom the rates count for."""
    client = scope.get("client")
    return client[0] if client else ""


def _is_held(scope: Scope) -> bool:
    return b"wait=" in scope["query_string"] or scope["path"] == "/api/stream"


async def refuse(scope: Scope, send: Send, error: ApiError) -> None:
    """Send the error, also in the place of a WebSocket's handshake."""
    if scope["type"] == "http":
        await error.response_to(scope)(scope, _no_body, send)
    elif "websocket.http.response" in scope.get("extensions", {}):
        headers = [(b"content-type", b"application/json")]
        await send({"type": "websocket.http.response.start", "status": error.status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": error.body})
    else:
        await send({"type": "websocket.close", "code": 1008, "reason": error.code})


def _closing() -> ApiError:
    return ApiError(503, "closing", "The server goes down. Try again soon.", headers={"Retry-After": "1"})


def _too_large(most: int) -> ApiError:
    return ApiError(
        413,
        "content_too_large",
        f"The body is larger than {most} bytes. Send it in parts.",
        headers={"Connection": "close"},
    )


async def _discard(receive: Receive, most: int) -> None:
    """Read and drop the rest of a body that is refused, up to a limit.

    Clients that send the whole body before they read, as `http.client` does, would find the connection closed
    and never see the response.
    """
    size, more = 0, True
    with suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_SECONDS):
            while more and size < most:
                message = await receive()
                size += len(message.get("body", b""))
                more = message.get("more_body", False)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Hands over a body that was read already."""
    given = False

    async def replay() -> MutableMapping[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _no_body() -> MutableMapping[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _left(receive: Receive) -> None:
    """Return when the caller has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass

"""MCP over streamable HTTP, at `/mcp` of a server: the guard in front of it checks names, origins and tokens.

Every request stands alone, so any server behind a proxy can answer it. The SDK is imported at the first
request, in a thread: it takes as long to import as the rest of the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp, Receive, Scope, Send

from longwatch.errors import MissingExtra
from longwatch.server.access.guard import MCP_PATH
from longwatch.server.errors import ApiError, api_error

if TYPE_CHECKING:
    from longwatch.server.context import ServerContext

MCP_METHODS = ("POST", "GET", "DELETE")


class McpEndpoint:
    """The ASGI application at `/mcp`."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._starting: asyncio.Task[ASGIApp] | None = None
        self._serving: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            message = f"{MCP_PATH} only supports POST: this server has no MCP sessions."
            await ApiError(405, "method_not_allowed", message, headers={"Allow": "POST"}).send(send)
            return
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())
        try:
            app = await asyncio.shield(self._starting)
        except MissingExtra as error:
            self._starting = None  # it may be installed meanwhile
            await api_error(error).send(send)
            return
        await app(scope, receive, send)

    async def _start(self) -> ASGIApp:
        make_app = await self._context.call(_import)
        started: asyncio.Future[ASGIApp] = asyncio.get_running_loop().create_future()
        self._serving = asyncio.get_running_loop().create_task(make_app(self._context, started))
        return await started


def _import() -> Callable[[ServerContext, asyncio.Future[ASGIApp]], Coroutine[Any, Any, None]]:
    try:
        from longwatch.server.mcp.http import serve_http
    except ImportError as error:
        raise MissingExtra(MCP_PATH, "mcp") from error
    return serve_http

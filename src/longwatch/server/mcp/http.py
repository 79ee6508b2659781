"""The SDK's application for streamable HTTP, and what it learns of a request's caller."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp.server import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.types import ASGIApp

from longwatch.server.access.tokens import TokenScope
from longwatch.server.context import ServerContext
from longwatch.server.mcp.box import OwnRunName
from longwatch.server.mcp.own_run import HEADER
from longwatch.server.mcp.protocol import McpServer


async def serve_http(context: ServerContext, started: asyncio.Future[ASGIApp]) -> None:
    """Hand over the application, and run what it needs until the server shuts down."""

    def identify(request: ServerRequestContext[Any, Any]) -> tuple[OwnRunName | None, bool]:
        assert request.request is not None  # there is one over HTTP
        headers = request.request.headers
        run_id = headers.get(HEADER, "").strip()
        scope = context.access.scope_of(headers.raw)
        may_write = context.mcp_write and scope is not None and scope.allows(TokenScope.WRITE)
        return OwnRunName(run_id, "the header Longwatch-Run") if run_id else None, may_write

    server = McpServer(context, identify).build()
    manager = StreamableHTTPSessionManager(
        server, stateless=True, max_request_body_size=context.limits.body_bytes
    )
    async with manager.run():
        started.set_result(StreamableHTTPASGIApp(manager))
        await context.closing.wait()

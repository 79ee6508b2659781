"""The server as one ASGI application: the guard, the fast routes, then FastAPI with all other routes."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from longwatch.server.access.guard import MCP_PATH, Guard
from longwatch.server.api import (
    compare,
    executions,
    files,
    login,
    monitoring,
    notifications,
    otlp,
    projects,
    runs,
    search,
    turns,
)
from longwatch.server.api.fast_routes import FastStatus
from longwatch.server.api.monitoring import health_routes
from longwatch.server.api.openapi import describe
from longwatch.server.context import ServerContext
from longwatch.server.errors import CatchAll, install_errors
from longwatch.server.graphql import install as install_graphql
from longwatch.server.live import HotStream
from longwatch.server.live import install as install_feed
from longwatch.server.mcp.endpoint import MCP_METHODS, McpEndpoint
from longwatch.server.page.static_files import Pages, page_routes
from longwatch.server.spooled_response import SpooledBodies

GZIP_FROM_BYTES = 1_000
QUOTED = ("/api/runs/", "/api/executions/")
GZIP_LEVEL = 5  # nearly as small as with 9, in a third of the time


def create_app(context: ServerContext, *, pages: Pages | None = None) -> ASGIApp:
    """The whole server. The caller opens and closes its parts."""
    api = create_api(context, pages=pages)
    compressed = GZipMiddleware(api, minimum_size=GZIP_FROM_BYTES, compresslevel=GZIP_LEVEL)
    status = FastStatus(CatchAll(SpooledBodies(compressed)), context)
    guarded = Guard(
        HotStream(status, api.state.feed),
        access=context.access,
        hosts=context.hosts,
        limits=context.limits,
        closing=context.closing,
        traffic=context.traffic,
        find_cached=status.find_cached,
    )
    return RawRunPaths(
        otlp.OtlpErrors(guarded)
    )  # outside the guard, which decides by the path that the router matches


def create_api(context: ServerContext, *, pages: Pages | None = None) -> FastAPI:
    """The routes without the guard and the fast routes."""
    app = FastAPI(
        title="longwatch",
        version=version("longwatch"),
        docs_url=None,  # their pages load code from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.context = context
    install_errors(app)
    for router in (
        runs.router,
        runs.event_router,
        search.router,
        compare.router,
        projects.router,
        turns.router,
        files.router,
        files.document_router,
    ):
        app.include_router(router)
    app.include_router(executions.router)
    app.include_router(notifications.router)
    app.include_router(login.router)
    app.include_router(otlp.router)
    app.include_router(health_routes())
    if monitoring.is_possible():
        app.include_router(monitoring.router)
    install_feed(app, context)
    install_graphql(app, context)
    app.router.routes.append(Route(MCP_PATH, McpEndpoint(context), methods=list(MCP_METHODS)))
    app.include_router(page_routes(pages or Pages()))
    describe(app)
    return app


class RawRunPaths:
    """Leaves the id of a run or an execution quoted until its route is found, since it may have a slash."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(QUOTED):
            raw: bytes = scope.get("raw_path") or scope["path"].encode()
            scope = {**scope, "path": raw.decode("latin-1").partition("?")[0]}
        await self._app(scope, receive, send)

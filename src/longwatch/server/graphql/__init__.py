"""GraphQL over the functions of the other routes: queries over HTTP, subscriptions over a WebSocket.

Without the extra `graphql` its routes respond with an error that names it. Nothing here imports the library
until it is needed.
"""

from __future__ import annotations

from fastapi import FastAPI
from starlette.routing import WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from longwatch.errors import MissingExtra
from longwatch.server.access.guard import send_error
from longwatch.server.context import ServerContext
from longwatch.server.errors import api_error
from longwatch.server.graphql.routes import PATH, require_library, router

__all__ = ["install"]


def install(app: FastAPI, context: ServerContext) -> None:
    """Add the routes to an application that has the feed."""
    app.include_router(router)
    app.router.routes.append(WebSocketRoute(PATH, LazySockets(app, context)))


class LazySockets:
    """Loads the library with the first socket."""

    def __init__(self, app: FastAPI, context: ServerContext) -> None:
        self._app = app
        self._context = context
        self._sockets: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            require_library()
        except MissingExtra as error:
            await send_error(scope, send, api_error(error))
            return
        if self._sockets is None:
            self._sockets = await self._context.call(self._load)
        await self._sockets(scope, receive, send)

    def _load(self) -> ASGIApp:
        from longwatch.server.graphql.socket import GraphqlSockets

        return GraphqlSockets(self._context, self._app.state.feed)

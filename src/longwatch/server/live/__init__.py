"""The live feed: one protocol over server-sent events, long poll and WebSocket."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.routing import WebSocketRoute

from longwatch.server.context import ServerContext
from longwatch.server.live.document_sync import SyncRooms, SyncSocket
from longwatch.server.live.feed import Feed
from longwatch.server.live.routes import HotStream, router
from longwatch.server.live.websocket import FeedSocket

__all__ = ["Feed", "HotStream", "install"]


def install(app: FastAPI, context: ServerContext) -> None:
    """Add the feed's routes to an application over these parts."""
    feed = app.state.feed = Feed(context)
    app.include_router(router)
    rooms = SyncRooms(context.documents, context.call)
    app.router.routes += [
        WebSocketRoute("/api/socket", FeedSocket(feed)),
        WebSocketRoute("/api/projects/{project}/sync/{path:path}", SyncSocket(rooms, feed.viewers)),
    ]

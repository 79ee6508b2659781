"""The WebSocket route of a document that is edited together."""

from __future__ import annotations

import asyncio

from starlette.types import Receive, Scope, Send

from longwatch.documents.files import checked_path, checked_project
from longwatch.errors import LongwatchError
from longwatch.server.errors import api_error
from longwatch.server.feed.sockets import GOING_AWAY
from longwatch.server.feed.sync import SyncRooms
from longwatch.server.feed.sync_clients import SyncClient
from longwatch.server.feed.viewers import Viewer, Viewers
from longwatch.server.guard import refuse


class SyncSocket:
    """An ASGI application for one path pattern, with `project` and `path` in it."""

    def __init__(self, rooms: SyncRooms, viewers: Viewers) -> None:
        self._rooms = rooms
        self._viewers = viewers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (await receive())["type"] != "websocket.connect":
            return
        try:
            project = checked_project(scope["path_params"]["project"])
            path = checked_path(scope["path_params"]["path"])
        except LongwatchError as error:
            await refuse(scope, send, api_error(error))
            return
        viewer = Viewer()
        client = SyncClient(viewer, path, receive, send)
        await send({"type": "websocket.accept"})
        await self._serve(project, path, client, viewer)

    async def _serve(self, project: str, path: str, client: SyncClient, viewer: Viewer) -> None:
        self._viewers.enter(viewer)
        reading = asyncio.get_running_loop().create_task(
            self._rooms.serve(project, path, client, viewer.wake)
        )
        reading.add_done_callback(lambda _: viewer.leave())
        try:
            await client.write(GOING_AWAY)
        except asyncio.CancelledError:
            if not viewer.is_closing:
                raise
        finally:
            self._viewers.exit(viewer)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

"""Real-time collaboration: the y-websocket protocol on documents of the store.

Everybody who edits a document over a WebSocket shares one room. What they change is stored, and what others
change in the store, by HTTP or through another server, reaches them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pycrdt import Doc, Map, Text, merge_updates
from pycrdt.websocket.yroom import YRoom
from starlette.types import Receive, Scope, Send

from longwatch.documents.files import DocumentState, FileEntry, validate_path, validate_project
from longwatch.documents.store import DocumentStore
from longwatch.errors import DocumentNotFound, LongwatchError, WorthAnotherTry
from longwatch.polling.backoff import JOURNAL_BACKOFF
from longwatch.server.access.guard import send_error
from longwatch.server.cache.projection import RunInThread
from longwatch.server.change_waiter import ChangeWaiter
from longwatch.server.errors import api_error
from longwatch.server.live.viewers import Viewer, Viewers
from longwatch.server.live.websocket import GOING_AWAY

MOST_BYTES = 1024 * 1024  # that may wait; one larger message may wait alone
TOO_SLOW = 1013  # close code "try again later": a client comes back and requests what it lacks


class SyncClient:
    """A WebSocket as a pycrdt channel."""

    def __init__(self, viewer: Viewer, path: str, receive: Receive, send: Send) -> None:
        self._viewer = viewer
        self._path = path
        self._receive = receive
        self._send = send
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._ending: tuple[int, str] | None = None

    @property
    def path(self) -> str:
        return self._path

    def end(self, code: int, reason: str) -> None:
        """Close the connection, once what waits was given up."""
        self._ending = self._ending or (code, reason)
        self._waiting.clear()
        self._viewer.wake()

    async def send(self, message: bytes) -> None:
        """Hand over a message. Never waits, so that one client holds up no other."""
        if self._ending is not None:
            return
        self._bytes += len(message)
        self._waiting.append(message)
        if self._bytes > MOST_BYTES and len(self._waiting) > 1:
            self.end(TOO_SLOW, "too slow")
        self._viewer.wake()

    async def recv(self) -> bytes:
        """The next message; StopAsyncIteration when the client has left."""
        while True:
            received = await self._receive()
            if received["type"] != "websocket.receive":
                raise StopAsyncIteration
            data: bytes = received.get("bytes") or b""
            if len(data) > 1:
                return data

    def __aiter__(self) -> SyncClient:
        return self

    async def __anext__(self) -> bytes:
        return await self.recv()

    async def write(self, closing_code: int) -> None:
        """Send what waits until one side goes."""
        viewer = self._viewer
        while not viewer.is_gone:
            if viewer.is_closing:
                self._ending = (closing_code, "the server is going down")
            if self._ending is not None:
                code, reason = self._ending
                await self._send({"type": "websocket.close", "code": code, "reason": reason[:120]})
                return
            if self._waiting:
                message = self._waiting.popleft()
                self._bytes -= len(message)
                await self._send({"type": "websocket.send", "bytes": message})
            else:
                await viewer.wait()


POLL_SECONDS = 5.0  # between reads of the store without a reported change
UNACCEPTABLE = 1011  # close code: the store refuses what was written

log = logging.getLogger("longwatch.server")


class SyncRoom:
    """A document that is being edited."""

    def __init__(self, project: str, path: str, store: DocumentStore, call: RunInThread) -> None:
        self.users = 0
        self.is_broken = False
        self._project = project
        self._path = path
        self._store = store
        self._call = call
        self._doc: Doc[Any] = Doc()
        self._version = 0  # of the store's that the document includes
        self._pending: list[bytes] = []  # made here, and not stored yet
        self._is_from_store = False
        self._room = YRoom(ydoc=self._doc, log=log, exception_handler=_log_error)
        self._clients: dict[SyncClient, None] = {}
        self._changes: ChangeWaiter | None = None
        self._idle = asyncio.Event()  # nothing waits to be stored
        self._idle.set()
        self._tasks: list[asyncio.Task[None]] = []
        self._opening: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Be ready for clients. Whoever comes first does it for all."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open())
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        await self._refresh(None)
        self._doc.observe(self._on_update)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._room.start()), loop.create_task(self._keep())]
        await self._room.started.wait()
        await self._room.ydoc_observed.wait()

    async def serve(self, client: SyncClient) -> None:
        """Exchange with this client until it leaves."""
        self._clients[client] = None
        try:
            await self._room.serve(client)
        finally:
            del self._clients[client]

    async def close(self) -> None:
        """Store what waits, then stop."""
        if self._opening is None or not self._opening.done():
            return
        if not self.is_broken:
            await self._idle.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_update(self, event: Any) -> None:
        if not self._is_from_store:
            self._pending.append(event.update)
            self._idle.clear()
            if self._changes is not None:
                self._changes.notify()

    async def _keep(self) -> None:
        """Store what is new here, and take in what is new there."""
        backoff = JOURNAL_BACKOFF
        while True:
            try:
                async with ChangeWaiter.open(self._store.subscribe, self._call) as self._changes:
                    while True:
                        await self._store_pending()
                        entry = await self._call(self._store.entry, self._project, self._path)
                        if entry is not None and entry.version != self._version:
                            await self._refresh(entry)
                        backoff = backoff.succeeded()
                        await self._until_changed(self._changes)
            except WorthAnotherTry as error:
                backoff = backoff.failed()
                log.warning("%s is not stored yet, next try in %g s: %s", self._path, backoff.delay, error)
                await asyncio.sleep(backoff.delay or 0.0)
            except LongwatchError as error:
                log.warning("%s of project %s cannot be stored: %s", self._path, self._project, error)
                self._break(str(error))
                return

    async def _until_changed(self, changes: ChangeWaiter) -> None:
        if not self._pending:
            self._idle.set()
            await changes.wait(POLL_SECONDS)

    async def _store_pending(self) -> None:
        while self._pending:
            count = len(self._pending)
            update = self._pending[0] if count == 1 else merge_updates(*self._pending)
            applied = await self._call(self._store.apply, self._project, self._path, update)
            del self._pending[:count]
            if applied.version == self._version + 1:
                self._version = (
                    applied.version
                )  # otherwise another write came in between, and is still to be read

    async def _refresh(self, entry: FileEntry | None) -> None:
        """Take in what the store has."""
        if entry is not None and entry.deleted:
            self._empty(entry)
            return
        try:
            state: DocumentState = await self._call(
                self._store.diff, self._project, self._path, self._doc.get_state()
            )
        except DocumentNotFound:
            return  # not there yet, or no longer; the next read shows it
        self._is_from_store = True
        try:
            self._doc.apply_update(state.update)
        finally:
            self._is_from_store = False
        self._version = state.version

    def _empty(self, entry: FileEntry) -> None:
        """The file was deleted: so is its text for its editors, unless one of them writes at this moment."""
        if self._pending:
            return
        self._version = entry.version
        text, file = self._doc.get("content", type=Text), self._doc.get("file", type=Map)
        if str(text) or len(file):
            with self._doc.transaction():
                text.clear()
                file.clear()

    def _break(self, reason: str) -> None:
        self.is_broken = True
        self._idle.set()
        for client in list(self._clients):
            client.end(UNACCEPTABLE, reason)


class SyncRooms:
    """All documents that are being edited."""

    def __init__(self, store: DocumentStore, call: RunInThread) -> None:
        self._store = store
        self._call = call
        self._rooms: dict[tuple[str, str], SyncRoom] = {}

    async def serve(self, project: str, path: str, client: SyncClient, ready: Callable[[], object]) -> None:
        """Let this client take part until it leaves. `ready` is called when the document is there."""
        key = (project, path)
        room = self._rooms.get(key)
        if room is None or room.is_broken:
            room = self._rooms[key] = SyncRoom(project, path, self._store, self._call)
        room.users += 1
        try:
            await room.open()
            ready()
            await room.serve(client)
        finally:
            room.users -= 1
            if not room.users:
                with suppress(asyncio.CancelledError):
                    await room.close()
                self._forget(key, room)

    def _forget(self, key: tuple[str, str], room: SyncRoom) -> None:
        if not room.users and self._rooms.get(key) is room:
            del self._rooms[key]

    def __len__(self) -> int:
        return len(self._rooms)


def _log_error(error: Exception, _: logging.Logger) -> bool:
    log.warning("a client of a document broke off: %s", error)
    return True


class SyncSocket:
    """An ASGI application for one path pattern, with `project` and `path` in it."""

    def __init__(self, rooms: SyncRooms, viewers: Viewers) -> None:
        self._rooms = rooms
        self._viewers = viewers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (await receive())["type"] != "websocket.connect":
            return
        try:
            project = validate_project(scope["path_params"]["project"])
            path = validate_path(scope["path_params"]["path"])
        except LongwatchError as error:
            await send_error(scope, send, api_error(error))
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

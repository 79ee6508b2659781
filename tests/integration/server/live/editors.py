"""A client of the y-websocket protocol, as an editor uses it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import websockets
from pycrdt import (
    Doc,
    Text,
    TransactionEvent,
    YMessageType,
    create_sync_message,
    create_update_message,
    handle_sync_message,
)

from tests.patience import PATIENCE_SECONDS


class Editor:
    """A document that is shared by all that have it open."""

    def __init__(self, socket: websockets.ClientConnection) -> None:
        self.doc: Doc[Any] = Doc()
        self.text = self.doc.get("content", type=Text)
        self._socket = socket
        self._changed = asyncio.Event()
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self._is_receiving = False
        self.doc.observe(self._on_update)

    def __str__(self) -> str:
        return str(self.text)

    async def until(self, holds: Callable[[str], bool]) -> None:
        """Until the text is as it should be."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not holds(str(self.text)):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"the text is still {str(self.text)!r}") from None

    async def run(self) -> None:
        """Exchange until cancelled."""
        await self._socket.send(create_sync_message(self.doc))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._send())
            async for message in self._socket:
                assert isinstance(message, bytes)
                if message[0] == YMessageType.SYNC:
                    self._is_receiving = True
                    try:
                        reply = handle_sync_message(message[1:], self.doc)
                    finally:
                        self._is_receiving = False
                    if reply is not None:
                        self._outgoing.put_nowait(reply)
                self._changed.set()

    async def _send(self) -> None:
        while True:
            await self._socket.send(await self._outgoing.get())

    def _on_update(self, event: TransactionEvent) -> None:
        self._changed.set()
        if not self._is_receiving:
            self._outgoing.put_nowait(create_update_message(event.update))


@asynccontextmanager
async def editing(url: str) -> AsyncIterator[Editor]:
    """An editor of the document at this URL."""
    async with websockets.connect(url) as socket:
        editor = Editor(socket)
        running = asyncio.create_task(editor.run())
        try:
            yield editor
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def content(http: httpx2.AsyncClient, project: str, path: str) -> str | None:
    response = await http.get(f"/api/projects/{project}/content/{path}")
    return None if response.status_code == 404 else response.text


async def until_stored(http: httpx2.AsyncClient, project: str, path: str, text: str | None) -> None:
    """Until the server has stored what it passed on to the editors."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await content(http, project, path) != text:  # noqa: ASYNC110 - the server is another process
            await asyncio.sleep(0.02)

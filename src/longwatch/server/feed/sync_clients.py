"""One client of a document's room: what is sent to it waits in bounded room, and a slow one is sent away."""

from __future__ import annotations

from collections import deque

from starlette.types import Receive, Send

from longwatch.server.feed.viewers import Viewer

MOST_BYTES = 1024 * 1024  # that may wait; one larger message may wait alone
TOO_SLOW = 1013  # close code "try again later": a client comes back and asks for what it lacks


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

"""MCP over standard input and output, for clients that start the server themselves."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, cast

from anyio import AsyncFile
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared._stream_protocols import WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCResponse

STDIN = 0
READ_BYTES = 64 * 1024
MAX_LINE_BYTES = 4 * 1024 * 1024  # of one message; a longer one is cut, and so it is invalid
GRACE_SECONDS = 2.0  # for requests under way once standard input has ended


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client until it closes standard input. Raises BrokenPipeError if it closes standard output.

    While it is served, standard output has only messages: the SDK points the descriptor at standard error.
    """
    pending = PendingRequests()
    lines = cast("AsyncFile[str]", StdinLines(pending))  # of it the SDK only uses the iteration
    try:
        async with stdio_server(stdin=lines) as (reading, writing):
            await server.run(
                reading, CountedResponses(writing, pending), server.create_initialization_options()
            )
    except* BrokenPipeError as group:
        raise BrokenPipeError from group


class PendingRequests:
    """The requests of the client without a response, as far as their lines look like requests.

    The SDK cancels what is under way when its input ends. A script that writes its requests and closes the
    pipe still gets the responses.
    """

    def __init__(self) -> None:
        self._count = 0
        self._settled = asyncio.Event()
        self._settled.set()

    def received(self, line: bytes) -> None:
        """A line of the client."""
        if b'"id"' in line and b'"method"' in line:
            self._count += 1
            self._settled.clear()

    def responded(self) -> None:
        """A response or an error was written."""
        self._count -= 1
        if self._count <= 0:
            self._settled.set()

    async def settle(self) -> None:
        """Wait for the responses, for a short time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                await self._settled.wait()


class CountedResponses:
    """The stream to the client, which reports each response."""

    def __init__(self, stream: WriteStream[SessionMessage], pending: PendingRequests) -> None:
        self._stream = stream
        self._pending = pending

    async def send(self, item: SessionMessage, /) -> None:
        await self._stream.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._pending.responded()

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, trace)


class StdinLines:
    """The lines of standard input.

    A daemon thread reads the descriptor. With a file object, Ctrl-C would wait for the thread that blocks in
    a read until the client closes the pipe.
    """

    def __init__(self, pending: PendingRequests, descriptor: int = STDIN) -> None:
        self._pending = pending
        self._descriptor = descriptor

    async def __aiter__(self) -> AsyncIterator[str]:
        rest = b""
        async for piece in self._pieces():
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self._pending.received(line)
                yield line[:MAX_LINE_BYTES].decode(errors="replace")
            rest = rest[: MAX_LINE_BYTES + 1]
        if rest:
            self._pending.received(rest)
            yield rest[:MAX_LINE_BYTES].decode(errors="replace")
        await self._pending.settle()

    async def _pieces(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        taken = threading.Semaphore(1)  # one piece is read ahead, so that a fast client takes no memory

        def read() -> None:
            piece = b"-"
            while piece:
                taken.acquire()
                try:
                    piece = os.read(self._descriptor, READ_BYTES)
                except OSError:  # closed, or never open
                    piece = b""
                try:
                    loop.call_soon_threadsafe(queue.put_nowait, piece)
                except RuntimeError:  # the loop is closed
                    return

        threading.Thread(target=read, name="longwatch-stdin", daemon=True).start()
        while piece := await queue.get():
            taken.release()
            yield piece

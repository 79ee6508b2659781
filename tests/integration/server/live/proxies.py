"""A loopback proxy as bad as the worst ones: it holds back, cuts off, stalls, and mixes up connections."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

READ_BYTES = 4096


@dataclass(slots=True)
class Trouble:
    """What happens to one connection. Bytes count what the server sends."""

    hold_bytes: int = 0  # collected before anything is passed on
    hold_seconds: float = 0.0  # or for so long
    cut_after: int | None = None  # bytes
    stall_after: int | None = None  # bytes; nothing is passed on afterwards
    begin_late_seconds: float = 0.0  # later connections overtake this one


@dataclass(slots=True)
class BadProxy:
    """Listens at `port` and passes on to another port, with trouble."""

    target: int
    trouble: Callable[[str], Trouble]  # for each connection, by the line of its first request
    port: int = 0
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        await asyncio.sleep(0.01)  # until connections that were accepted before have their tasks
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
        await asyncio.sleep(0)  # transports close in the next turn of the loop

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Not a coroutine: a task that is cancelled before it starts would close nothing.
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)

        def close(ended: asyncio.Task[None]) -> None:
            self._tasks.discard(ended)
            writer.transport.abort()

        task.add_done_callback(close)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            line = await reader.readuntil(b"\r\n")
            trouble = self.trouble(line.decode())
            await asyncio.sleep(trouble.begin_late_seconds)
            await self._pass_on(line, reader, writer, trouble)
            writer.close()
            await writer.wait_closed()

    async def _pass_on(
        self, line: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, trouble: Trouble
    ) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.target)
        server_writer.write(line)
        upstream = asyncio.create_task(_copy(reader, server_writer))
        downstream = asyncio.create_task(_pass_responses(server_reader, writer, trouble))
        try:
            await asyncio.wait((upstream, downstream), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (upstream, downstream):
                task.cancel()
            await asyncio.gather(upstream, downstream, return_exceptions=True)
            server_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(READ_BYTES):
        writer.write(data)
        await writer.drain()


async def _pass_responses(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, trouble: Trouble
) -> None:
    passed, held = 0, b""
    while True:
        try:
            limit = trouble.hold_seconds if held else None
            data = await asyncio.wait_for(reader.read(READ_BYTES), limit)
            if not data and not held:
                return
            held += data
            if data and len(held) < trouble.hold_bytes:
                continue
        except TimeoutError:
            pass
        room = None if trouble.cut_after is None else trouble.cut_after - passed
        writer.write(held if room is None else held[:room])
        await writer.drain()
        passed, held = passed + len(held), b""
        if trouble.cut_after is not None and passed >= trouble.cut_after:
            return
        if trouble.stall_after is not None and passed >= trouble.stall_after:
            await asyncio.Event().wait()


def any_trouble(seed: int) -> Callable[[str], Trouble]:
    """A different trouble for each connection, the same for each seed."""
    chance = random.Random(seed)

    def trouble(line: str) -> Trouble:
        match chance.choice(("cut", "hold", "stall", "late", "cut", "none")):
            case "cut":
                return Trouble(cut_after=chance.randint(1, 6_000))
            case "hold":
                return Trouble(hold_bytes=3_000, hold_seconds=0.3, cut_after=chance.randint(3_000, 20_000))
            case "stall":
                return Trouble(stall_after=chance.randint(1, 4_000))
            case "late":
                return Trouble(begin_late_seconds=2.0)
        return Trouble(cut_after=40_000)

    return trouble


@asynccontextmanager
async def bad_proxy(target: int, trouble: Callable[[str], Trouble]) -> AsyncIterator[BadProxy]:
    """A proxy to this port until the block is left."""
    async with BadProxy(target, trouble) as proxy:
        yield proxy

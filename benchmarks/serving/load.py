"""The clients: connections that send a request after each response, and viewers that only read."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass, field

SENT = re.compile(rb'"sent":\s?([0-9.]+)')


class Asking(asyncio.Protocol):
    """Sends a request as soon as the last response is complete. Knows responses by their length alone."""

    def __init__(self, request: bytes, until: float) -> None:
        self._request = request
        self._until = until
        self.responses = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        head, mark, body = data.partition(b"\r\n\r\n")
        if not mark or len(body) < _length(head):
            self._rest = data
            return
        self._rest = b""
        self.responses += 1
        if time.perf_counter() < self._until:
            self._transport.write(self._request)
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


def _length(head: bytes) -> int:
    place = head.lower().find(b"content-length:")
    return (
        int(head[place + 15 : head.find(b"\r\n", place) if b"\r\n" in head[place:] else None])
        if place >= 0
        else 0
    )


async def count_responses(port: int, request: bytes, *, connections: int, seconds: float) -> int:
    """The number of responses that this many connections received in this time."""
    loop = asyncio.get_running_loop()
    until = time.perf_counter() + seconds
    clients = [
        (await loop.create_connection(lambda: Asking(request, until), "127.0.0.1", port))[1]
        for _ in range(connections)
    ]
    await asyncio.gather(*(each.done for each in clients))
    return sum(each.responses for each in clients)


@dataclass(slots=True)
class Seen:
    """What all viewers have seen."""

    connected: int = 0
    live: int = 0  # viewers that have seen the mark of live events
    lost: int = 0
    deliveries: int = 0
    latencies: list[float] = field(default_factory=list)  # seconds
    is_counting: bool = False


class Watching(asyncio.Protocol):
    """One viewer of a stream."""

    def __init__(self, request: bytes, mark: bytes, seen: Seen) -> None:
        self._request = request
        self._mark = mark  # precedes the live events
        self._seen = seen
        self._is_live = False
        self._start = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._seen.connected += 1
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self._is_live:
            self._start += data
            self._is_live = self._mark in self._start
            self._seen.live += self._is_live
        if not self._seen.is_counting:
            return
        now, sent = time.time(), SENT.findall(data)
        self._seen.deliveries += len(sent)
        self._seen.latencies += [now - float(each) for each in sent]

    def connection_lost(self, exc: Exception | None) -> None:
        self._seen.lost += 1


async def watch(port: int, request: bytes, mark: bytes, viewers: int, seen: Seen) -> list[Watching]:
    """So many viewers, connected."""
    loop = asyncio.get_running_loop()
    found: list[Watching] = []
    for first in range(0, viewers, 100):
        made = await asyncio.gather(
            *(
                loop.create_connection(lambda: Watching(request, mark, seen), "127.0.0.1", port)
                for _ in range(min(100, viewers - first))
            )
        )
        found += [protocol for _, protocol in made]
    return found

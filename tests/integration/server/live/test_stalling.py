"""A client that stops reading costs the others nothing, is sent what was missed, and holds up no end."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from dataclasses import replace
from typing import Any

from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event
from tests.integration.server.live.clients import FeedClient
from tests.integration.server.live.feed_follower import events_of, ids
from tests.integration.server.live.servers import ServerProcess
from tests.patience import PATIENCE_SECONDS

RUN, TOPIC = "wf-stalled", "run:wf-stalled"
COUNT = 2_500
FILLING = "x" * 6_000  # in all more than the socket's buffers and the ring hold


class Reader:
    """A stream of server-sent events that is read only on demand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self.received: list[tuple[str, dict[str, Any]]] = []

    async def until(self, name: str, count: int = 1) -> None:
        """Read on until so many messages of this name were received."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            event = ""
            while sum(each == name for each, _ in self.received) < count:
                line = (await self._reader.readline()).decode()
                if line.startswith("event: "):
                    event = line.removeprefix("event: ").strip()
                elif line.startswith("data: "):
                    self.received.append((event, json.loads(line.removeprefix("data: "))))

    def event_ids(self) -> list[str]:
        return [data["event"]["event_id"] for name, data in self.received if name == "event"]


async def connect(port: int) -> Reader:
    """A client with little room."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", port))
    # HTTP/1.0: no chunks in between, so a long line stays in one piece.
    reader, writer = await asyncio.open_connection(sock=raw, limit=16 * 1024)
    writer.write(f"GET /api/stream?topic={TOPIC} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
    return Reader(reader, writer)


def large_events() -> list[Event]:
    return [replace(event, payload={**event.payload, "filling": FILLING}) for event in events_of(RUN, COUNT)]


async def write(journal: SqliteJournal, events: list[Event]) -> None:
    for first in range(0, len(events), 50):
        await asyncio.to_thread(journal.append, events[first : first + 50])


async def test_a_client_that_stops_reading_affects_no_other_and_misses_nothing_in_the_end(
    server: ServerProcess, journal: SqliteJournal
) -> None:
    events = large_events()
    await write(journal, events[:1])
    stalled, client = await connect(server.port), FeedClient(server.url, [TOPIC])
    await stalled.until("caught_up")

    async with asyncio.TaskGroup() as group:
        group.create_task(write(journal, events[1:]))
        group.create_task(client.follow(lambda found: len(found.event_ids(TOPIC)) >= COUNT))
    await client.aclose()
    await stalled.until("event", COUNT)
    stalled.writer.close()

    assert client.event_ids(TOPIC) == ids(events)  # while the other one read nothing
    assert stalled.event_ids() == ids(events)
    assert sum(data["count"] for name, data in stalled.received if name == "missed") > 0


async def test_a_client_that_stops_reading_does_not_hold_up_the_end_of_the_server(
    server: ServerProcess, journal: SqliteJournal
) -> None:
    events = large_events()
    await write(journal, events[:1])
    stalled = await connect(server.port)
    await stalled.until("caught_up")
    await write(journal, events[1:])

    took = await asyncio.to_thread(server.stop, signal.SIGINT)
    stalled.writer.close()

    assert took < 2.5  # half a second of grace twice, and what a busy machine adds

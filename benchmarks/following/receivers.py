"""Programs that receive what another process writes, each in its own way, and log the delay.

Each write carries the time at which it began, so that the commit counts in every case. The clock is the
machine's monotonic clock, which all processes share.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import struct
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from benchmarks.following.subject import Commands

from longwatch.following.hub import Hub
from longwatch.following.items import CaughtUp, Followed
from longwatch.following.polling_service import PollingService
from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.sqlite.queries import READ
from longwatch.journal.sqlite.rows import event_from_row
from longwatch.model.event import Event

POLL_SECONDS = 0.5
MOMENT = struct.Struct("d")  # what goes through the pipe


class DelayLog:
    """The time from each write to its reception."""

    def __init__(self) -> None:
        self._waits: list[float] = []

    def add(self, sent: object) -> None:
        """Log what was written at this time, in seconds of the monotonic clock."""
        if isinstance(sent, float) and sent:
            self._waits.append(time.monotonic() - sent)

    def add_event(self, event: Event) -> None:
        self.add(event.payload.get("sent"))

    def commands(self) -> Commands:
        """The commands of a program with this log."""
        return {"received": lambda: len(self._waits), "waits": self.take}

    def take(self) -> list[float]:
        """Remove and return the delays logged so far, in seconds."""
        waits, self._waits = self._waits, []
        return waits


@asynccontextmanager
async def at_a_pipe(path: Path) -> AsyncIterator[Commands]:
    """The raw limit: a thread that blocks in a read, and no database."""
    delays = DelayLog()

    def read() -> None:
        with path.open("rb", buffering=0) as pipe:
            while moment := pipe.read(MOMENT.size):  # of one write: after a stall several lie there
                delays.add(*MOMENT.unpack(moment))

    threading.Thread(target=read, daemon=True).start()
    yield delays.commands()


@asynccontextmanager
async def with_the_service(path: Path, run_id: str, *, inotify: bool = True) -> AsyncIterator[Commands]:
    """`PollingService.on_event`."""
    delays, is_begun = DelayLog(), threading.Event()

    def on_event(event: Event) -> None:
        delays.add_event(event)
        is_begun.set()

    with SqliteJournal(path) as journal:
        subscribe = partial(journal.subscribe, inotify=inotify)

        with PollingService(journal, make_hub=partial(Hub, subscribe=subscribe)) as service:
            service.start_polling(run_id)
            # Subscribed in a thread without a loop: the callback runs in the service's own.
            await asyncio.to_thread(service.on_event, on_event)
            await asyncio.to_thread(is_begun.wait)
            yield delays.commands()


@asynccontextmanager
async def by_following(path: Path, run_id: str) -> AsyncIterator[Commands]:
    """`async for item in hub.follow(run_id)`."""
    delays, is_caught_up = DelayLog(), asyncio.Event()

    async def follow() -> None:
        async for item in hub.follow(run_id):
            if isinstance(item, Followed):
                delays.add_event(item.event)
            elif isinstance(item, CaughtUp):
                is_caught_up.set()

    with SqliteJournal(path) as journal:
        async with Hub(journal) as hub:
            task = asyncio.create_task(follow())
            await is_caught_up.wait()
            yield delays.commands()
        await task


@asynccontextmanager
async def by_polling(path: Path, run_id: str) -> AsyncIterator[Commands]:
    """A query every 500 ms, as the polling requirements have it."""
    delays = DelayLog()
    connection = sqlite3.connect(path, isolation_level=None)

    async def poll() -> None:
        position = 0
        while True:
            for row in connection.execute(READ, (run_id, position, 0, run_id, 500)).fetchall():
                delays.add_event(event_from_row(row))
                position = row[-1]
            await asyncio.sleep(POLL_SECONDS)

    task = asyncio.create_task(poll())
    yield delays.commands()
    task.cancel()


def make_pipe(path: Path) -> int:
    """A named pipe; the descriptor to write to."""
    os.mkfifo(path)
    return os.open(path, os.O_RDWR)  # does not wait for a reader

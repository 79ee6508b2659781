"""Programs that wait for what another process writes, each its own way, and note how long that took.

What is written carries the moment at which its writing began, so that the commit counts in every case. The
clock is the machine's monotonic one, which is the same in all processes.
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

from benchmarks.following.subject import Answers

from longwatch.following.hub import Hub
from longwatch.following.items import CaughtUp, Followed
from longwatch.following.polling_service import PollingService
from longwatch.journal.base import Journal
from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.sqlite.journal import READ
from longwatch.journal.sqlite.rows import event_from_row
from longwatch.model.event import Event

POLL_SECONDS = 0.5
MOMENT = struct.Struct("d")  # what goes through the pipe


class Ear:
    """Notes how long ago each thing was written that is heard."""

    def __init__(self) -> None:
        self._waits: list[float] = []

    def hear(self, sent: object) -> None:
        """This was written at that moment."""
        if isinstance(sent, float) and sent:
            self._waits.append(time.monotonic() - sent)

    def hear_event(self, event: Event) -> None:
        self.hear(event.payload.get("sent"))

    def answers(self) -> Answers:
        """What a program with this ear can be asked."""
        return {"heard": lambda: len(self._waits), "waits": self.take}

    def take(self) -> list[float]:
        """What was noted since this was asked last, in seconds."""
        waits, self._waits = self._waits, []
        return waits


@asynccontextmanager
async def at_a_pipe(path: Path) -> AsyncIterator[Answers]:
    """The raw limit: a thread that blocks in a read, and no database."""
    ear = Ear()

    def read() -> None:
        with path.open("rb", buffering=0) as pipe:
            while moment := pipe.read(MOMENT.size):  # of one write: after a stall several lie there
                ear.hear(*MOMENT.unpack(moment))

    threading.Thread(target=read, daemon=True).start()
    yield ear.answers()


@asynccontextmanager
async def with_the_service(path: Path, run_id: str, *, inotify: bool = True) -> AsyncIterator[Answers]:
    """`PollingService.on_event`."""
    ear, is_begun = Ear(), threading.Event()

    def on_event(event: Event) -> None:
        ear.hear_event(event)
        is_begun.set()

    with SqliteJournal(path) as journal:

        def hub(reported: Journal) -> Hub:
            return Hub(reported, listen=partial(journal.listen, inotify=inotify))

        with PollingService(journal, make_hub=hub) as service:
            service.start_polling(run_id)
            # Subscribed in a thread without a loop: the callback runs in the service's own.
            await asyncio.to_thread(service.on_event, on_event)
            await asyncio.to_thread(is_begun.wait)
            yield ear.answers()


@asynccontextmanager
async def by_following(path: Path, run_id: str) -> AsyncIterator[Answers]:
    """`async for item in hub.follow(run_id)`."""
    ear, is_caught_up = Ear(), asyncio.Event()

    async def follow() -> None:
        async for item in hub.follow(run_id):
            if isinstance(item, Followed):
                ear.hear_event(item.event)
            elif isinstance(item, CaughtUp):
                is_caught_up.set()

    with SqliteJournal(path) as journal:
        async with Hub(journal) as hub:
            task = asyncio.create_task(follow())
            await is_caught_up.wait()
            yield ear.answers()
        await task


@asynccontextmanager
async def by_polling(path: Path, run_id: str) -> AsyncIterator[Answers]:
    """A query every 500 ms, as the polling requirements have it."""
    ear = Ear()
    connection = sqlite3.connect(path, isolation_level=None)

    async def poll() -> None:
        position = 0
        while True:
            for row in connection.execute(READ, (run_id, position, 0, 500)).fetchall():
                ear.hear_event(event_from_row(row))
                position = row[-1]
            await asyncio.sleep(POLL_SECONDS)

    task = asyncio.create_task(poll())
    yield ear.answers()
    task.cancel()


def make_pipe(path: Path) -> int:
    """A named pipe; the descriptor to write to."""
    os.mkfifo(path)
    return os.open(path, os.O_RDWR)  # does not wait for a reader

"""Many followers of one SQLite journal, as a program to be measured."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.following.subject import Commands

from longwatch.following.hub import Hub
from longwatch.following.items import CaughtUp, Followed
from longwatch.journal.base import ClosesOnExit
from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.sqlite.queries import LAST_ARRIVAL, READ_ARRIVALS
from longwatch.journal.sqlite.rows import event_from_row
from longwatch.model.event import Event

FIRST_MS = 1_700_000_000_000
PAYLOAD = {"operation": "search", "status": "completed", "output": "x" * 400}

_serial = count(1)


def run_name(number: int) -> str:
    """The id of one of the runs in the journal."""
    return f"wf-{number:08x}"


class Writer(ClosesOnExit):
    """A journal with started runs, and its writer."""

    def __init__(self, path: Path, runs: int, *, events_each: int = 3) -> None:
        self.path = path
        self.journal = SqliteJournal(path)
        self._numbers = Counter[int]()
        for first in range(0, runs, 1_000):
            batch = range(first, min(first + 1_000, runs))
            self.journal.append([self.event(run) for run in batch for _ in range(events_each)])

    def event(self, run: int, *, payload: dict[str, Any] | None = None) -> Event:
        """The next event of this run."""
        serial = next(_serial)
        self._numbers[run] += 1
        return Event(
            run_id=run_name(run),
            event_id=f"{serial:032x}",
            type="tool_call",
            occurred_at=FIRST_MS + serial,
            agent_name="agent",
            payload=PAYLOAD if payload is None else payload,
            producer=f"bench-{run}",
            number=self._numbers[run],
        )

    def close(self) -> None:
        self.journal.close()


@asynccontextmanager
async def following(
    path: Path, followers: int, *, runs: int | None = None, inotify: bool = True
) -> AsyncIterator[Commands]:
    """So many followers through one hub, each of a run of its own unless there are fewer runs."""
    taken = 0
    waiting = followers
    all_caught_up = asyncio.Event()

    async def follow(run_id: str) -> None:
        nonlocal taken, waiting
        async for item in hub.follow(run_id):
            if isinstance(item, Followed):
                taken += 1
            elif isinstance(item, CaughtUp):
                waiting -= 1
                if not waiting:
                    all_caught_up.set()
            del item  # as the bare task below, it keeps nothing of what it has taken

    with SqliteJournal(path) as journal:
        async with Hub(journal, subscribe=partial(journal.subscribe, inotify=inotify)) as hub:
            tasks = [
                asyncio.create_task(follow(run_name(number % (runs or followers))))
                for number in range(followers)
            ]
            await all_caught_up.wait()
            yield {"taken": lambda: taken}
        await asyncio.gather(*tasks)


@asynccontextmanager
async def in_bare_tasks(path: Path, followers: int) -> AsyncIterator[Commands]:
    """A task and a queue for each run, without history, cursors or an end. Polls on command."""
    connection = sqlite3.connect(path, isolation_level=None)
    position = connection.execute(LAST_ARRIVAL).fetchone()[0]
    taken = 0

    async def take(queue: asyncio.Queue[Event]) -> None:
        nonlocal taken
        while True:
            await queue.get()
            taken += 1

    def poll() -> None:
        nonlocal position
        for row in connection.execute(READ_ARRIVALS, (position, 0, 1_000)).fetchall():
            event = event_from_row(row)
            queues[event.run_id].put_nowait(event)
            position = row[-1]

    queues = {run_name(number): asyncio.Queue[Event]() for number in range(followers)}
    tasks = [asyncio.create_task(take(queue)) for queue in queues.values()]
    yield {"taken": lambda: taken, "poll": poll}
    for task in tasks:
        task.cancel()

"""Follows topics of a feed in the same process, as a transport does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from longwatch.clock import SYSTEM_CLOCK
from longwatch.documents.stores.memory import MemoryDocumentStore
from longwatch.journal.base import Journal
from longwatch.journal.dynamodb.journal import DynamoJournal
from longwatch.journal.memory import MemoryJournal
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event
from longwatch.server.context import ServerContext, open_context
from longwatch.server.live.feed import Feed
from longwatch.server.live.messages import Frame
from longwatch.server.live.topics import Topic
from longwatch.storage.urls import TableAddress
from longwatch.testing.tables import SimulatedTable
from tests.patience import PATIENCE_SECONDS

JOURNALS = ("memory", "sqlite", "dynamodb")


def make_journal(kind: str, folder: Path) -> Journal:
    """A new journal of this kind."""
    match kind:
        case "memory":
            return MemoryJournal()
        case "sqlite":
            return SqliteJournal(folder / "journal.db")
        case _:
            address = TableAddress(table="simulated", layout="workflow")
            return DynamoJournal(SimulatedTable("workflow"), address)


@asynccontextmanager
async def serving(journal: Journal) -> AsyncIterator[Feed]:
    """A feed over this journal and documents of its own."""
    with MemoryDocumentStore() as documents:
        async with open_context(journal, documents) as context:
            yield Feed(context)


class Follower:
    """Takes everything from one topic at once, and remembers it."""

    def __init__(self, feed: Feed, topic: str, after: str = "") -> None:
        self.frames: list[Frame] = []
        self._woken = asyncio.Event()
        self._taking = feed.open(Topic.of(topic), after, self._woken.set)

    @property
    def cursor(self) -> str:
        return self._taking.cursor

    @property
    def is_over(self) -> bool:
        return self._taking.is_over

    def names(self) -> list[str]:
        return [frame.name for frame in self.frames]

    def data(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(frame.data) for frame in self.frames if frame.name == name]

    def event_ids(self) -> list[str]:
        return [message["event"]["event_id"] for message in self.data("event")]

    async def until(self, is_enough: Callable[[Follower], bool]) -> Follower:
        """Take until this holds."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    while found := self._taking.take():
                        self.frames += found
                    if is_enough(self):
                        return self
                    await self._woken.wait()
                    self._woken.clear()
        except TimeoutError:
            raise AssertionError(f"not in {PATIENCE_SECONDS} s; so far: {self.frames[-20:]}") from None

    async def until_caught_up(self) -> Follower:
        return await self.until(lambda follower: "caught_up" in follower.names())

    async def until_events(self, count: int) -> Follower:
        return await self.until(lambda follower: len(follower.event_ids()) >= count)

    def close(self) -> None:
        self._taking.close()


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until this holds."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(0.01)


def events_of(run_id: str, count: int, *, first: int = 0, at: int | None = None) -> list[Event]:
    """So many events of a run, a millisecond apart."""
    start = SYSTEM_CLOCK.now_ms() if at is None else at
    return [
        Event(
            run_id=run_id,
            event_id=f"{run_id}-{number}",
            type="tool_call",
            occurred_at=start + number,
            payload={"operation": "search", "number": number},
            producer=f"{run_id}-producer",
            number=number + 1,
        )
        for number in range(first, first + count)
    ]


def ids(events: Sequence[Event]) -> list[str]:
    return [event.event_id for event in events]


async def append(context: ServerContext, events: Sequence[Event]) -> None:
    await context.async_journal.append(events)

"""Fills the search index of a SQLite journal in the background, so that a search has little left to index.

A step indexes a few hundred events in a thread and is followed by a longer pause. Each step opens and closes
the index: a file that was deleted in the meantime is created again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from longwatch.clock import Clock
from longwatch.errors import JournalUnusable, LongwatchError
from longwatch.journal.sqlite.journal import SqliteJournal
from longwatch.journal.sqlite.search_index import EVENTS_AT_ONCE, SearchIndex

IDLE_SECONDS = 5.0  # between checks for new events
PAUSE_FACTOR = 3  # the pause after a step, in durations of the step: a quarter of one CPU at most
MIN_PAUSE_SECONDS = 0.05

log = logging.getLogger("longwatch.server")

Sleep = Callable[[float], Awaitable[None]]


def pause_seconds(unindexed: int, took_seconds: float) -> float:
    """The pause after a step that took so long and left so many events."""
    return max(MIN_PAUSE_SECONDS, took_seconds * PAUSE_FACTOR) if unindexed else IDLE_SECONDS


class SearchFiller:
    """Indexes what arrives in a journal."""

    def __init__(self, journal: SqliteJournal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._seen: tuple[int, int] | None = None  # generation and last arrival when it had caught up
        self._problem = ""

    async def run(self, *, sleep: Sleep = asyncio.sleep) -> None:
        """Fill the index forever. A problem is logged once while it lasts."""
        while True:
            began = self._clock.monotonic()
            try:
                unindexed = await asyncio.to_thread(self.step)
                self._problem = ""
            except Exception as error:  # noqa: BLE001 - nothing else restarts it
                unindexed = 0
                self._log(error)
            await sleep(pause_seconds(unindexed, self._clock.monotonic() - began))

    def step(self) -> int:
        """Index a few hundred events; returns the number of those that are left."""
        arrived = self._journal.generation, self._journal.last_arrival()
        if arrived == self._seen:
            return 0
        index = SearchIndex(self._journal, self._journal.path, clock=self._clock)
        try:
            unindexed = index.catch_up(max_events=EVENTS_AT_ONCE)
        except JournalUnusable:  # it is damaged or of another program: the next check fills a new one
            index.discard()
            return 0
        finally:
            index.close()
        if not unindexed:
            self._seen = arrived
        return unindexed

    def _log(self, error: Exception) -> None:
        text = f"the search index cannot be filled, next try in {IDLE_SECONDS:g} s: {error}"
        if text != self._problem:
            log.warning(text, exc_info=not isinstance(error, LongwatchError))
        self._problem = text

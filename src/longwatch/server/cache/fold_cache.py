"""The past of runs on the board: read and folded beside the event loop, and remembered for a while after.

A run of a hundred thousand events takes a second to fold. Whoever asks for it again, after it has left the
board, goes on from the cursor of what was known.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from longwatch.errors import JournalMoved, JournalUnusable, LongwatchError
from longwatch.following.progress import RunProgress
from longwatch.journal.asynchronous import AsyncJournal
from longwatch.journal.base import Arrivals
from longwatch.model.event import START, Cursor, Event

READ_EVENTS = 2_000  # at once
FOLD_HERE = 200  # events up to which going to another thread takes longer than the fold
WORTH_REMEMBERING = 500  # events; a shorter run is quickly read again
REMEMBERED_EVENTS = 500_000  # in all runs together
REMEMBERED_RUNS = 500
REMEMBERED_SECONDS = 600.0  # events expire and are deleted; what is known must not outlive them for long

S = TypeVar("S")
CacheKey = tuple[str, str]


@dataclass(slots=True)
class CachedFold(Generic[S]):
    """What the events of a run up to a cursor make of it."""

    state: S
    known: RunProgress
    events: int = 0
    cursor: Cursor = START

    def copy(self) -> CachedFold[S]:
        """Another one that can be added to by itself."""
        known = RunProgress(whole=True)
        known.merge(self.known)
        return CachedFold(self.state, known, self.events, self.cursor)


class FoldCache:
    """Reads the past of runs, each on from where it was left."""

    def __init__(self, journal: AsyncJournal, *, now: Callable[[], float] = time.monotonic) -> None:
        self._journal = journal
        self._now = now
        self._generation = 0  # of the journal that the remembered runs were read from
        self._remembered: OrderedDict[CacheKey, tuple[CachedFold[object], float]] = OrderedDict()

    def begin(self, key: CacheKey, empty: S) -> CachedFold[S]:
        """What is remembered of a run, or nothing."""
        self._forget_other_journal()
        found, kept_at = self._remembered.pop(key, (None, 0.0))
        if found is None or self._now() - kept_at > REMEMBERED_SECONDS:
            return CachedFold(empty, RunProgress(whole=True))
        return found.copy()  # type: ignore[return-value]  # the key stands for the type

    async def read(
        self,
        run_id: str,
        past: CachedFold[S],
        plus: Callable[[S, Sequence[Event]], S],
        progress: Callable[[], None],
    ) -> None:
        """Add everything that is there by now. Stops early if the journal does not answer.

        Raises what a retry in the next seconds would not help: a file that is missing, a table that is.
        """
        while True:
            try:
                page = await self._journal.read(run_id, after=past.cursor, limit=READ_EVENTS)
            except (JournalMoved, JournalUnusable):
                raise
            except LongwatchError:
                return  # whoever follows from here asks again, and tells what is wrong
            if len(page.events) <= FOLD_HERE:
                _add(past, plus, page.events)
            else:
                await asyncio.get_running_loop().run_in_executor(None, partial(_add, past, plus, page.events))
            past.cursor = page.cursor
            if not page.more:
                return
            progress()

    def remember(self, key: CacheKey, past: CachedFold[S]) -> None:
        """Keep what is known of a run that leaves the board."""
        if past.events < WORTH_REMEMBERING or past.cursor == START:
            return
        self._forget_other_journal()
        self._remembered[key] = past, self._now()  # type: ignore[assignment]
        self._remembered.move_to_end(key)
        while len(self._remembered) > REMEMBERED_RUNS or (
            len(self._remembered) > 1
            and sum(each.events for each, _ in self._remembered.values()) > REMEMBERED_EVENTS
        ):
            self._remembered.popitem(last=False)

    def _forget_other_journal(self) -> None:
        journal = self._journal.journal
        generation = journal.generation if isinstance(journal, Arrivals) else 0
        if generation != self._generation:
            self._generation = generation
            self._remembered.clear()


def _add(past: CachedFold[S], plus: Callable[[S, Sequence[Event]], S], events: Sequence[Event]) -> None:
    if events:
        past.state = plus(past.state, events)
        past.known.add(events)
        past.events += len(events)

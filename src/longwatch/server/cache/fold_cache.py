"""Folds of runs: read and folded beside the event loop, and cached for a while after their last use.

A run of a hundred thousand events takes a second to fold. A request for a run that has left the run cache
resumes from the cursor of its fold.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from longwatch.errors import JournalMoved, JournalUnusable, LongwatchError, RunDeleted
from longwatch.following.progress import RunProgress
from longwatch.journal.asynchronous import AsyncJournal
from longwatch.journal.base import Arrivals
from longwatch.journal.bulk import without_collection
from longwatch.model.event import START, Cursor, Event

READ_EVENTS = 2_000  # at once
FOLD_HERE = 200  # events up to which going to another thread takes longer than the fold
ADD_SHARE = 8  # a long fold grows by at least the eighth part at a time
LONG_EVENTS = 20_000  # events of a run that is folded without the garbage collector
MIN_CACHED_EVENTS = 500  # events; a shorter run is quickly read again
MAX_CACHED_EVENTS = 500_000  # in all runs together
MAX_CACHED_RUNS = 500
MAX_CACHED_SECONDS = 600.0  # events expire and are deleted; a fold must not outlive them for long

S = TypeVar("S")
CacheKey = tuple[str, str]


@dataclass(slots=True)
class CachedFold(Generic[S]):
    """The state of a run after its events up to a cursor."""

    state: S
    progress: RunProgress
    events: int = 0
    cursor: Cursor = START

    def copy(self) -> CachedFold[S]:
        """A copy that grows independently."""
        progress = RunProgress(whole=True)
        progress.merge(self.progress)
        return CachedFold(self.state, progress, self.events, self.cursor)


class FoldCache:
    """Reads and folds runs, each from where it was left."""

    def __init__(self, journal: AsyncJournal, *, now: Callable[[], float] = time.monotonic) -> None:
        self._journal = journal
        self._now = now
        self._generation = 0  # of the journal that the cached runs were read from
        self._cached: OrderedDict[CacheKey, tuple[CachedFold[object], float]] = OrderedDict()

    def start(self, key: CacheKey, empty: S) -> CachedFold[S]:
        """The cached fold of a run, or an empty one."""
        self._forget_other_journal()
        found, cached_at = self._cached.pop(key, (None, 0.0))
        if found is None or self._now() - cached_at > MAX_CACHED_SECONDS:
            return CachedFold(empty, RunProgress(whole=True))
        return found.copy()  # type: ignore[return-value]  # the key stands for the type

    async def read(
        self,
        run_id: str,
        fold: CachedFold[S],
        plus: Callable[[S, Sequence[Event]], S],
        on_progress: Callable[[], None],
    ) -> None:
        """Add everything that is stored by now. Stops early if the journal cannot be read.

        Reports each page that was read and each addition, either of which may be slow.

        Raises what a retry in the next seconds would not help: a file that is missing, a table that is.
        """
        waiting: list[Event] = []
        cursor, is_long = fold.cursor, False
        with ExitStack() as stack:
            while True:
                try:
                    page = await self._journal.read(run_id, after=cursor, limit=READ_EVENTS)
                except (JournalMoved, JournalUnusable, RunDeleted):
                    raise
                except LongwatchError:
                    return  # the follower that continues from here retries and reports it
                waiting += page.events
                cursor = page.cursor
                on_progress()
                # Each addition copies the fold, so additions grow with it.
                if not page.more or len(waiting) >= max(READ_EVENTS, fold.events // ADD_SHARE):
                    await _add_elsewhere(fold, plus, waiting, cursor)
                    waiting = []
                    on_progress()
                if not page.more:
                    return
                if not is_long and fold.events >= LONG_EVENTS:
                    is_long = True
                    stack.enter_context(without_collection())

    def put(self, key: CacheKey, fold: CachedFold[S]) -> None:
        """Cache the fold of a run that leaves the run cache."""
        if fold.events < MIN_CACHED_EVENTS or fold.cursor == START:
            return
        self._forget_other_journal()
        self._cached[key] = fold, self._now()  # type: ignore[assignment]
        self._cached.move_to_end(key)
        while len(self._cached) > MAX_CACHED_RUNS or (
            len(self._cached) > 1
            and sum(each.events for each, _ in self._cached.values()) > MAX_CACHED_EVENTS
        ):
            self._cached.popitem(last=False)

    def _forget_other_journal(self) -> None:
        journal = self._journal.journal
        generation = journal.generation if isinstance(journal, Arrivals) else 0
        if generation != self._generation:
            self._generation = generation
            self._cached.clear()


async def _add_elsewhere(
    fold: CachedFold[S], plus: Callable[[S, Sequence[Event]], S], events: Sequence[Event], cursor: Cursor
) -> None:
    """Add the events up to a cursor, many of them in another thread."""
    if len(events) <= FOLD_HERE:
        _add(fold, plus, events)
    else:
        await asyncio.get_running_loop().run_in_executor(None, partial(_add, fold, plus, events))
    fold.cursor = cursor


def _add(fold: CachedFold[S], plus: Callable[[S, Sequence[Event]], S], events: Sequence[Event]) -> None:
    if events:
        fold.state = plus(fold.state, events)
        fold.progress.add(events)
        fold.events += len(events)

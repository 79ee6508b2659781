"""Folds of many runs, each read from the cursor of the last read, so that a read only fetches new events."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, Self, TypeVar

from longwatch.errors import InvalidCursor
from longwatch.journal.base import Arrivals, Journal
from longwatch.journal.claims import READ_EVENTS
from longwatch.model.event import START, Cursor, Event

CACHED_FOLDS = 256


class Foldable(Protocol):
    """The fold of a run's events."""

    def plus(self, events: Iterable[Event]) -> Self:
        """This fold with more events."""


Fold = TypeVar("Fold", bound=Foldable)


class FoldReader(Generic[Fold]):
    """Reads and caches the folds of many runs, least recently used first out. Thread-safe."""

    def __init__(self, journal: Journal, *, max_folds: int = CACHED_FOLDS) -> None:
        self._journal = journal
        self._numbered = journal if isinstance(journal, Arrivals) else None
        self._max_folds = max_folds
        self._folds: OrderedDict[str, tuple[Fold, Cursor]] = OrderedDict()
        self._generation = self._journal_generation()  # of the journal that the folds were read from
        self._lock = threading.Lock()

    def read(self, run_id: str, empty: Callable[[], Fold], *, thorough: bool = False) -> Fold:
        """The fold of all events in the journal. `thorough` reads late events too.

        A journal that was replaced is read from its start.
        """
        while True:
            with self._lock:
                self._drop_replaced()
                generation = self._generation
                fold, cursor = self._folds.get(run_id) or (empty(), START)
            try:
                fold, cursor = self._resume(run_id, fold, cursor, thorough=thorough)
            except InvalidCursor:
                if generation == self._journal_generation():
                    raise
                continue
            if generation == self._journal_generation():
                break
        if cursor != START:
            # Another thread may have read further: those events are read again.
            with self._lock:
                self._drop_replaced()
                if generation == self._generation:
                    self._folds[run_id] = (fold, cursor)
                    self._folds.move_to_end(run_id)
                while len(self._folds) > self._max_folds:
                    self._folds.popitem(last=False)
        return fold

    def _resume(self, run_id: str, fold: Fold, cursor: Cursor, *, thorough: bool) -> tuple[Fold, Cursor]:
        while True:
            page = self._journal.read(run_id, after=cursor, limit=READ_EVENTS, thorough=thorough)
            if page.events:
                fold = fold.plus(page.events)
            cursor = page.cursor
            if not page.more:
                return fold, cursor

    def _journal_generation(self) -> int:
        return self._numbered.generation if self._numbered is not None else 0

    def _drop_replaced(self) -> None:
        """Drop the folds of a journal that was replaced. Call under the lock."""
        generation = self._journal_generation()
        if generation != self._generation:
            self._generation = generation
            self._folds.clear()

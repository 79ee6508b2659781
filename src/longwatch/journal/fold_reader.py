"""Folds of runs that are read on from where they were left, so that a look costs only what is new."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, Self, TypeVar

from longwatch.errors import InvalidCursor
from longwatch.journal.base import Arrivals, Journal
from longwatch.journal.claims import READ_EVENTS
from longwatch.model.event import START, Cursor, Event

REMEMBERED = 256  # folds of each sort


class Foldable(Protocol):
    """What the events of a run say together."""

    def plus(self, events: Iterable[Event]) -> Self:
        """This and what the events add to it."""


Fold = TypeVar("Fold", bound=Foldable)


class Folds(Generic[Fold]):
    """The folds of many runs of one sort. Threads may share it; those used least recently are forgotten."""

    def __init__(self, journal: Journal, *, most: int = REMEMBERED) -> None:
        self._journal = journal
        self._numbered = journal if isinstance(journal, Arrivals) else None
        self._most = most
        self._known: OrderedDict[str, tuple[Fold, Cursor]] = OrderedDict()
        self._generation = self._journal_generation()  # of the journal that the folds were read from
        self._lock = threading.Lock()

    def read(self, run_id: str, empty: Callable[[], Fold], *, thorough: bool = False) -> Fold:
        """The fold of everything that is in the journal by now. `thorough`: look for late events too.

        A journal that is replaced meanwhile is read from its start.
        """
        while True:
            with self._lock:
                self._forget_other_journal()
                generation = self._generation
                fold, cursor = self._known.get(run_id) or (empty(), START)
            try:
                fold, cursor = self._read_on(run_id, fold, cursor, thorough=thorough)
            except InvalidCursor:
                if generation == self._journal_generation():
                    raise
                continue
            if generation == self._journal_generation():
                break
        if cursor != START:
            # Another thread may have read further in the meantime: what it knew is simply read again.
            with self._lock:
                self._forget_other_journal()
                if generation == self._generation:
                    self._known[run_id] = (fold, cursor)
                    self._known.move_to_end(run_id)
                while len(self._known) > self._most:
                    self._known.popitem(last=False)
        return fold

    def _read_on(self, run_id: str, fold: Fold, cursor: Cursor, *, thorough: bool) -> tuple[Fold, Cursor]:
        while True:
            page = self._journal.read(run_id, after=cursor, limit=READ_EVENTS, thorough=thorough)
            if page.events:
                fold = fold.plus(page.events)
            cursor = page.cursor
            if not page.more:
                return fold, cursor

    def _journal_generation(self) -> int:
        return self._numbered.generation if self._numbered is not None else 0

    def _forget_other_journal(self) -> None:
        """Under the lock: what was read from a journal that was replaced says nothing about the next one."""
        generation = self._journal_generation()
        if generation != self._generation:
            self._generation = generation
            self._known.clear()

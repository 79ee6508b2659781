"""Folds of runs that are read on from where they were left, so that a look costs only what is new."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, Self, TypeVar

from longwatch.events import START, Cursor, Event
from longwatch.journal.base import Journal
from longwatch.journal.claims import READ_EVENTS

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
        self._most = most
        self._known: OrderedDict[str, tuple[Fold, Cursor]] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, run_id: str, empty: Callable[[], Fold], *, thorough: bool = False) -> Fold:
        """The fold of everything that is in the journal by now. `thorough`: look for late events too."""
        with self._lock:
            fold, cursor = self._known.get(run_id) or (empty(), START)
        while True:
            page = self._journal.read(run_id, after=cursor, limit=READ_EVENTS, thorough=thorough)
            if page.events:
                fold = fold.plus(page.events)
            cursor = page.cursor
            if not page.more:
                break
        if cursor != START:
            # Another thread may have read further in the meantime: what it knew is simply read again.
            with self._lock:
                self._known[run_id] = (fold, cursor)
                self._known.move_to_end(run_id)
                while len(self._known) > self._most:
                    self._known.popitem(last=False)
        return fold

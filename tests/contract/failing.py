"""A journal in front of another one that fails at will, with all that following asks of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from longwatch.errors import LongwatchError
from longwatch.events import Event, Page
from longwatch.journal.arrivals import Arrival
from longwatch.journal.base import Arrivals, Journal, Listening

FOR_EVER = -1


class _Faults:
    """Reading fails until told otherwise; everything else is the journal's own."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._error: LongwatchError | None = None
        self._append_error: LongwatchError | None = None
        self._times = 0
        self.asked_at: list[float] = []  # loop times of all reads

    def fail(self, error: LongwatchError, times: int = FOR_EVER) -> None:
        self._error, self._times = error, times

    def fail_appends(self, error: LongwatchError) -> None:
        self._append_error = error

    def recover(self) -> None:
        self._error = None

    def _maybe_fail(self) -> None:
        self.asked_at.append(asyncio.get_running_loop().time())
        if self._error is None or self._times == 0:
            return
        self._times -= 1 if self._times > 0 else 0
        raise self._error

    def read(self, run_id: str, **options: Any) -> Page:
        self._maybe_fail()
        return self._journal.read(run_id, **options)

    def append(self, events: Sequence[Event]) -> None:
        if self._append_error is not None:
            raise self._append_error
        self._journal.append(events)

    @property
    def default_ttl_seconds(self) -> int | None:
        return self._journal.default_ttl_seconds


class _ArrivalFaults(_Faults):
    """The same for a journal that numbers arrivals."""

    _journal: Any

    def last_arrival(self) -> int:
        return int(self._journal.last_arrival())

    def arrivals(self, after: int, *, limit: int) -> Sequence[Arrival]:
        self._maybe_fail()
        found: Sequence[Arrival] = self._journal.arrivals(after, limit=limit)
        return found

    def listen(self, heard: Callable[[], None]) -> Listening:
        listening: Listening = self._journal.listen(heard)
        return listening


def Fails(journal: Journal) -> Any:
    """This journal, failing when told to."""
    return _ArrivalFaults(journal) if isinstance(journal, Arrivals) else _Faults(journal)

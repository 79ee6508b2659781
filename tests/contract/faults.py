"""A journal in front of another one that fails at will, with everything that a follower requires."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from longwatch.errors import LongwatchError
from longwatch.journal.base import Arrivals, Journal
from longwatch.testing.faults import Intercepted, InterceptedArrivals

FOR_EVER = -1
READS = ("read", "arrivals")

T = TypeVar("T")


class _Faults(Intercepted):
    """Reads fail until they are repaired; everything else is the journal's own."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal, self._pass)
        self._error: LongwatchError | None = None
        self._append_error: LongwatchError | None = None
        self._times = 0
        self.polled_at: list[float] = []  # loop times of all reads

    def fail(self, error: LongwatchError, times: int = FOR_EVER) -> None:
        self._error, self._times = error, times

    def fail_appends(self, error: LongwatchError) -> None:
        self._append_error = error

    def recover(self) -> None:
        self._error = None

    def _pass(self, name: str, call: Callable[[], T]) -> T:
        if name in READS:
            self.polled_at.append(asyncio.get_running_loop().time())
            if self._error is not None and self._times != 0:
                self._times -= 1 if self._times > 0 else 0
                raise self._error
        elif name == "append" and self._append_error is not None:
            raise self._append_error
        return call()


class _ArrivalFaults(_Faults, InterceptedArrivals):
    """The same for a journal that numbers arrivals."""


def Fails(journal: Journal) -> Any:
    """This journal, failing on demand."""
    return _ArrivalFaults(journal) if isinstance(journal, Arrivals) else _Faults(journal)

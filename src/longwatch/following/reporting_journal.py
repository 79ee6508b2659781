"""A journal that tells of each read that failed, before whoever asked decides to wait and try again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from longwatch.journal.arrivals import Arrival
from longwatch.journal.base import DEFAULT_READ_LIMIT, Arrivals, Journal
from longwatch.model.event import START, Cursor, Event, Page
from longwatch.storage.change_signal import ChangeSignal, OnChange

Failed = Callable[[Exception], None]


def reporting(journal: Journal, failed: Failed) -> Journal:
    """The same journal for a hub. `failed` is called in the thread that read, and must not raise."""
    if isinstance(journal, Arrivals):
        return cast(Journal, _ReportingArrivals(journal, failed))
    return cast(Journal, _Reporting(journal, failed))


class _Reporting:
    """What a hub asks of every journal."""

    def __init__(self, journal: Any, failed: Failed) -> None:
        self._journal = journal
        self._failed = failed

    @property
    def url(self) -> str:
        return cast(str, self._journal.url)

    @property
    def default_ttl_seconds(self) -> int | None:
        return cast("int | None", self._journal.default_ttl_seconds)

    def append(self, events: Sequence[Event]) -> None:
        self._journal.append(events)

    def read(
        self, run_id: str, *, after: Cursor = START, limit: int = DEFAULT_READ_LIMIT, thorough: bool = False
    ) -> Page:
        with self._told():
            return cast(Page, self._journal.read(run_id, after=after, limit=limit, thorough=thorough))

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._failed(error)
            raise


class _ReportingArrivals(_Reporting):
    """A class of its own: a hub tells by the methods whether a journal numbers what arrives."""

    @property
    def generation(self) -> int:
        return cast(int, self._journal.generation)

    def last_arrival(self) -> int:
        with self._told():
            return cast(int, self._journal.last_arrival())

    def arrivals(self, after: int, *, limit: int) -> Sequence[Arrival]:
        with self._told():
            return cast("Sequence[Arrival]", self._journal.arrivals(after, limit=limit))

    def subscribe(self, on_change: OnChange) -> ChangeSignal:
        with self._told():
            return cast(ChangeSignal, self._journal.subscribe(on_change))

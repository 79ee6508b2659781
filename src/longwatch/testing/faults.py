"""Journals that fail on request, for tests of code that uses one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, cast

from longwatch.errors import InvalidEvent, LongwatchError, Unreachable
from longwatch.journal.arrivals import Arrival
from longwatch.journal.base import (
    DEFAULT_LIST_LIMIT,
    DEFAULT_READ_LIMIT,
    Arrivals,
    ClosesOnExit,
    Journal,
    RunPage,
)
from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import START, Cursor, Event, Page
from longwatch.model.run import RunSummary
from longwatch.model.run_query import ALL_RUNS, RunQuery
from longwatch.storage.change_signal import ChangeSignal, OnChange

T = TypeVar("T")


class Gate(Protocol):
    """Makes the call, raises, or both."""

    def __call__(self, name: str, call: Callable[[], T]) -> T: ...


def intercepted(journal: Journal, gate: Gate) -> Journal:
    """The journal with every call through `gate`, which gets the method's name."""
    kind = InterceptedArrivals if isinstance(journal, Arrivals) else Intercepted
    return cast(Journal, kind(journal, gate))


class Intercepted:
    """The methods of a journal that hubs and producers use."""

    def __init__(self, journal: Any, gate: Gate) -> None:
        self._journal = journal
        self._gate = gate

    @property
    def url(self) -> str:
        return str(self._journal.url)

    @property
    def default_ttl_seconds(self) -> int | None:
        return cast("int | None", self._journal.default_ttl_seconds)

    @property
    def announce_after_ms(self) -> int | None:
        return cast("int | None", self._journal.announce_after_ms)

    def append(self, events: Sequence[Event]) -> None:
        self._gate("append", lambda: self._journal.append(events))

    def read(self, run_id: str, **options: Any) -> Page:
        return cast(Page, self._gate("read", lambda: self._journal.read(run_id, **options)))

    def find_run(self, run_id: str) -> RunSummary | None:
        return cast("RunSummary | None", self._gate("find_run", lambda: self._journal.find_run(run_id)))

    def find_runs(self, query: RunQuery = ALL_RUNS, **options: Any) -> RunPage:
        return cast(RunPage, self._gate("find_runs", lambda: self._journal.find_runs(query, **options)))

    def close(self) -> None:
        self._journal.close()


class InterceptedArrivals(Intercepted):
    """A separate class, because a hub checks for these methods."""

    @property
    def generation(self) -> int:
        return cast(int, self._journal.generation)

    def last_arrival(self) -> int:
        return cast(int, self._gate("last_arrival", self._journal.last_arrival))

    def arrivals(self, after: int, *, limit: int) -> Sequence[Arrival]:
        return cast(
            "Sequence[Arrival]",
            self._gate("arrivals", lambda: self._journal.arrivals(after, limit=limit)),
        )

    def subscribe(self, on_change: OnChange) -> ChangeSignal:
        return cast(ChangeSignal, self._journal.subscribe(on_change))


FOREVER = -1


class FaultyJournal(ClosesOnExit):
    """A journal with faults in front of it. Reading always works; `appends` counts the calls of `append`."""

    def __init__(self, journal: Journal | None = None) -> None:
        self.journal = journal if journal is not None else MemoryJournal()
        self.appends = 0
        self._lock = threading.Lock()
        self._failures = 0  # to come
        self._error: Exception = Unreachable("the journal does not respond")
        self._timeouts = 0  # to come
        self._refused: Callable[[Event], bool] = lambda event: False

    def fail(self, times: int = FOREVER, error: Exception | None = None) -> None:
        """Make the next appends fail and store nothing; without a number, until `recover`."""
        with self._lock:
            self._failures = times
            self._error = error if error is not None else Unreachable("the journal does not respond")

    def time_out(self, times: int = 1) -> None:
        """Make the next appends store everything and fail, like a lost response."""
        with self._lock:
            self._timeouts = times

    def refuse(self, which: Callable[[Event], bool]) -> None:
        """Reject these events permanently. A batch with one of them stores nothing."""
        self._refused = which

    def recover(self) -> None:
        """Stop all faults."""
        with self._lock:
            self._failures = self._timeouts = 0
            self._refused = lambda event: False

    @property
    def url(self) -> str:
        return self.journal.url

    @property
    def default_ttl_seconds(self) -> int | None:
        return self.journal.default_ttl_seconds

    @property
    def announce_after_ms(self) -> int | None:
        return self.journal.announce_after_ms

    def append(self, events: Sequence[Event]) -> None:
        with self._lock:
            self.appends += 1
            if self._failures:
                self._failures -= 1 if self._failures > 0 else 0
                raise self._error
            error = self._timeout()
        refused = [event for event in events if self._refused(event)]
        if refused:
            raise InvalidEvent(f"{refused[0].type!r} events are refused here")
        self.journal.append(events)
        if error is not None:
            raise error

    def _timeout(self) -> LongwatchError | None:
        if not self._timeouts:
            return None
        self._timeouts -= 1 if self._timeouts > 0 else 0
        return Unreachable("no response in time")

    def read(
        self, run_id: str, *, after: Cursor = START, limit: int = DEFAULT_READ_LIMIT, thorough: bool = False
    ) -> Page:
        return self.journal.read(run_id, after=after, limit=limit, thorough=thorough)

    def find_runs(
        self, query: RunQuery = ALL_RUNS, *, after: Cursor | None = None, limit: int = DEFAULT_LIST_LIMIT
    ) -> RunPage:
        return self.journal.find_runs(query, after=after, limit=limit)

    def find_run(self, run_id: str) -> RunSummary | None:
        return self.journal.find_run(run_id)

    def close(self) -> None:
        self.journal.close()

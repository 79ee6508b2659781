"""The guarantees of every journal. Each is a test in tests/contract that every adapter inherits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from longwatch.journal.arrivals import Arrival
from longwatch.journal.codec import payload_size
from longwatch.model.event import START, Cursor, Event, Page
from longwatch.model.retention import RetentionRule
from longwatch.model.run import RunSummary
from longwatch.model.run_query import ALL_RUNS, RunQuery
from longwatch.storage.change_signal import ChangeSignal, OnChange

DEFAULT_READ_LIMIT = 500
PAGE_BYTES = 1024 * 1024  # of payloads, as `payload_size` counts them: the event that reaches it ends a page
DEFAULT_LIST_LIMIT = 50


@dataclass(frozen=True, slots=True)
class RunPage:
    """A page of runs, newest first; `cursor` leads to the next page and is None at the end."""

    runs: Sequence[RunSummary]
    cursor: Cursor | None = None


@dataclass(frozen=True, slots=True)
class UnlistedRuns:
    """Runs that a scan found and the list of a journal lacks, newest first."""

    runs: Sequence[RunSummary] = ()
    is_whole: bool = True  # False: the scan reached its limit, and there may be more


def fills_page(events: Iterable[Event], limit: int) -> bool:
    """Whether these events fill one page, by their number or by their size."""
    count = size = 0
    for event in events:
        count += 1
        size += payload_size(event)
    return count >= limit or size >= PAGE_BYTES


class ClosesOnExit:
    """Closes a journal at the end of a `with` block."""

    def close(self) -> None:
        """Close files and connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Journal(Protocol):
    """An append-only record of events. Blocking; `AsyncJournal` wraps it for asyncio."""

    @property
    def url(self) -> str:
        """The URL with which `open_journal` opens this journal again."""

    @property
    def default_ttl_seconds(self) -> int | None:
        """After how long events expire unless the recorder's settings name a time; None: never."""

    @property
    def announce_after_ms(self) -> int | None:
        """How old an event may be when it is stored without a `late_batch` that makes readers look back.

        None: readers find it in any case.
        """

    def append(self, events: Sequence[Event]) -> None:
        """Store each event once, durably.

        Storing an event again with the same content succeeds. An event ID that is in use with other content
        raises `EventConflict` after the rest of the batch has been stored. After `JournalUnavailable`, none,
        some or all events are stored: append the same events again.
        """

    def read(
        self, run_id: str, *, after: Cursor = START, limit: int = DEFAULT_READ_LIMIT, thorough: bool = False
    ) -> Page:
        """Return up to `limit` events of the run that were not returned before `after`, in their order.

        A page also ends with the event that brings its payloads to `PAGE_BYTES`, with `more` set: the memory
        of a reader is bounded, whatever the size of the events. Resuming from each page's cursor returns
        every event exactly once, including those with an earlier time than events that were read before. An
        unknown run is empty. `thorough` uses the widest look-back, for a reader that is about to stop.
        Expired events are not returned.
        """

    def find_runs(
        self, query: RunQuery = ALL_RUNS, *, after: Cursor | None = None, limit: int = DEFAULT_LIST_LIMIT
    ) -> RunPage:
        """List runs, newest first."""

    def find_run(self, run_id: str) -> RunSummary | None:
        """The summary of one run, or None if it has no event."""

    def close(self) -> None:
        """Close files and connections. A closed journal cannot be used again."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


@runtime_checkable
class Arrivals(Protocol):
    """A journal that numbers arriving events over all runs: one read serves all followers. Optional."""

    @property
    def generation(self) -> int:
        """Grows when the store is replaced by another, in which earlier positions and cursors are not valid.

        A reader that compares it before its first read and after each read never mixes two stores.
        """

    def last_arrival(self) -> int:
        """The position of the last event; 0 for an empty journal."""

    def arrivals(self, after: int, *, limit: int) -> Sequence[Arrival]:
        """The events of all runs after this position, in the order of arrival.

        Up to `limit` or `PAGE_BYTES`, as in `read`; `fills_page` determines whether there may be more. A
        reader never sees a position before all lower ones. Expired events are left out.
        """

    def subscribe(self, on_change: OnChange) -> ChangeSignal:
        """Call `on_change`, from any thread, after each append of this process to this journal."""


@runtime_checkable
class Heartbeats(Protocol):
    """A journal that stores the last heartbeat of each process in a record that is overwritten. Optional."""

    @property
    def heartbeat_seconds(self) -> float:
        """The interval of heartbeats, unless the recorder's settings name one."""

    def beat(self, process_id: str, at_ms: int) -> None:
        """Store that the process was alive at this time.

        A heartbeat may be lost: it only narrows an interval. It is neither an event nor part of a run.
        """

    def heartbeats(self, process_ids: Sequence[str]) -> Mapping[str, int]:
        """When each process was last alive, in epoch ms; those without a heartbeat are left out."""


@runtime_checkable
class ScansRuns(Protocol):
    """A journal whose list lacks the runs of other producers. Optional."""

    def scan_unlisted(self, *, max_pages: int) -> UnlistedRuns:
        """The runs that `find_runs` does not list, from at most `max_pages` pages of a scan.

        Raises `TableProblem` of kind access-denied without the permission to scan.
        """


@runtime_checkable
class ReadsLast(Protocol):
    """A journal that reads the end of a run without the rest of it. Optional."""

    def read_last(self, run_id: str, limit: int) -> Sequence[Event]:
        """The last `limit` events of the run in their order. Expired events are not returned."""


@runtime_checkable
class Prunes(Protocol):
    """A journal that deletes old events on request. Optional."""

    def prune(self, before_ms: int, *, batch: int = 1000) -> int:
        """Delete events that occurred before this time, in small transactions; return their number."""

    def expire(self, rules: Sequence[RetentionRule], *, batch: int = 1000) -> int:
        """Delete the ended runs that the rules let expire, in small transactions; return their events."""

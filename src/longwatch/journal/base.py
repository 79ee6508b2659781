"""The promises every journal keeps. Each is a test in tests/contract that every adapter inherits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from longwatch.journal.arrivals import Arrival
from longwatch.journal.codec import payload_size
from longwatch.model.event import START, Cursor, Event, Page
from longwatch.model.run import RunSummary
from longwatch.model.run_query import ALL_RUNS, RunQuery
from longwatch.storage.change_signal import ChangeSignal, OnChange

DEFAULT_READ_LIMIT = 500
PAGE_BYTES = 1024 * 1024  # of payloads, as `payload_size` counts them: the event that reaches it ends a page
DEFAULT_LIST_LIMIT = 50


"""What people mean by runs when they do not ask for a kind."""


@dataclass(frozen=True, slots=True)
class RunPage:
    """Some runs, newest first, and where the next page begins; `cursor` is None at the end."""

    runs: Sequence[RunSummary]
    cursor: Cursor | None = None


@dataclass(frozen=True, slots=True)
class UnlistedRuns:
    """Runs that the list of a journal lacks, as a scan found them, newest first."""

    runs: Sequence[RunSummary] = ()
    is_whole: bool = True  # False: the scan ended at its bound, and there may be more


def fills_page(events: Iterable[Event], limit: int) -> bool:
    """Whether these are as many events as one page holds, by their number or by their size."""
    count = size = 0
    for event in events:
        count += 1
        size += payload_size(event)
    return count >= limit or size >= PAGE_BYTES


class ClosesOnExit:
    """`with` for journals: leaving the block closes it."""

    def close(self) -> None:
        """Let go of files and connections."""

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
        """The address under which `open_journal` opens this journal again."""

    @property
    def default_ttl_seconds(self) -> int | None:
        """How long events live here unless the recorder's settings say otherwise; None is for ever."""

    @property
    def announce_after_ms(self) -> int | None:
        """How old an event may be when it is stored without a `late_batch` that tells readers to look back.

        None: readers find it in any case.
        """

    def append(self, events: Sequence[Event]) -> None:
        """Store each event once, durably.

        An event that is already there with the same content is success. One whose id already names other
        content raises `EventConflict`, after the rest of the batch has been stored. `JournalUnavailable`
        means that none, some or all were stored: append the same events again.
        """

    def read(
        self, run_id: str, *, after: Cursor = START, limit: int = DEFAULT_READ_LIMIT, thorough: bool = False
    ) -> Page:
        """Return up to `limit` events of the run that were not returned before `after`, in their order.

        A page also ends with the event that brings its payloads to `PAGE_BYTES`, and says that there is
        more: what a reader holds is bounded, whatever the size of the events.
        Reading on from each page's cursor returns every event exactly once, also those that are stamped
        earlier than what was read already. An unknown run reads as empty. `thorough` asks for the widest
        look-back at once, for the moment when a reader is about to stop. Expired events are not returned.
        """

    def find_runs(
        self, query: RunQuery = ALL_RUNS, *, after: Cursor | None = None, limit: int = DEFAULT_LIST_LIMIT
    ) -> RunPage:
        """List runs, newest first."""

    def find_run(self, run_id: str) -> RunSummary | None:
        """The summary of one run, or None if no event names it."""

    def close(self) -> None:
        """Let go of files and connections. A closed journal can not be used again."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


@runtime_checkable
class Arrivals(Protocol):
    """A journal that numbers what arrives, over all runs: one read serves every follower. Optional."""

    @property
    def generation(self) -> int:
        """Grows when the store was replaced by another: positions and cursors from before mean nothing there.

        A reader that compares it before its first read and after each one never mixes two stores.
        """

    def last_arrival(self) -> int:
        """The position of what arrived last; 0 for an empty journal."""

    def arrivals(self, after: int, *, limit: int) -> Sequence[Arrival]:
        """The events of all runs past this position, in the order of their arrival.

        Up to `limit` or `PAGE_BYTES`, as `read`; `fills_page` says whether there may be more.
        A reader never sees a position before all lower ones. Expired events are left out.
        """

    def subscribe(self, on_change: OnChange) -> ChangeSignal:
        """Call `on_change`, from any thread, after each append of this process to this journal."""


@runtime_checkable
class Heartbeats(Protocol):
    """A journal that keeps the last heartbeat of each process, in records that are overwritten. Optional."""

    @property
    def heartbeat_seconds(self) -> float:
        """How often a process sends one, unless the recorder's settings say otherwise."""

    def beat(self, process_id: str, at_ms: int) -> None:
        """Store that the process was alive at this time.

        May be lost: it only narrows an interval. No reader of events or runs ever sees it.
        """

    def heartbeats(self, process_ids: Sequence[str]) -> Mapping[str, int]:
        """When each process was last alive, in epoch ms; those without a heartbeat are left out."""


@runtime_checkable
class ScansRuns(Protocol):
    """A journal whose store other producers write to as well: its list lacks their runs. Optional."""

    def scan_unlisted(self, *, max_pages: int) -> UnlistedRuns:
        """The runs that `find_runs` does not list, from at most so many pages of a scan of the store.

        Raises `TableProblem` of the kind access-denied without the right to scan.
        """


@runtime_checkable
class Prunes(Protocol):
    """A journal that deletes old events on demand rather than by itself. Optional."""

    def prune(self, before_ms: int, *, batch: int = 1000) -> int:
        """Delete events that occurred before this time, in small transactions; return how many went."""

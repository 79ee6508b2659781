"""Which runs a rule has to check: those with new events, and those that are open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from longwatch.clock import Clock
from longwatch.journal.base import Arrivals, Journal
from longwatch.model.run import RunSummary, Status
from longwatch.model.run_query import INDEX_KINDS, RunQuery

PAGE_EVENTS = 1_000
MAX_RUNS = 500  # of one read, so that the position is stored from time to time
PAGE_RUNS = 200
DAY_MS = 24 * 3600 * 1000
LOOK_BACK_MS = 2 * DAY_MS  # on journals that are listed by the day: each day costs a query


@dataclass(frozen=True, slots=True)
class ChangedRuns:
    """Runs with events after a position, and the position up to which events were read."""

    run_ids: tuple[str, ...]
    position: int
    more: bool


def last_position(journal: Journal) -> int | None:
    """The position of the last event; None for a journal that numbers no arrivals."""
    return journal.last_arrival() if isinstance(journal, Arrivals) else None


def read_changed(journal: Arrivals, after: int) -> ChangedRuns:
    """The runs with events after this position.

    A position beyond the last one belongs to a file that was replaced or restored: it is read from the start.
    """
    if after > journal.last_arrival():
        after = 0
    run_ids: dict[str, None] = {}
    while len(run_ids) < MAX_RUNS:
        found = journal.arrivals(after, limit=PAGE_EVENTS)
        if not found:
            return ChangedRuns(tuple(run_ids), after, more=False)
        run_ids.update((event.run_id, None) for _, event in found)
        after = found[-1][0]
    return ChangedRuns(tuple(run_ids), after, more=True)


def open_runs(journal: Journal, clock: Clock) -> Iterator[RunSummary]:
    """The runs that are open; on a table, those that started within the look-back."""
    since = None if isinstance(journal, Arrivals) else max(0, clock.now_ms() - LOOK_BACK_MS)
    statuses = frozenset({Status.PENDING, Status.RUNNING})
    return _pages(journal, RunQuery(status=statuses, except_kinds=INDEX_KINDS, since=since))


def recent_runs(journal: Journal, since_ms: int) -> Iterator[RunSummary]:
    """The runs that started since then, of a journal that numbers no arrivals."""
    return _pages(journal, RunQuery(except_kinds=INDEX_KINDS, since=since_ms))


def _pages(journal: Journal, query: RunQuery) -> Iterator[RunSummary]:
    cursor = None
    while True:
        page = journal.find_runs(query, after=cursor, limit=PAGE_RUNS)
        yield from page.runs
        cursor = page.cursor
        if cursor is None:
            return

"""The runs that a journal lists and those that a scan found beside them, as one list, newest first.

A cursor of this list has two parts: where the journal's own list continues, and the position of the page's
last run, below which the unlisted ones continue. So both kinds are returned once, page by page.
"""

from __future__ import annotations

import base64
import binascii
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import InvalidCursor
from longwatch.journal.base import DEFAULT_LIST_LIMIT, Journal, RunPage
from longwatch.model.event import Cursor
from longwatch.model.run import RunSummary
from longwatch.model.run_query import ALL_RUNS, RunQuery

PREFIX = "m1."
READ_AGAIN_SECONDS = 10.0  # after which an open run that a scan found is read again, with all of its events
CACHED_RUNS = 1_024

RunListPosition = tuple[int, str]
"""Where a run stands in the list: its start, then its id."""


class ListsRuns(Protocol):
    """What lists runs page by page: a journal, or a `MergedRuns`."""

    def find_runs(
        self, query: RunQuery = ALL_RUNS, *, after: Cursor | None = None, limit: int = DEFAULT_LIST_LIMIT
    ) -> RunPage:
        """List runs, newest first."""


@dataclass(frozen=True, slots=True)
class _Position:
    listed: Cursor | None = None  # where the journal's own list continues
    is_at_end: bool = False  # of the journal's own list
    below: RunListPosition | None = None  # unlisted runs at or above this position were returned before


class MergedRuns:
    """A `ListsRuns` over a journal and the runs beside its list that `unlisted` returns.

    Threads may share it.
    """

    def __init__(
        self,
        journal: Journal,
        unlisted: Callable[[], Sequence[RunSummary]],
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._journal = journal
        self._unlisted = unlisted
        self._clock = clock
        self._read: OrderedDict[str, tuple[float, RunSummary]] = OrderedDict()
        self._now_listed: set[str] = set()
        self._lock = threading.Lock()

    def find_runs(
        self, query: RunQuery = ALL_RUNS, *, after: Cursor | None = None, limit: int = DEFAULT_LIST_LIMIT
    ) -> RunPage:
        position, unlisted = _parsed(after), self._unlisted()
        page = self._listed(query, position, limit)
        if not unlisted and position.below is None:
            return page
        listed = self._listed_since_the_scan(page.runs, unlisted)
        others = [
            run
            for run in unlisted
            if run.run_id not in listed
            and query.accepts(run)
            and (position.below is None or _place(run) < position.below)
        ]
        return self._merged(query, position, page, others, limit)

    def _listed_since_the_scan(self, runs: Sequence[RunSummary], unlisted: Sequence[RunSummary]) -> set[str]:
        """Runs that a scan found and the journal has listed since, here or on an earlier page.

        Their entry may begin later than they did, with longwatch's first event, so it is on another page.
        """
        found = {run.run_id for run in unlisted}
        with self._lock:
            self._now_listed = (self._now_listed | {run.run_id for run in runs}) & found
            return self._now_listed

    def _listed(self, query: RunQuery, position: _Position, limit: int) -> RunPage:
        if position.is_at_end or not limit:
            return RunPage((), position.listed)
        return self._journal.find_runs(query, after=position.listed, limit=limit)

    def _merged(
        self, query: RunQuery, position: _Position, page: RunPage, others: list[RunSummary], limit: int
    ) -> RunPage:
        """One page of both kinds. If they are more than `limit`, the journal's list is read less far."""
        below = _place(page.runs[-1]) if page.cursor is not None and page.runs else None
        others = [run for run in others if below is None or _place(run) > below]
        both = sorted([*page.runs, *others], key=_place, reverse=True)[:limit]
        if len(both) < len(page.runs) + len(others):
            below = _place(both[-1])
            others = [run for run in others if _place(run) >= below]
            page = self._listed(query, position, limit - len(others))
        fresh = [run for run in map(self._as_it_is, others) if query.accepts(run)]
        runs = sorted([*page.runs, *fresh], key=_place, reverse=True)
        if below is None:
            return RunPage(runs)
        is_at_end = position.is_at_end or (page.cursor is None and limit > len(others))
        return RunPage(runs, _cursor(_Position(page.cursor, is_at_end, below)))

    def _as_it_is(self, run: RunSummary) -> RunSummary:
        """The run as its events are now: one that is open may have ended since the scan.

        A server lists every two seconds, and the runs of many producers never end: each is read once in a
        while, and not for every list.
        """
        if run.ending is not None:
            return run
        now = self._clock.monotonic()
        with self._lock:
            read_at, read = self._read.get(run.run_id, (now, None))
        if read is not None and now - read_at < READ_AGAIN_SECONDS:
            return read
        read = self._journal.find_run(run.run_id) or run
        with self._lock:
            self._read[run.run_id] = now, read
            self._read.move_to_end(run.run_id)
            while len(self._read) > CACHED_RUNS:
                self._read.popitem(last=False)
        return read


def _place(run: RunSummary) -> RunListPosition:
    return run.started_at, run.run_id


def _cursor(position: _Position) -> Cursor:
    parts = json.dumps([position.listed, position.is_at_end, position.below])
    return Cursor(PREFIX + base64.urlsafe_b64encode(parts.encode()).decode().rstrip("="))


def _parsed(cursor: Cursor | None) -> _Position:
    if cursor is None or not cursor.startswith(PREFIX):
        return _Position(cursor)
    text = cursor.removeprefix(PREFIX)
    try:
        parts = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
        listed, is_at_end, (at, run_id) = parts
        if (listed is None or isinstance(listed, str)) and isinstance(at, int) and isinstance(run_id, str):
            return _Position(None if listed is None else Cursor(listed), bool(is_at_end), (at, run_id))
    except (ValueError, TypeError, binascii.Error):
        pass
    raise InvalidCursor(f"Invalid cursor {cursor[:40]!r} of a list of runs. List from the start instead.")

"""Finds runs in one table: in the index, newest first, or by a scan of the whole table.

The index lacks runs of other producers, which a scan finds from keys and types alone. An entry of a session
is incomplete: its state machine writes the session's start and end and updates no entry. So a session is
summarised from its own events. The summary is cached with the cursor up to which it was read, and the next
read only fetches new events.
"""

from __future__ import annotations

import base64
import binascii
import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from longwatch.clock import Clock, iso_from_ms
from longwatch.errors import InvalidCursor, RunDeleted
from longwatch.journal.base import DEFAULT_READ_LIMIT, RunPage, UnlistedRuns
from longwatch.journal.dynamodb.layout import Layout
from longwatch.journal.dynamodb.reader import TableReader
from longwatch.journal.dynamodb.run_index import NEVER, Listing, bare_entry, read_entry
from longwatch.journal.dynamodb.table import ItemPage, KeyRange, Table
from longwatch.model.event import START, Cursor, Event
from longwatch.model.run import STARTS, RunSummary, summarise
from longwatch.model.run_query import RunQuery
from longwatch.storage.dynamodb.values import AttributeMap, AttributeValue, integer_in, text_in

DAY_MS = 24 * 3600 * 1000
LOOK_BACK_DAYS = 30  # for a query without `since`
MAX_DAYS = 400  # one request each: "since 1970" must not send twenty thousand
AHEAD_MS = DAY_MS  # writers' clocks may be ahead of this one
LISTED_LATER_MS = 60_000  # how much later than its first event a run may be listed
SESSION = STARTS["SESSION_INITIATED"]
SESSION_ENDS = frozenset({"SESSION_SUCCEEDED", "SESSION_FAILED", "SESSION_UNCONFIRMED"})
CACHED_SESSIONS = 1_024
SETTLED_SECONDS = 60.0  # for which a session that its state machine ended is not read again

CURSOR_PREFIX = "l1."


class RunSearch:
    """Finds runs in one table. Thread-safe."""

    def __init__(self, table: Table, layout: Layout, clock: Clock) -> None:
        self._table = table
        self._layout = layout
        self._clock = clock
        self._reader = TableReader(table, layout, clock)
        self._sessions: OrderedDict[str, _CachedSession] = OrderedDict()
        self._lock = threading.Lock()

    def find_runs(self, query: RunQuery, *, after: Cursor | None, limit: int) -> RunPage:
        """A page of the runs in the index, newest first."""
        now = self._clock.now_ms()
        found: list[RunSummary] = []
        last: AttributeMap = {}
        for item in self._entries(query, now, None if after is None else self._parse_cursor(after)):
            run = self._run_of(item, query, now)
            if run is None or not query.accepts(run):
                continue
            if len(found) == limit:
                return RunPage(_newest_first(found), self._cursor(last))
            found.append(run)
            last = item
        return RunPage(_newest_first(found))

    def _run_of(self, item: AttributeMap, query: RunQuery, now: int) -> RunSummary | None:
        """The run of an entry; None if it expired or was deleted, or the query excludes its kind."""
        if self._layout.index_names.tombstone in item:
            return None
        listing = read_entry(item, self._layout)
        may_be_session = query.kind in (None, SESSION)
        if listing is None:
            run_id = bare_entry(item, self._layout)
            return None if run_id is None or not may_be_session else self._summarise_session(run_id)
        if _is_expired(listing, now):
            return None
        run = listing.run
        if run.kind != SESSION or not may_be_session:
            return run
        read = self._summarise_session(run.run_id)
        if read is None:
            return run
        return replace(
            run.merged(read), events=read.events, failed_calls=read.failed_calls, totals=read.totals
        )

    def find_run(self, run_id: str) -> RunSummary | None:
        """One run, summarised from all of its events."""
        summary: RunSummary | None = None
        try:
            for events in self._reader.events(run_id):
                for part in summarise(events).values():
                    summary = part if summary is None else summary.merged(part)
        except RunDeleted:
            return None
        if summary is None:
            return None
        if summary.kind == SESSION and not summary.origin.inferred:
            return summary  # claimed before its first event, whose time the list shows
        start = self._claimed_start(run_id)
        return summary if start is None or start >= summary.started_at else replace(summary, started_at=start)

    def _claimed_start(self, run_id: str) -> int | None:
        """When the run started, even if its first events have expired."""
        key = self._layout.claim_key(run_id)
        partition, sort = (key[name] for name in self._layout.key_names)
        page = self._table.query(KeyRange(partition=partition, low=sort, high=sort))
        return integer_in(page.items[0], self._layout.index_names.started_at) if page.items else None

    def _entries(
        self, query: RunQuery, now: int, after: tuple[str, AttributeValue] | None
    ) -> Iterator[AttributeMap]:
        high = now + AHEAD_MS if query.until is None else query.until + LISTED_LATER_MS
        low = now - LOOK_BACK_DAYS * DAY_MS if query.since is None else query.since
        low = max(0, low, high - MAX_DAYS * DAY_MS)
        for first_ms in range(high - high % DAY_MS, low - low % DAY_MS - 1, -DAY_MS):
            day = iso_from_ms(first_ms)[: len("2026-11-15")]
            if after is not None and day > after[0]:
                continue
            # An entry beside others of the same millisecond may have a key just past midnight.
            bounds = self._layout.day_range(max(low, first_ms), min(first_ms + 2 * DAY_MS, high))
            partition = self._layout.day(day)
            key_range: KeyRange | None = KeyRange(
                partition=partition, low=bounds[0], high=bounds[1], backward=True
            )
            if after is not None and day == after[0] and key_range is not None:
                partition_name, sort_name = self._layout.key_names
                key_range = replace(key_range, start={partition_name: partition, sort_name: after[1]})
            while key_range is not None:
                page = self._table.query(key_range)
                yield from page.items
                key_range = None if page.next is None else replace(key_range, start=page.next)

    def _cursor(self, item: AttributeMap) -> Cursor:
        partition, sort = (item[name] for name in self._layout.key_names)
        text = json.dumps([partition["S"].rpartition("#")[2], sort], separators=(",", ":"))
        return Cursor(CURSOR_PREFIX + base64.urlsafe_b64encode(text.encode()).decode().rstrip("="))

    def _parse_cursor(self, cursor: Cursor) -> tuple[str, AttributeValue]:
        """The day and the sort key of the last entry of a page."""
        if cursor.startswith(CURSOR_PREFIX):
            text = cursor.removeprefix(CURSOR_PREFIX)
            try:
                day, sort = json.loads(
                    base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
                )
                if isinstance(day, str) and sort.keys() == self._layout.low(0).keys():
                    return day, {kind: str(value) for kind, value in sort.items()}
            except (ValueError, TypeError, AttributeError, binascii.Error):
                pass
        raise InvalidCursor(
            f"Invalid cursor {cursor[:40]!r} for this journal's run list. List from the start instead."
        )

    def _summarise_session(self, run_id: str) -> RunSummary | None:
        """The session by its current events; None if it has none, or was deleted."""
        now = self._clock.monotonic()
        with self._lock:
            cached = self._sessions.get(run_id) or _CachedSession(None, START, now)
        if cached.is_settled and now - cached.read_at < SETTLED_SECONDS:
            return cached.summary
        summary, cursor, more = cached.summary, cached.cursor, True
        while more:
            try:
                page = self._reader.read(run_id, after=cursor, limit=DEFAULT_READ_LIMIT, thorough=False)
            except RunDeleted:
                return None
            for part in summarise(page.events).values():
                summary = part if summary is None else summary.merged(part)
            cursor, more = page.cursor, page.more
        with self._lock:
            self._sessions[run_id] = _CachedSession(summary, cursor, now)
            self._sessions.move_to_end(run_id)
            while len(self._sessions) > CACHED_SESSIONS:
                self._sessions.popitem(last=False)
        return summary

    def scan_runs(self) -> list[RunSummary]:
        """Every run in the table, newest first. Reads the whole table."""
        found = _ScannedRuns()
        for page in self._scan():
            self._fold(page, found)
        return _newest_first(run for run_id, run in found.runs.items() if run_id not in found.deleted)

    def scan_unlisted(self, max_pages: int) -> UnlistedRuns:
        """The runs without an entry, newest first, from at most so many pages of 1 MB."""
        found, is_whole = _ScannedRuns(), False
        for number, page in enumerate(self._scan(), start=1):
            self._fold(page, found)
            is_whole = page.next is None
            if number == max_pages:
                break
        runs = {run_id: run for run_id, run in found.runs.items() if run_id not in found.listed}
        if not is_whole and found.last_run in runs:
            whole = self.find_run(found.last_run)
            runs |= {} if whole is None else {found.last_run: whole}
        return UnlistedRuns(_newest_first(runs.values()), is_whole=is_whole)

    def _scan(self) -> Iterator[ItemPage]:
        names, index = dict[str, str](), self._layout.index_names
        paths = dict.fromkeys((*self._layout.scanned_names, index.run_id, index.tombstone))
        projection = ", ".join(_path_expression(path, names) for path in paths)
        start: AttributeMap | None = None
        while True:
            page = self._table.scan(names=names, projection=projection, start=start)
            yield page
            start = page.next
            if start is None:
                return

    def _fold(self, page: ItemPage, found: _ScannedRuns) -> None:
        now, events = self._clock.now_ms() // 1000, list[Event]()
        names = self._layout.index_names
        for item in page.items:
            run_id = self._layout.run_of(item)
            if names.tombstone in item:
                found.deleted.add(text_in(item, names.run_id) or "")
            if run_id is None or names.tombstone in item:
                found.listed.add(text_in(item, names.run_id) or "")
                continue
            if names.marker in item:
                found.listed.add(run_id)
            event = self._layout.read_event(item, run_id).event
            if event.ttl is None or event.ttl > now:  # DynamoDB deletes expired items up to days late
                events.append(event)
            found.last_run = run_id
        for run_id, part in summarise(events).items():
            found.runs[run_id] = found.runs[run_id].merged(part) if run_id in found.runs else part


@dataclass(frozen=True, slots=True)
class _CachedSession:
    summary: RunSummary | None
    cursor: Cursor
    read_at: float  # on the monotonic clock

    @property
    def is_settled(self) -> bool:
        return self.summary is not None and self.summary.last_event_type in SESSION_ENDS


@dataclass(slots=True)
class _ScannedRuns:
    runs: dict[str, RunSummary] = field(default_factory=dict)
    listed: set[str] = field(default_factory=set)  # has an entry, or an event that longwatch wrote
    deleted: set[str] = field(default_factory=set)
    last_run: str | None = None  # in scan order; its events may continue on the next page


def _newest_first(runs: Iterable[RunSummary]) -> list[RunSummary]:
    return sorted(runs, key=lambda run: (run.started_at, run.run_id), reverse=True)


def _is_expired(listing: Listing, now: int) -> bool:
    return listing.ttl is not None and listing.ttl != NEVER and listing.ttl <= now // 1000


def _path_expression(path: str, names: dict[str, str]) -> str:
    """A path of attribute names as an expression; many of the names are reserved words."""
    parts = []
    for name in path.split("."):
        names[f"#{name}"] = name
        parts.append(f"#{name}")
    return ".".join(parts)

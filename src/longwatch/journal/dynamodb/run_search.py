"""Finds runs from the entries of the list, newest first."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import replace

from longwatch.clock import Clock, iso_from_ms
from longwatch.errors import InvalidCursor
from longwatch.journal.base import RunPage
from longwatch.journal.dynamodb.layout import Layout, whole_number_in
from longwatch.journal.dynamodb.reader import TableReader
from longwatch.journal.dynamodb.run_index import NEVER, Listing, bare_entry, read_entry
from longwatch.journal.dynamodb.session_summaries import SessionSummaries
from longwatch.journal.dynamodb.table import KeyRange, Table
from longwatch.model.event import Cursor
from longwatch.model.run import STARTS, RunSummary, summarise
from longwatch.model.run_query import RunQuery
from longwatch.storage.dynamodb.values import AttributeMap, AttributeValue

DAY_MS = 24 * 3600 * 1000
LOOK_BACK_DAYS = 30  # unless the query says since when
MOST_DAYS = 400  # one query each, so "since 1970" must not ask for twenty thousand
AHEAD_MS = DAY_MS  # writers' clocks may be ahead of ours
LISTED_LATER_MS = 60_000  # how much later than its first event a run may be listed
SESSION = STARTS["SESSION_INITIATED"]

PREFIX = "l1."


class RunSearch:
    """Finds runs in one table."""

    def __init__(self, table: Table, layout: Layout, clock: Clock) -> None:
        self._table = table
        self._layout = layout
        self._clock = clock
        self._reader = TableReader(table, layout, clock)
        self._sessions = SessionSummaries(self._reader, clock)

    def find_runs(self, query: RunQuery, *, after: Cursor | None, limit: int) -> RunPage:
        """Some runs of the list, newest first."""
        now = self._clock.now_ms()
        found: list[RunSummary] = []
        last: AttributeMap = {}
        for item in self._entries(query, now, None if after is None else self._place_in(after)):
            run = self._run_of(item, query, now)
            if run is None or not query.accepts(run):
                continue
            if len(found) == limit:
                return RunPage(_newest_first(found), self._cursor(last))
            found.append(run)
            last = item
        return RunPage(_newest_first(found))

    def _run_of(self, item: AttributeMap, query: RunQuery, now: int) -> RunSummary | None:
        """The run that an entry lists; None if it expired or its kind is not wanted.

        A session is summarised from its events: its state machine updates no entry.
        """
        listing = read_entry(item, self._layout)
        may_be_session = query.kind in (None, SESSION)
        if listing is None:
            run_id = bare_entry(item, self._layout)
            return None if run_id is None or not may_be_session else self._sessions.summary(run_id)
        if _is_over(listing, now):
            return None
        run = listing.run
        if run.kind != SESSION or not may_be_session:
            return run
        read = self._sessions.summary(run.run_id)
        if read is None:
            return run
        return replace(run.merged(read), events=read.events, failed_calls=read.failed_calls)

    def find_run(self, run_id: str) -> RunSummary | None:
        """One run, from all of its events."""
        summary: RunSummary | None = None
        for events in self._reader.events(run_id):
            for part in summarise(events).values():
                summary = part if summary is None else summary.merged(part)
        if summary is None:
            return None
        if summary.kind == SESSION and not summary.origin.inferred:
            return summary  # claimed before its first event, whose time the list shows
        start = self._claimed_start(run_id)
        return summary if start is None or start >= summary.started_at else replace(summary, started_at=start)

    def _claimed_start(self, run_id: str) -> int | None:
        """When the run began, which its own events can no longer say once the first ones have expired."""
        key = self._layout.claim_key(run_id)
        partition, sort = (key[name] for name in self._layout.key_names)
        answer = self._table.query(KeyRange(partition=partition, low=sort, high=sort))
        names = self._layout.directory
        return whole_number_in(answer.items[0], names.started_at) if answer.items else None

    def _entries(
        self, query: RunQuery, now: int, after: tuple[str, AttributeValue] | None
    ) -> Iterator[AttributeMap]:
        high = now + AHEAD_MS if query.until is None else query.until + LISTED_LATER_MS
        low = now - LOOK_BACK_DAYS * DAY_MS if query.since is None else query.since
        low = max(0, low, high - MOST_DAYS * DAY_MS)
        for first_ms in range(high - high % DAY_MS, low - low % DAY_MS - 1, -DAY_MS):
            day = iso_from_ms(first_ms)[: len("2026-11-15")]
            if after is not None and day > after[0]:
                continue
            # Next to others that began in the same millisecond, an entry may stand a little past midnight.
            bounds = self._layout.day_range(max(low, first_ms), min(first_ms + 2 * DAY_MS, high))
            wanted: KeyRange | None = KeyRange(
                partition=self._layout.day(day), low=bounds[0], high=bounds[1], backward=True
            )
            if after is not None and day == after[0] and wanted is not None:
                wanted = replace(wanted, start=self._key(day, after[1]))
            while wanted is not None:
                answer = self._table.query(wanted)
                yield from answer.items
                wanted = None if answer.next is None else replace(wanted, start=answer.next)

    def _key(self, day: str, sort: AttributeValue) -> AttributeMap:
        partition_name, sort_name = self._layout.key_names
        return {partition_name: self._layout.day(day), sort_name: sort}

    def _cursor(self, item: AttributeMap) -> Cursor:
        partition, sort = (item[name] for name in self._layout.key_names)
        text = json.dumps([partition["S"].rpartition("#")[2], sort], separators=(",", ":"))
        return Cursor(PREFIX + base64.urlsafe_b64encode(text.encode()).decode().rstrip("="))

    def _place_in(self, cursor: Cursor) -> tuple[str, AttributeValue]:
        if cursor.startswith(PREFIX):
            text = cursor.removeprefix(PREFIX)
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


def _newest_first(runs: list[RunSummary]) -> list[RunSummary]:
    return sorted(runs, key=lambda run: (run.started_at, run.run_id), reverse=True)


def _is_over(listing: Listing, now: int) -> bool:
    return listing.ttl is not None and listing.ttl != NEVER and listing.ttl <= now // 1000

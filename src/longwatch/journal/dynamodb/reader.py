"""Reads the events of a run from the table, in pages from which a reader can resume after any event.

Each read scans from shortly before the latest time seen (the overlap) to the end of the partition. Now and
then, sooner if a number is missing, and always in a thorough read, it scans from further back (the window).
The previous wide scan determines where the next one starts. Events that are written below that are announced
by a `late_batch`, and its range is scanned too. The progress of a run is measured by its writers' clocks,
never by keys: a burst that overflows its milliseconds must not move the window into the future.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from longwatch.clock import Clock
from longwatch.journal.arrivals import last_events
from longwatch.journal.base import PAGE_BYTES
from longwatch.journal.codec import payload_size
from longwatch.journal.dynamodb.deletions import raise_if_deleted
from longwatch.journal.dynamodb.layout import NO_TIME, Layout, StoredEvent
from longwatch.journal.dynamodb.read_progress import (
    LATE_SLACK_MS,
    ReadProgress,
    Scan,
    from_cursor,
    next_cursor,
    to_cursor,
)
from longwatch.journal.dynamodb.table import ItemPage, KeyRange, Table
from longwatch.model.event import RESERVED_PREFIX, START, Cursor, Event, Page

FEW_KEYS = 200  # of events without a number; a cursor with more keys is worth shrinking


@dataclass(slots=True)
class PageCursors:
    """The last cursor that was derived inside a page; the next one is derived from it."""

    count: int = 0
    progress: ReadProgress | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True)
class StoredPage(Page):
    """A page of a DynamoDB journal.

    A reader that stops inside the page resumes from where the page started, with some more events seen: it
    scans the same part of the partition again and skips those events.
    """

    stored: Sequence[StoredEvent] = ()
    start: Cursor = START
    layout: Layout | None = None
    cursors: PageCursors = field(default_factory=PageCursors, compare=False, repr=False)

    def cursor_after(self, count: int) -> Cursor:
        if count == len(self.events):
            return self.cursor
        if count == 0:
            return self.start
        assert self.layout is not None
        with self.cursors.lock:
            if self.cursors.progress is None or self.cursors.count > count:
                self.cursors.progress, self.cursors.count = from_cursor(self.start, self.layout), 0
            for stored in self.stored[self.cursors.count : count]:
                self.cursors.progress.add(stored)
            self.cursors.count = count
            return to_cursor(self.cursors.progress)

    def unseen(self, by: Cursor) -> Page:
        if not self.events:
            return Page((), by)
        assert self.layout is not None
        reader = from_cursor(by, self.layout)
        new: list[StoredEvent] = []
        for stored in self.stored:
            if reader.is_new(stored):
                reader.add(stored)
                new.append(stored)
        if len(reader.keys) > FEW_KEYS:  # keys that the page has settled are never read again
            reader.drop_keys_below(from_cursor(self.cursor, self.layout).keys_from)
        return make_page(new, to_cursor(reader), more=self.more, start=by, layout=self.layout)

    def covers(self, seen: Cursor) -> bool:
        assert self.layout is not None
        mine, other = from_cursor(self.cursor, self.layout), from_cursor(seen, self.layout)
        return mine.has_seen_all_of(other)


def make_page(
    stored: Sequence[StoredEvent], cursor: Cursor, *, more: bool, start: Cursor, layout: Layout
) -> StoredPage:
    """A page of these events, which are in order."""
    return StoredPage([each.event for each in stored], cursor, more, stored, start, layout)


OVERLAP_MS = 2_000  # read again each time
WINDOW_MS = 30_000  # how late an event may be written without being announced
ANNOUNCE_AFTER_MS = 20_000  # later writes are announced: the window minus the time of a put
WIDE_EVERY_MS = 15_000
WIDE_IN_A_GAP_EVERY_MS = 2_000
GAP_SEARCH_MS = 30_000  # how long a missing number is searched for this often
KEY_SPREAD_MS = 1_000  # items of one second may not be sorted by their milliseconds (layout session)
EXTRA_ITEMS = 100  # read beyond the limit, because some of them were seen before


class TableReader:
    """Reads runs from one table."""

    def __init__(self, table: Table, layout: Layout, clock: Clock) -> None:
        self._table = table
        self._layout = layout
        self._clock = clock

    def read(self, run_id: str, *, after: Cursor, limit: int, thorough: bool) -> Page:
        """The next page of a run; see `Journal.read`."""
        progress = from_cursor(after, self._layout)
        if run_id.startswith(RESERVED_PREFIX):
            return Page((), after)
        now = self._clock.now_ms()
        found: list[StoredEvent] = []
        may_scan = thorough or progress.scan is None
        while True:
            if progress.scan is None:
                progress.scan = self._next_scan(run_id, progress, now, may_scan=may_scan, thorough=thorough)
                if progress.scan is None:
                    break
                may_scan = may_scan and progress.scan.high is not None
            if not self._run_scan(run_id, progress, progress.scan, found, limit, now):
                break
            self._finish(progress, progress.scan)
        progress.note_gaps(now)
        found.sort(key=lambda stored: stored.event.order)
        more = progress.scan is not None
        cursor = next_cursor(progress, self._layout, after=after)
        return make_page(found, cursor, more=more, start=after, layout=self._layout)

    def events(self, run_id: str) -> Iterator[list[Event]]:
        """All events of a run that have not expired, in key order, a page at a time."""
        now = self._clock.now_ms()
        for items in self._items(run_id, Scan(wide=False, low=None), None):
            yield [stored.event for stored in items if not _is_expired(stored.event, now)]

    def read_last(self, run_id: str, limit: int) -> list[Event]:
        """The last events in their order.

        An event may be stored under a later key than its time. So the events with the last keys show from
        which time on to read, and all that happened since then have keys from that time on.
        """
        now, last = self._clock.now_ms(), list[Event]()
        key_range: KeyRange | None = self._range(run_id, Scan(wide=False, low=None), limit, backward=True)
        while key_range is not None and len(last) < limit:
            page = self._table.query(key_range)
            events = (stored.event for stored in self._stored(page, run_id))
            last += (event for event in events if not _is_expired(event, now))
            key_range = None if page.next is None else replace(key_range, start=page.next)
        since = min((event.occurred_at for event in last), default=None)
        if since is None:
            return []
        pages = self._items(run_id, Scan(wide=False, low=since), None)
        events = (stored.event for page in pages for stored in page)
        return last_events((event for event in events if not _is_expired(event, now)), limit)

    def _next_scan(
        self, run_id: str, progress: ReadProgress, now: int, *, may_scan: bool, thorough: bool
    ) -> Scan | None:
        """The next scan, if any."""
        if progress.late:
            low, high = progress.late.pop(0)
            return Scan(wide=False, low=low, high=high + LATE_SLACK_MS)
        if not may_scan:
            return None
        floor, seen_up_to = progress.floor, progress.high
        if floor is not None and seen_up_to is not None and not (thorough or wide_is_due(progress, now)):
            return Scan(wide=False, low=max(floor, seen_up_to - OVERLAP_MS))
        base = self._latest(run_id) if seen_up_to is None else seen_up_to
        if base is None:
            return None
        progress.wide_at = now
        return Scan(wide=True, low=floor, base=base)

    def _latest(self, run_id: str) -> int | None:
        """The time of the last event before the first scan; None for a run without events."""
        page = self._table.query(self._range(run_id, Scan(wide=False, low=None), 1, backward=True))
        stored = self._stored(page, run_id)
        return stored[0].written_ms if stored else None

    def _run_scan(
        self, run_id: str, progress: ReadProgress, scan: Scan, found: list[StoredEvent], limit: int, now: int
    ) -> bool:
        """Continue a scan to its end; False if the page is full before that."""
        size = sum(payload_size(stored.event) for stored in found)
        for items in self._items(run_id, scan, limit - len(found) + EXTRA_ITEMS):
            for stored in items:
                if progress.is_new(stored):
                    if len(found) >= limit or size >= PAGE_BYTES:
                        self._drop_settled_keys(progress, scan)
                        return False
                    progress.add(stored)
                    if not _is_expired(stored.event, now):
                        found.append(stored)
                        size += payload_size(stored.event)
                scan.position = stored.key
        return True

    def _items(self, run_id: str, scan: Scan, page_items: int | None) -> Iterator[list[StoredEvent]]:
        key_range: KeyRange | None = self._range(run_id, scan, page_items)
        last_key = scan.position
        while key_range is not None:
            page = self._table.query(key_range)
            yield [stored for stored in self._stored(page, run_id) if stored.key != last_key]
            key_range = None if page.next is None else replace(key_range, start=page.next)

    def _stored(self, page: ItemPage, run_id: str) -> list[StoredEvent]:
        """The events of a page. Raises `RunDeleted` if the last item is the tombstone of the run."""
        for item in page.items:
            if self._layout.index_names.tombstone in item:
                raise_if_deleted(item, self._layout)
        return [self._layout.read_event(item, run_id) for item in page.items]

    def _range(self, run_id: str, scan: Scan, limit: int | None, *, backward: bool = False) -> KeyRange:
        layout = self._layout
        low = layout.low(scan.low or 0) if scan.position is None else layout.sort_value(scan.position)
        return KeyRange(
            partition=layout.partition(run_id),
            low=low,
            high=layout.high(scan.high),
            backward=backward,
            limit=limit,
        )

    def _finish(self, progress: ReadProgress, scan: Scan) -> None:
        """Update the progress at the end of a scan."""
        if scan.wide and scan.base is not None and scan.base != NO_TIME:
            progress.floor = max(progress.floor or 0, scan.base - WINDOW_MS)
        progress.drop_keys_below(progress.floor or 0)
        progress.scan = None

    def _drop_settled_keys(self, progress: ReadProgress, scan: Scan) -> None:
        """During a wide scan: drop the keys behind it and below its window."""
        if scan.wide and scan.base is not None and scan.position is not None:
            behind = self._layout.key_ms(scan.position) - KEY_SPREAD_MS
            progress.drop_keys_below(min(behind, scan.base - WINDOW_MS))


def wide_is_due(progress: ReadProgress, now: int) -> bool:
    """Whether it is time for a scan of the whole window."""
    if progress.wide_at is None or now < progress.wide_at:
        return True
    since_wide = now - progress.wide_at
    in_a_gap = progress.gap_since is not None and 0 <= now - progress.gap_since < GAP_SEARCH_MS
    return since_wide >= (WIDE_IN_A_GAP_EVERY_MS if in_a_gap else WIDE_EVERY_MS)


def _is_expired(event: Event, now: int) -> bool:
    return event.ttl is not None and event.ttl <= now // 1000

"""Reads the events of a run from the table, in pages that can be left after any event.

Each read walks from a little before the latest time seen (the overlap) to the end of the partition. Now and
then, soon when a number is missing, and at once when asked to be thorough, it walks from further back (the
window). Where a wide walk begins is settled by the one before it; whatever is written below that is announced
by a `late_batch`, and its range is walked too. How far a run has come is told by the times of its writers'
clocks, never by places: a burst that overflows its milliseconds must not carry the window into the future.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from longwatch.clock import Clock
from longwatch.journal.base import PAGE_BYTES
from longwatch.journal.codec import payload_size
from longwatch.journal.dynamodb.layout import NO_PLACE, Layout, StoredEvent
from longwatch.journal.dynamodb.read_progress import (
    LATE_SLACK_MS,
    ReadProgress,
    Scan,
    from_cursor,
    next_cursor,
    to_cursor,
)
from longwatch.journal.dynamodb.table import KeyRange, Table
from longwatch.model.event import RESERVED_PREFIX, START, Cursor, Event, Page

FEW_KEYS = 200  # of events without a number; a cursor with more of them is worth making smaller


@dataclass(slots=True)
class Walked:
    """How far somebody has asked for cursors inside a page; each is made from the one before."""

    count: int = 0
    progress: ReadProgress | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True)
class StoredPage(Page):
    """A page of a DynamoDB journal.

    A reader that leaves it in the middle goes on as one that stood where the page began and has seen some
    more: it walks the same part of the partition again, and passes over what it knows.
    """

    stored: Sequence[StoredEvent] = ()
    start: Cursor = START
    layout: Layout | None = None
    walked: Walked = field(default_factory=Walked, compare=False, repr=False)

    def cursor_after(self, count: int) -> Cursor:
        if count == len(self.events):
            return self.cursor
        if count == 0:
            return self.start
        assert self.layout is not None
        with self.walked.lock:
            if self.walked.progress is None or self.walked.count > count:
                self.walked.progress, self.walked.count = from_cursor(self.start, self.layout), 0
            for stored in self.stored[self.walked.count : count]:
                self.walked.progress.saw(stored)
            self.walked.count = count
            return to_cursor(self.walked.progress)

    def unseen(self, by: Cursor) -> Page:
        if not self.events:
            return Page((), by)
        assert self.layout is not None
        reader = from_cursor(by, self.layout)
        new: list[StoredEvent] = []
        for stored in self.stored:
            if reader.is_new(stored):
                reader.saw(stored)
                new.append(stored)
        if len(reader.keys) > FEW_KEYS:  # what the page's reader has settled never comes from it again
            reader.forget_keys_below(from_cursor(self.cursor, self.layout).keys_from)
        return page_of(new, to_cursor(reader), more=self.more, start=by, layout=self.layout)

    def covers(self, seen: Cursor) -> bool:
        assert self.layout is not None
        mine, other = from_cursor(self.cursor, self.layout), from_cursor(seen, self.layout)
        return mine.has_seen_all_of(other)


def page_of(
    stored: Sequence[StoredEvent], cursor: Cursor, *, more: bool, start: Cursor, layout: Layout
) -> StoredPage:
    """A page of these, which are in the order of their events."""
    return StoredPage([each.event for each in stored], cursor, more, stored, start, layout)


OVERLAP_MS = 2_000  # read again on every read
WINDOW_MS = 30_000  # how late an event may be written without being announced
ANNOUNCE_AFTER_MS = 20_000  # what is written this late is announced: the window, less the time a put may take
WIDE_EVERY_MS = 15_000
WIDE_IN_A_GAP_EVERY_MS = 2_000
GAP_HOPE_MS = 30_000  # how long a missing number is looked for this often
KEY_SPREAD_MS = (
    1_000  # items of one second may be sorted otherwise than by their milliseconds (layout session)
)
EXTRA_ITEMS = 100  # looked at beyond those wanted, because some of them were seen before


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
        walk_anew = thorough or progress.scan is None
        while True:
            if progress.scan is None:
                progress.scan = self._next_scan(run_id, progress, now, walk_anew=walk_anew, thorough=thorough)
                if progress.scan is None:
                    break
                walk_anew = walk_anew and progress.scan.high is not None
            if not self._walk(run_id, progress, progress.scan, found, limit, now):
                break
            self._finish(progress, progress.scan)
        progress.note_gaps(now)
        found.sort(key=lambda stored: stored.event.order)
        more = progress.scan is not None
        cursor = next_cursor(progress, self._layout, after=after)
        return page_of(found, cursor, more=more, start=after, layout=self._layout)

    def events(self, run_id: str) -> Iterator[list[Event]]:
        """All events of a run as they lie, some at a time. Expired ones are left out."""
        now = self._clock.now_ms()
        for items in self._items(run_id, Scan(wide=False, low=None), None):
            yield [stored.event for stored in items if not _expired(stored.event, now)]

    def _next_scan(
        self, run_id: str, progress: ReadProgress, now: int, *, walk_anew: bool, thorough: bool
    ) -> Scan | None:
        """Where to walk next, if anywhere."""
        if progress.late:
            low, high = progress.late.pop(0)
            return Scan(wide=False, low=low, high=high + LATE_SLACK_MS)
        if not walk_anew:
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
        """How far the run has come before a first walk through it begins; None if it has no event."""
        answer = self._table.query(self._range(run_id, Scan(wide=False, low=None), 1, backward=True))
        return self._layout.stored(answer.items[0], run_id).at if answer.items else None

    def _walk(
        self, run_id: str, progress: ReadProgress, scan: Scan, found: list[StoredEvent], limit: int, now: int
    ) -> bool:
        """Go through the rest of a scan; False: it is not through, because the page is full."""
        size = sum(payload_size(stored.event) for stored in found)
        for items in self._items(run_id, scan, limit - len(found) + EXTRA_ITEMS):
            for stored in items:
                if progress.is_new(stored):
                    if len(found) >= limit or size >= PAGE_BYTES:
                        self._forget(progress, scan)
                        return False
                    progress.saw(stored)
                    if not _expired(stored.event, now):
                        found.append(stored)
                        size += payload_size(stored.event)
                scan.position = stored.key
        return True

    def _items(self, run_id: str, scan: Scan, at_a_time: int | None) -> Iterator[list[StoredEvent]]:
        wanted: KeyRange | None = self._range(run_id, scan, at_a_time)
        passed = scan.position
        while wanted is not None:
            answer = self._table.query(wanted)
            items = [self._layout.stored(item, run_id) for item in answer.items]
            yield [stored for stored in items if stored.key != passed]
            wanted = None if answer.next is None else _going_on(wanted, answer.next)

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
        """A scan came to its end."""
        if scan.wide and scan.base is not None and scan.base != NO_PLACE:
            progress.floor = max(progress.floor or 0, scan.base - WINDOW_MS)
        progress.forget_keys_below(progress.floor or 0)
        progress.scan = None

    def _forget(self, progress: ReadProgress, scan: Scan) -> None:
        """In the middle of a wide scan: what lies behind it and below its window need not be remembered."""
        if scan.wide and scan.base is not None and scan.position is not None:
            behind = self._layout.place_of(scan.position) - KEY_SPREAD_MS
            progress.forget_keys_below(min(behind, scan.base - WINDOW_MS))


def wide_is_due(progress: ReadProgress, now: int) -> bool:
    """Whether it is time to look further back than the overlap."""
    if progress.wide_at is None or now < progress.wide_at:
        return True
    since_wide = now - progress.wide_at
    in_a_gap = progress.gap_since is not None and 0 <= now - progress.gap_since < GAP_HOPE_MS
    return since_wide >= (WIDE_IN_A_GAP_EVERY_MS if in_a_gap else WIDE_EVERY_MS)


def _going_on(wanted: KeyRange, start: dict[str, dict[str, object]]) -> KeyRange:
    return KeyRange(
        partition=wanted.partition,
        low=wanted.low,
        high=wanted.high,
        backward=wanted.backward,
        limit=wanted.limit,
        start=start,
    )


def _expired(event: Event, now: int) -> bool:
    return event.ttl is not None and event.ttl <= now // 1000

"""Pages that know where their events lie, so that a reader can leave one after any event."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from longwatch.journal.dynamodb.layouts import Layout, Stored
from longwatch.journal.dynamodb.progress import Progress, from_cursor, to_cursor
from longwatch.model.event import START, Cursor, Page

FEW_KEYS = 200  # of events without a number; a cursor with more of them is worth making smaller


@dataclass(slots=True)
class Walked:
    """How far somebody has asked for cursors inside a page; each is made from the one before."""

    count: int = 0
    progress: Progress | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True)
class StoredPage(Page):
    """A page of a DynamoDB journal.

    A reader that leaves it in the middle goes on as one that stood where the page began and has seen some
    more: it walks the same part of the partition again, and passes over what it knows.
    """

    stored: Sequence[Stored] = ()
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
        new: list[Stored] = []
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
    stored: Sequence[Stored], cursor: Cursor, *, more: bool, start: Cursor, layout: Layout
) -> StoredPage:
    """A page of these, which are in the order of their events."""
    return StoredPage([each.event for each in stored], cursor, more, stored, start, layout)

"""A follower's inbox: the pages of its run's channel that it has not consumed yet, up to a limit."""

from __future__ import annotations

import asyncio

from longwatch.following.items import Ended, Reason
from longwatch.journal.codec import payload_size
from longwatch.model.event import Cursor, Page

MAX_BYTES = 1024 * 1024  # of payloads that wait for one follower; a page that comes alone may be larger


class Inbox:
    """Filled by the channel and emptied by the follower, both in the same event loop."""

    __slots__ = (
        "_waiter",
        "dropped",
        "ended",
        "is_settled",
        "max_events",
        "own_cursor",
        "pages",
        "requested",
        "stopped",
        "waiting",
        "waiting_bytes",
    )

    def __init__(self, max_events: int) -> None:
        self.max_events = max_events
        self.pages: list[Page] = []  # few, so that removing the first one is cheap
        self.waiting = 0  # events in the pages
        self.waiting_bytes = 0  # of their payloads
        self.dropped = 0  # events beyond the limit; nothing is added until the follower has caught up
        self.is_settled = False  # False: the follower still reads by itself, and pages only accumulate
        self.own_cursor: Cursor | None = None  # while the follower may have seen more than the channel
        self.requested = 0  # the channel's poll after which both have seen the same
        self.ended: Ended | None = None
        self.stopped: Reason | None = None
        self._waiter: asyncio.Future[None] | None = None

    def reset(self) -> None:
        """Start at a channel."""
        self.pages.clear()
        self.waiting = self.waiting_bytes = self.dropped = self.requested = 0
        self.is_settled, self.own_cursor, self.ended = False, None, None

    def put(self, page: Page) -> bool:
        """Add a page of the channel; False if it exceeds the limit, and everything was dropped."""
        if self.own_cursor is not None:
            page = page.unseen(self.own_cursor)
            self.own_cursor = page.cursor
            if not page.events:
                return True
        count, size = len(page.events), sum(map(payload_size, page.events))
        if self.waiting and (self.waiting + count > self.max_events or self.waiting_bytes + size > MAX_BYTES):
            self.dropped = self.waiting + count
            self.pages.clear()
            self.waiting = self.waiting_bytes = 0
            self.wake()
            return False
        self.pages.append(page)
        self.waiting += count
        self.waiting_bytes += size
        self.wake()
        return True

    def settle(self, own_cursor: Cursor | None) -> None:
        """The follower has read the history. It may have seen a part of the pages that accumulated."""
        pages, self.pages, self.waiting, self.waiting_bytes = self.pages, [], 0, 0
        self.is_settled, self.own_cursor = True, own_cursor
        for page in pages:
            if not self.put(page):
                return

    def take(self) -> Page:
        """Remove the next page."""
        page = self.pages.pop(0)
        self.waiting -= len(page.events)
        self.waiting_bytes -= sum(map(payload_size, page.events))
        return page

    def stop(self, reason: Reason) -> None:
        """Request the end of the follower. The first reason counts."""
        if self.stopped is None:
            self.stopped = reason
        self.wake()

    def wake(self) -> None:
        """Let the follower check again what it waits for."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def wait(self) -> asyncio.Future[None]:
        """Done at the next `wake`. Check what is waited for before and after.

        No coroutine: ten thousand followers wait, and each would hold one.
        """
        self._waiter = asyncio.get_running_loop().create_future()
        return self._waiter

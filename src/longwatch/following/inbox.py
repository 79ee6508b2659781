"""A follower's seat at a run's channel: what has come for it and was not taken, in bounded room."""

from __future__ import annotations

import asyncio

from longwatch.following.items import Ended, Reason
from longwatch.journal.codec import payload_size
from longwatch.model.event import Cursor, Page

ROOM_BYTES = 1024 * 1024  # of payloads that may wait for one follower; a page that comes alone may be larger


class Inbox:
    """Filled by the channel, emptied by the follower, both in the same event loop."""

    __slots__ = (
        "_waiter",
        "asked",
        "dropped",
        "ended",
        "is_settled",
        "own",
        "pages",
        "room",
        "stopped",
        "waiting",
        "waiting_bytes",
    )

    def __init__(self, room: int) -> None:
        self.room = room  # events
        self.pages: list[Page] = []  # few, so that taking the first one costs nothing to speak of
        self.waiting = 0  # events in the pages
        self.waiting_bytes = 0  # of their payloads
        self.dropped = 0  # events that found no room; nothing comes any more until the follower has caught up
        self.is_settled = False  # False: the follower still reads by itself, pages only gather
        self.own: Cursor | None = None  # what it has seen, while that may be other than the channel has
        self.asked = 0  # the channel's look after which it has seen the same
        self.ended: Ended | None = None
        self.stopped: Reason | None = None
        self._waiter: asyncio.Future[None] | None = None

    def sit_down(self) -> None:
        """Begin anew at a channel."""
        self.pages.clear()
        self.waiting = self.waiting_bytes = self.dropped = self.asked = 0
        self.is_settled, self.own, self.ended = False, None, None

    def feed(self, page: Page) -> bool:
        """Put a page of the channel here; False if there was no room, and everything was dropped."""
        if self.own is not None:
            page = page.unseen(self.own)
            self.own = page.cursor
            if not page.events:
                return True
        count, size = len(page.events), sum(map(payload_size, page.events))
        if self.waiting and (self.waiting + count > self.room or self.waiting_bytes + size > ROOM_BYTES):
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

    def settle(self, own: Cursor | None) -> None:
        """The follower has read all there is. What gathered meanwhile, it may have seen in part."""
        gathered, self.pages, self.waiting, self.waiting_bytes = self.pages, [], 0, 0
        self.is_settled, self.own = True, own
        for page in gathered:
            if not self.feed(page):
                return

    def take(self) -> Page:
        """The next page."""
        page = self.pages.pop(0)
        self.waiting -= len(page.events)
        self.waiting_bytes -= sum(map(payload_size, page.events))
        return page

    def stop(self, reason: Reason) -> None:
        """Somebody wants the follower to end. The first reason counts."""
        if self.stopped is None:
            self.stopped = reason
        self.wake()

    def wake(self) -> None:
        """Let the follower look again at whatever it waits for."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def wait(self) -> asyncio.Future[None]:
        """Done when somebody wakes it. Check what is waited for before and after.

        No coroutine: ten thousand followers wait, and each would hold on to one.
        """
        self._waiter = asyncio.get_running_loop().create_future()
        return self._waiter

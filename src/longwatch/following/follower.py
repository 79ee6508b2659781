"""Follows one run: yields its history, a marker that it has caught up, new events, and why it ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from longwatch.errors import InvalidCursor, LongwatchError, NotWorthAnotherTry, RunDeleted
from longwatch.following.inbox import Inbox
from longwatch.following.items import CaughtUp, Ended, Followed, Item, Missed, Reason
from longwatch.following.progress import RunProgress
from longwatch.following.run_channel import PollState, RunChannel
from longwatch.model.event import START, Cursor, Order, Page
from longwatch.model.run import Status
from longwatch.polling.backoff import JOURNAL_BACKOFF, after_failure

if TYPE_CHECKING:
    from longwatch.following.hub import Hub

T = TypeVar("T")

_BEFORE_ALL: Order = (-1, "", 0, "")


class WatchPhase(StrEnum):
    """How far a watch has come."""

    WAITING = "waiting"  # its first item was not requested yet
    CATCHING_UP = "catching_up"
    LIVE = "live"
    DRAINING = "draining"  # the run has ended, late events may come
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class WatchState:
    """How a watch stands, for people."""

    run_id: str
    phase: WatchPhase
    caught_up: bool
    status: Status  # of the run, as far as this watch has seen it
    delivered: int  # events
    failures: int  # of polls in a row
    error: str | None  # of the last poll, if it failed
    next_poll_seconds: float | None  # from now; None: as soon as something is appended
    cursor: Cursor


class Follower:
    """An asynchronous iterable of items, to be iterated once. Leaving the iteration ends the watch."""

    __slots__ = (
        "_after",
        "_backoff",
        "_caught_up",
        "_channel",
        "_count",
        "_delivered",
        "_error",
        "_generation",
        "_has_more",
        "_hub",
        "_inbox",
        "_news_at",
        "_next_poll",
        "_page",
        "_phase",
        "_progress",
        "_silent_after",
        "_top",
        "run_id",
    )

    def __init__(
        self,
        hub: Hub,
        run_id: str,
        *,
        after: Cursor = START,
        silent_after_seconds: float | None = None,
        progress: RunProgress | None = None,  # of the events up to `after`
        generation: int = 0,  # of the journal that `after` comes from
    ) -> None:
        self.run_id = run_id
        self._hub = hub
        self._generation = generation
        self._page: Page | None = None  # that is being yielded
        self._count = 0  # how many of its events were yielded
        self._after = after  # the cursor of the last page, and whether it was not the end
        self._has_more = False
        self._top = _BEFORE_ALL  # the order of the latest event that was yielded
        self._delivered = 0
        self._silent_after = silent_after_seconds
        self._inbox = Inbox(hub.buffer_events)
        self._channel: RunChannel | None = None
        self._progress = progress if progress is not None else RunProgress(whole=after == START)
        self._backoff = JOURNAL_BACKOFF
        self._error: str | None = None
        self._next_poll: float | None = None
        self._news_at = 0.0
        self._phase = WatchPhase.WAITING
        self._caught_up = False

    @property
    def cursor(self) -> Cursor:
        """The position after the items that were yielded so far."""
        return self._after if self._page is None else self._page.cursor_after(self._count)

    @property
    def progress(self) -> RunProgress:
        """What this watch has seen of the run."""
        return self._progress

    @property
    def state(self) -> WatchState:
        channel = self._channel
        own = PollState(self._backoff.failures, self._error, self._next_poll)
        poll_state = own if channel is None or own.failures else channel.poll_state
        phase = self._phase
        if phase is WatchPhase.LIVE and channel is not None and channel.is_draining:
            phase = WatchPhase.DRAINING
        return WatchState(
            run_id=self.run_id,
            phase=phase,
            caught_up=self._caught_up,
            status=self._progress.status,
            delivered=self._delivered,
            failures=poll_state.failures,
            error=poll_state.error,
            next_poll_seconds=None
            if poll_state.next_poll is None
            else max(0.0, poll_state.next_poll - self._hub.now()),
            cursor=self.cursor,
        )

    def stop(self, reason: Reason = Reason.STOPPED) -> None:
        """End the watch: the next item is the last one. From another thread, use `call_soon_threadsafe`."""
        self._inbox.stop(reason)

    def __aiter__(self) -> AsyncGenerator[Item, None]:
        if self._phase is not WatchPhase.WAITING:
            raise RuntimeError(f"Run {self.run_id} is already followed by this follower. Create another one.")
        self._phase = WatchPhase.CATCHING_UP
        return self._items()

    async def _items(self) -> AsyncGenerator[Item, None]:
        self._hub.add_follower(self._inbox)
        self._news_at = self._hub.now()
        try:
            while True:
                for item in self._yield_events(await self._read()):
                    yield item
                    del item  # a consumer that waits for the next item keeps none in memory
                if self._has_more:
                    continue
                while not self._hub.is_ready:
                    await self._retry(self._hub.make_ready)
                channel = self._channel = self._hub.join(self.run_id, self._inbox)
                while channel.must_be_caught_up_with:
                    for item in self._yield_events(await self._read(thorough=True)):
                        yield item
                        del item
                    if not self._has_more:
                        break
                channel.settle(self._inbox, self._after, self._progress)
                self._progress = channel.progress
                if not self._inbox.is_settled:
                    self._leave()
                    continue
                self._phase = WatchPhase.LIVE
                if not self._caught_up:
                    self._caught_up = True
                    yield CaughtUp(self._after)
                inbox = self._inbox
                while True:  # in here and not in a coroutine of its own: each of ten thousand would hold one
                    self._check()
                    if inbox.pages:
                        for item in self._yield_events(inbox.take()):
                            yield item
                            del item
                    elif inbox.dropped:  # this follower was too slow
                        break
                    elif inbox.ended is not None:
                        raise _Over(inbox.ended)
                    elif self._silent_after is None:
                        await inbox.wait()  # all that `_wait` would do
                    else:
                        await self._wait(None)
                self._leave()
                self._phase = WatchPhase.CATCHING_UP
                yield Missed(self._inbox.dropped, self.cursor)
        except _Over as over:
            self._leave()
            yield self._end(over.ended)
        except RunDeleted as error:
            self._leave()
            yield self._end(Ended(Reason.DELETED, self._progress.status, str(error), START))
        except NotWorthAnotherTry as error:
            self._leave()
            yield self._end(Ended(Reason.UNUSABLE, self._progress.status, str(error), START))
        finally:
            self._leave()
            self._phase = WatchPhase.ENDED
            self._hub.remove_follower(self._inbox)

    def _yield_events(self, page: Page) -> Iterator[Followed]:
        """The events of a page. One that is yielded is part of the cursor at once."""
        self._page, self._count = page, 0
        top, inbox = self._top, self._inbox
        for count, event in enumerate(page.events, 1):
            order = event.order
            late = order < top
            if not late:
                self._top = top = order
            self._count = count
            self._delivered += 1
            yield Followed(event, late, page, count)
            if inbox.stopped is not None:
                self._check()
        if page.events:
            self._news_at = self._hub.now()  # the consumer may be slow
        self._page, self._after, self._has_more = None, page.cursor, page.more

    async def _read(self, *, thorough: bool = False) -> Page:
        """The next page, read for this follower alone."""
        page = await self._retry(lambda: self._hub.read(self.run_id, self._after, thorough=thorough))
        if self._hub.generation != self._generation:
            raise replaced_while_followed()
        self._progress.add(page.events)
        return page

    async def _retry(self, call: Callable[[], Awaitable[T]]) -> T:
        """The result of a call of the journal, retried until there is one."""
        while True:
            self._check()
            try:
                result = await self._unless_over(call())
            except LongwatchError as error:
                backoff = after_failure(self._backoff, error)
                if backoff is None:
                    raise
                delay = backoff.delay or 0.0
                self._hub.outage.failed(error, delay)
                self._backoff, self._error, self._next_poll = backoff, str(error), self._hub.now() + delay
                while self._hub.now() < self._next_poll:
                    await self._wait(self._next_poll)
            else:
                self._hub.outage.succeeded()
                self._backoff, self._error, self._next_poll = self._backoff.succeeded(), None, None
                return result

    async def _unless_over(self, call: Awaitable[T]) -> T:
        future = asyncio.ensure_future(call)
        future.add_done_callback(lambda _: self._inbox.wake())
        try:
            while not future.done():
                await self._wait(None)
        except BaseException:
            future.cancel()
            raise
        self._check()
        return future.result()

    async def _wait(self, until: float | None) -> None:
        """Wait for a change, or until this time of the loop. Raises if there was no event for too long."""
        self._check()
        if self._may_be_silent and not self._inbox.pages:  # with pages, `_check` would not end it
            silent_at = self._news_at + (self._silent_after or 0.0)
            until = silent_at if until is None else min(until, silent_at)
        if until is None:
            await self._inbox.wait()
            return
        self._hub.timers.schedule(self._inbox, until)
        try:
            await self._inbox.wait()
        finally:
            self._hub.timers.cancel(self._inbox)
        self._check()

    def _check(self) -> None:
        """Raise if the watch is over for a reason of its own."""
        if self._inbox.stopped is not None:
            raise _Over(Ended(self._inbox.stopped, self._progress.status, None, START))
        if self._silent_after is None or not self._may_be_silent:
            return
        quiet = self._hub.now() - self._news_at
        if quiet >= self._silent_after and not self._inbox.pages:
            error = self.state.error
            trouble = f"; the journal did not respond: {error}" if error else ""
            text = f"no event for {quiet:.0f} s{trouble}; the run stays open"
            raise _Over(Ended(Reason.SILENT, self._progress.status, text, START))

    @property
    def _may_be_silent(self) -> bool:
        """Whether a time without events ends the watch. A run that waits has none to report."""
        return self._silent_after is not None and not self._progress.is_waiting

    def _leave(self) -> None:
        if self._channel is not None:
            self._channel.leave(self._inbox)
            self._channel = None

    def _end(self, ended: Ended) -> Ended:
        self._phase = WatchPhase.ENDED
        return Ended(ended.reason, ended.status, ended.message, self.cursor)


def replaced_while_followed() -> InvalidCursor:
    """The events of a new journal have no known relation to those that were delivered."""
    return InvalidCursor(
        "The journal was replaced while it was followed. Follow the run again to read it from the start."
    )


class _Over(Exception):
    """The watch is over."""

    def __init__(self, ended: Ended) -> None:
        self.ended = ended
        super().__init__(ended.reason)

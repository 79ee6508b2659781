"""Reads a run from its beginning to know what its followers did not see: who does the work, what has ended.

Whoever goes on from a saved cursor gets only what is new. It may be that the terminal event lies before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from longwatch.errors import LongwatchError
from longwatch.following.progress import RunProgress
from longwatch.following.run_channel import RunChannel
from longwatch.following.timers import Alarm, Sleeper, Timers
from longwatch.model.event import START, Cursor, Page
from longwatch.polling.backoff import JOURNAL_BACKOFF, after_failure

Read = Callable[[Cursor], asyncio.Future[Page]]
"""Reads the next page of the run."""


class Recollection:
    """One such reading, a page at a time, so that it stays out of the way of those who wait for theirs."""

    def __init__(
        self, channel: RunChannel, read: Read, timers: Timers[Sleeper], done: Callable[[], None]
    ) -> None:
        self._channel = channel
        self._read = read
        self._timers = timers
        self._done = done
        self._known = RunProgress(whole=True)
        self._backoff = JOURNAL_BACKOFF
        self._page = Page((), START, more=True)

    def go_on(self) -> None:
        """Read the next page."""
        if self._channel.is_closed:
            self._done()
        else:
            self._read(self._page.cursor).add_done_callback(self._take)

    def _take(self, answer: asyncio.Future[Page]) -> None:
        if answer.cancelled() or self._channel.is_closed:
            self._done()
            return
        error = answer.exception()
        backoff = after_failure(self._backoff, error) if isinstance(error, LongwatchError) else None
        if backoff is not None:
            self._backoff = backoff
            self._timers.schedule_in(Alarm(self.go_on), self._backoff.delay or 0.0)
            return
        if error is not None:  # the channel's own looks tell of it
            self._done()
            return
        self._backoff, self._page = self._backoff.succeeded(), answer.result()
        self._known.add(self._page.events)
        if self._page.more:
            self.go_on()
        else:
            self._done()
            self._channel.recollected(self._known)

"""Backfill: reads a run from its beginning for what its followers did not see, such as its processes.

A follower that resumes from a saved cursor reads only what is new. The terminal event may lie before it.
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


class Backfill:
    """One backfill. It reads a page at a time, so that other reads get their turn in between."""

    def __init__(
        self, channel: RunChannel, read: Read, timers: Timers[Sleeper], done: Callable[[], None]
    ) -> None:
        self._channel = channel
        self._read = read
        self._timers = timers
        self._done = done
        self._progress = RunProgress(whole=True)
        self._backoff = JOURNAL_BACKOFF
        self._page = Page((), START, more=True)

    def read_page(self) -> None:
        """Read the next page."""
        if self._channel.is_closed:
            self._done()
        else:
            self._read(self._page.cursor).add_done_callback(self._receive)

    def _receive(self, response: asyncio.Future[Page]) -> None:
        if response.cancelled() or self._channel.is_closed:
            self._done()
            return
        error = response.exception()
        backoff = after_failure(self._backoff, error) if isinstance(error, LongwatchError) else None
        if backoff is not None:
            self._backoff = backoff
            self._timers.schedule_in(Alarm(self.read_page), self._backoff.delay or 0.0)
            return
        if error is not None:  # the channel's own polls report it
            self._done()
            return
        self._backoff, self._page = self._backoff.succeeded(), response.result()
        self._progress.add(self._page.events)
        if self._page.more:
            self.read_page()
        else:
            self._done()
            self._channel.merge_history(self._progress)

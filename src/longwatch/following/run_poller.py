"""Polls each followed run once for all its followers, in journals that are read one run at a time.

All polls wait in one queue. Those that are due together are read in a few threads, several runs in each, so
that fifty thousand runs need neither as many tasks nor as many thread switches.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import ceil
from time import perf_counter

from longwatch.errors import LongwatchError
from longwatch.following.outage import Outage
from longwatch.following.run_channel import PollState, RunChannel
from longwatch.following.threads import HubThreads
from longwatch.following.timers import Timers
from longwatch.journal.base import Journal
from longwatch.model.event import Cursor, Page
from longwatch.polling.backoff import JOURNAL_BACKOFF, Backoff, after_failure

REPORT_SECONDS = 0.01  # after which the first results of a batch are reported
SLOW_READ_SECONDS = 0.01  # until reads were measured
BATCH_SECONDS = 0.005  # a smaller batch costs more than its thread gains


@dataclass(slots=True, eq=False)
class RunPollState:
    """A run that is polled, with everything that a poll needs: of thousands, each further access counts."""

    channel: RunChannel
    run_id: str
    cursor: Cursor
    backoff: Backoff = JOURNAL_BACKOFF
    error: str | None = None  # of the last poll, if it failed
    next_poll: float = 0.0
    is_reading: bool = False
    began: float = 0.0  # when the poll under way began
    requested: int = 0  # the last poll that had been requested then
    is_thorough: bool = False
    has_more: bool = False  # the poll under way has more pages
    is_plain: bool = True  # no thorough poll is requested, and the last one reached the end
    is_over: bool = False


RunPoll = tuple[RunPollState, Page | LongwatchError]
"""What one poll found, unless that was nothing."""


class RunPoller:
    """The event source for any journal."""

    is_global = False
    is_ready = True

    def __init__(
        self,
        journal: Journal,
        threads: HubThreads,
        outage: Outage,
        *,
        poll_seconds: float,
        page_events: int,
        batches: int,
    ) -> None:
        self._journal = journal
        self._threads = threads
        self._outage = outage
        self._poll_seconds = poll_seconds
        self._page_events = page_events
        self._batches = batches  # at most, of what is due together
        self._read_seconds = SLOW_READ_SECONDS  # what a read takes, on average of late
        self._phase = 0.0
        self._loop = asyncio.get_running_loop()
        self._timers: Timers[RunPollState] = Timers(self._loop, self._on_due)
        self._polled: dict[RunChannel, RunPollState] = {}

    async def open(self) -> None:
        """Nothing to open."""

    def add(self, channel: RunChannel) -> None:
        """Nothing to do before a follower has settled."""

    def start(self, channel: RunChannel, cursor: Cursor) -> bool:
        state = self._polled[channel] = RunPollState(
            channel, channel.run_id, cursor, requested=channel.requested
        )
        # Runs that start together would always be due together: the golden ratio spreads any number of them.
        self._phase = (self._phase + 0.618034) % 1.0
        self._plan(state, self._poll_seconds * (1.0 - self._phase))
        return True

    def request_poll(self, channel: RunChannel) -> None:
        state = self._polled.get(channel)
        if state is not None:
            state.is_plain = False
            if not state.is_reading and not state.backoff.failures:
                self._plan(state, 0.0)

    def remove(self, channel: RunChannel) -> None:
        state = self._polled.pop(channel, None)
        if state is not None:
            state.is_over = True
            self._timers.cancel(state)

    def release(self) -> None:
        """Without channels there are no polls."""

    async def aclose(self, *, is_quiet: bool) -> None:
        self._polled.clear()
        self._timers.close()

    def poll_state(self, channel: RunChannel) -> PollState:
        state = self._polled.get(channel)
        if state is None:
            return PollState()
        return PollState(state.backoff.failures, state.error, state.next_poll)

    def _plan(self, state: RunPollState, seconds: float) -> None:
        state.next_poll = self._loop.time() + seconds
        if seconds > 0:
            self._timers.schedule(state, state.next_poll)
        else:
            self._timers.cancel(state)
            self._on_due([state])

    def _on_due(self, due: list[RunPollState]) -> None:
        now = self._loop.time()
        for state in due:
            state.is_reading = True
            if not state.is_plain and not state.has_more:
                channel = state.channel
                state.began, state.requested = now, channel.requested
                state.is_thorough = channel.requested > channel.completed or channel.drain is not None
        size = batch_size(len(due), self._read_seconds, self._batches)
        for begin in range(0, len(due), size):
            self._threads.poll(partial(self._read, due[begin : begin + size]))

    def _read(self, batch: list[RunPollState]) -> None:
        """In a thread."""
        began = reported_at = perf_counter()
        quiet: list[RunPollState] = []
        results: list[RunPoll] = []
        for state in batch:
            self._poll_run(state, quiet, results)
            if perf_counter() - reported_at > REPORT_SECONDS:
                self._report(quiet, results)
                quiet, results, reported_at = [], [], perf_counter()
        if quiet or results:
            self._report(quiet, results)
        self._read_seconds += ((perf_counter() - began) / len(batch) - self._read_seconds) / 8

    def _poll_run(self, state: RunPollState, quiet: list[RunPollState], results: list[RunPoll]) -> None:
        """Read one run. If nothing is new, as nearly always, it is added to the quiet ones.

        At a hundred thousand polls a second, any object per poll adds up to full garbage collections, which
        delay everything else.
        """
        if state.is_over:
            return
        try:
            page = self._journal.read(
                state.run_id, after=state.cursor, limit=self._page_events, thorough=state.is_thorough
            )
        except LongwatchError as error:
            self._threads.report(error)
            results.append((state, error))
        except Exception as error:  # noqa: BLE001 - the followers must learn of it
            self._threads.report(error)
            results.append((state, LongwatchError(f"{type(error).__name__}: {error}")))
        else:
            if state.is_plain and not page.events and not page.more:
                state.cursor = page.cursor
                quiet.append(state)
            else:
                results.append((state, page))

    def _report(self, quiet: list[RunPollState], results: list[RunPoll]) -> None:
        with suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(self._receive_results, quiet, results)

    def _receive_results(self, quiet: list[RunPollState], results: list[RunPoll]) -> None:
        now, schedule, every = self._loop.time(), self._timers.schedule, self._poll_seconds
        for state in quiet:
            if state.is_over:
                continue
            if not state.is_plain:  # a thorough poll was requested meanwhile
                self._receive(state, Page((), state.cursor))
                continue
            state.is_reading = False
            # From the time when it was due: the rate holds though every poll is a little late, and after a
            # stall they are not all due together.
            at = state.next_poll + every
            if at <= now:
                at += every * ((now - at) // every + 1)
            state.next_poll = at
            schedule(state, at)
        for state, result in results:
            if state.is_over:  # a result of an earlier start
                continue
            if isinstance(result, LongwatchError):
                self._failed(state, result)
            else:
                self._receive(state, result)

    def _receive(self, state: RunPollState, page: Page) -> None:
        channel = state.channel
        state.cursor, state.has_more = page.cursor, page.more
        if state.backoff.failures:
            state.backoff, state.error = state.backoff.succeeded(), None
            self._outage.succeeded()
        if page.events:
            channel.receive(page)
        if not page.more and state.is_thorough and not channel.is_closed:
            channel.complete_poll(state.requested, state.began, page)
        state.is_reading = False
        if not channel.is_closed:
            at_once = page.more or channel.requested > state.requested
            state.is_plain = not at_once and channel.drain is None
            state.is_thorough = state.is_thorough and not state.is_plain
            self._plan(state, 0.0 if at_once else self._poll_seconds)

    def _failed(self, state: RunPollState, error: LongwatchError) -> None:
        state.is_reading = state.is_plain = False
        backoff = after_failure(state.backoff, error)
        if backoff is None:
            state.channel.failed(error)
            return
        state.backoff, state.error = backoff, str(error)
        self._outage.failed(error, backoff.delay or 0.0)
        self._plan(state, backoff.delay or 0.0)


def batch_size(count: int, read_seconds: float, most_batches: int) -> int:
    """How many of `count` runs one thread reads after each other: few if reads are slow, else what pays."""
    worth_it = ceil(count * read_seconds / BATCH_SECONDS)
    return ceil(count / max(1, min(worth_it, most_batches)))

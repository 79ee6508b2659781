"""One poll per run, however many follow it, for journals that can only be asked about one run at a time.

All polls wait in one queue. What is due together is read in a few threads, some runs after each other, so
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
from longwatch.following.run_channel import LookState, RunChannel
from longwatch.following.threads import Threads
from longwatch.following.timers import Timers
from longwatch.journal.base import Journal
from longwatch.model.event import Cursor, Page
from longwatch.polling.backoff import JOURNAL_BACKOFF, Backoff, after_failure

TOLD_EVERY_SECONDS = 0.01  # answers of a batch are told of this soon, though others are still to come


SLOW_READ_SECONDS = 0.01  # until it is known better
BATCH_SECONDS = 0.005  # handing less than that to a thread costs more than it gains


@dataclass(slots=True, eq=False)
class RunPollState:
    """A run that is polled, with what every look needs: with thousands, reaching further costs most."""

    channel: RunChannel
    run_id: str
    cursor: Cursor
    backoff: Backoff = JOURNAL_BACKOFF
    error: str | None = None  # of the last look, if it failed
    next_look: float = 0.0
    is_reading: bool = False
    began: float = 0.0  # when the sweep under way began
    asked: int = 0  # the last look that had been asked for then
    is_thorough: bool = False
    goes_on: bool = False  # the sweep under way has more pages to come
    is_plain: bool = True  # nobody wants a thorough look, and the last one went well and came to the end
    is_over: bool = False


RunPoll = tuple[RunPollState, Page | LongwatchError]
"""What one look found, where that is anything to speak of."""


class RunPoller:
    """The source for any journal."""

    is_global = False
    is_ready = True

    def __init__(
        self,
        journal: Journal,
        threads: Threads,
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
        self._watched: dict[RunChannel, RunPollState] = {}

    async def open(self) -> None:
        """Nothing to make ready."""

    def add(self, channel: RunChannel) -> None:
        """Nothing to do before somebody has settled."""

    def start(self, channel: RunChannel, cursor: Cursor) -> bool:
        watched = self._watched[channel] = RunPollState(channel, channel.run_id, cursor, asked=channel.asked)
        # Many come together, and would be due together for ever: the golden ratio spreads any number of them.
        self._phase = (self._phase + 0.618034) % 1.0
        self._plan(watched, self._poll_seconds * (1.0 - self._phase))
        return True

    def look(self, channel: RunChannel) -> None:
        watched = self._watched.get(channel)
        if watched is not None:
            watched.is_plain = False
            if not watched.is_reading and not watched.backoff.failures:
                self._plan(watched, 0.0)

    def leave(self, channel: RunChannel) -> None:
        watched = self._watched.pop(channel, None)
        if watched is not None:
            watched.is_over = True
            self._timers.cancel(watched)

    def rest(self) -> None:
        """Nothing is done for nobody."""

    async def aclose(self, *, is_quiet: bool) -> None:
        self._watched.clear()
        self._timers.close()

    def looks(self, channel: RunChannel) -> LookState:
        watched = self._watched.get(channel)
        if watched is None:
            return LookState()
        return LookState(watched.backoff.failures, watched.error, watched.next_look)

    def _plan(self, watched: RunPollState, seconds: float) -> None:
        watched.next_look = self._loop.time() + seconds
        if seconds > 0:
            self._timers.schedule(watched, watched.next_look)
        else:
            self._timers.cancel(watched)
            self._on_due([watched])

    def _on_due(self, due: list[RunPollState]) -> None:
        now = self._loop.time()
        for watched in due:
            watched.is_reading = True
            if not watched.is_plain and not watched.goes_on:
                channel = watched.channel
                watched.began, watched.asked = now, channel.asked
                watched.is_thorough = channel.asked > channel.answered or channel.drain is not None
        size = batch_size(len(due), self._read_seconds, self._batches)
        for begin in range(0, len(due), size):
            self._threads.look(partial(self._read, due[begin : begin + size]))

    def _read(self, batch: list[RunPollState]) -> None:
        """In a thread."""
        began = told_at = perf_counter()
        quiet: list[RunPollState] = []
        answers: list[RunPoll] = []
        for watched in batch:
            self._look_at(watched, quiet, answers)
            if perf_counter() - told_at > TOLD_EVERY_SECONDS:
                self._tell(quiet, answers)
                quiet, answers, told_at = [], [], perf_counter()
        if quiet or answers:
            self._tell(quiet, answers)
        self._read_seconds += ((perf_counter() - began) / len(batch) - self._read_seconds) / 8

    def _look_at(self, watched: RunPollState, quiet: list[RunPollState], answers: list[RunPoll]) -> None:
        """Read on in one run. Where nothing is new, as nearly always, it becomes one of the quiet ones.

        With a hundred thousand of these a second, whatever is kept of each for a moment adds up to full
        collections of garbage, which hold everybody up.
        """
        if watched.is_over:
            return
        try:
            page = self._journal.read(
                watched.run_id, after=watched.cursor, limit=self._page_events, thorough=watched.is_thorough
            )
        except LongwatchError as error:
            self._threads.report(error)
            answers.append((watched, error))
        except Exception as error:  # noqa: BLE001 - a thread's last word must reach the followers
            self._threads.report(error)
            answers.append((watched, LongwatchError(f"{type(error).__name__}: {error}")))
        else:
            if watched.is_plain and not page.events and not page.more:
                watched.cursor = page.cursor
                quiet.append(watched)
            else:
                answers.append((watched, page))

    def _tell(self, quiet: list[RunPollState], answers: list[RunPoll]) -> None:
        with suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(self._take, quiet, answers)

    def _take(self, quiet: list[RunPollState], answers: list[RunPoll]) -> None:
        now, schedule, every = self._loop.time(), self._timers.schedule, self._poll_seconds
        for watched in quiet:
            if watched.is_over:
                continue
            if not watched.is_plain:  # somebody has asked for a thorough look meanwhile
                self._took(watched, Page((), watched.cursor))
                continue
            watched.is_reading = False
            # From the moment it was due: the rate holds though every look is a little late, and after a
            # stall they are not all due together.
            at = watched.next_look + every
            if at <= now:
                at += every * ((now - at) // every + 1)
            watched.next_look = at
            schedule(watched, at)
        for watched, answer in answers:
            if watched.is_over:  # a result of an earlier start
                continue
            if isinstance(answer, LongwatchError):
                self._failed(watched, answer)
            else:
                self._took(watched, answer)

    def _took(self, watched: RunPollState, page: Page) -> None:
        channel = watched.channel
        watched.cursor, watched.goes_on = page.cursor, page.more
        if watched.backoff.failures:
            watched.backoff, watched.error = watched.backoff.succeeded(), None
            self._outage.succeeded()
        if page.events:
            channel.took(page)
        if not page.more and watched.is_thorough and not channel.is_closed:
            channel.looked(watched.asked, watched.began, page)
        watched.is_reading = False
        if not channel.is_closed:
            at_once = page.more or channel.asked > watched.asked
            watched.is_plain = not at_once and channel.drain is None
            watched.is_thorough = watched.is_thorough and not watched.is_plain
            self._plan(watched, 0.0 if at_once else self._poll_seconds)

    def _failed(self, watched: RunPollState, error: LongwatchError) -> None:
        watched.is_reading = watched.is_plain = False
        backoff = after_failure(watched.backoff, error)
        if backoff is None:
            watched.channel.failed(error)
            return
        watched.backoff, watched.error = backoff, str(error)
        self._outage.failed(error, backoff.delay or 0.0)
        self._plan(watched, backoff.delay or 0.0)


def batch_size(count: int, read_seconds: float, most_batches: int) -> int:
    """How many of `count` runs one thread reads after each other: few if reads are slow, else what pays."""
    worth_it = ceil(count * read_seconds / BATCH_SECONDS)
    return ceil(count / max(1, min(worth_it, most_batches)))

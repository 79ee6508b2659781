"""Reads the new events of all runs at once, from a journal that numbers arrivals.

It reads only after a change signal, so followers that wait cost nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from longwatch.clock import Clock
from longwatch.errors import LongwatchError
from longwatch.following.follower import replaced_while_followed
from longwatch.following.outage import Outage
from longwatch.following.run_channel import PollState, RunChannel
from longwatch.following.threads import HubThreads
from longwatch.following.timers import Alarm, Sleeper, Timers
from longwatch.journal.arrivals import Arrival, ArrivalCursor, page_of
from longwatch.journal.base import Arrivals, fills_page
from longwatch.model.event import Cursor, Page
from longwatch.polling.backoff import JOURNAL_BACKOFF, after_failure
from longwatch.storage.change_signal import ChangeSignal, Subscribe

READ_EVENTS = 1_000  # in one read
# Reads after a thread has polled for a reported write: it may not be readable yet, or another write followed.
# The check of the signal covers what takes longer.
REPEAT_AFTER_SECONDS = (0.005, 0.025, 0.1, 0.3)
# A write is reported before it can be read, by the time of its sync: a thread polls so long after the report.
POST_WRITE_POLLS_SECONDS = (
    *(0.0002, 0.0004, 0.0006, 0.0008, 0.001),
    *(0.0013, 0.0017, 0.0022, 0.0028, 0.0036, 0.005),
)
MAX_POST_WRITE_SECONDS, MAX_POST_WRITE_POLLS = 0.05, 100  # a transaction may be larger than memory

T = TypeVar("T")


class ArrivalsReader:
    """The event source for journals that number arrivals."""

    is_global = True

    def __init__(
        self,
        journal: Arrivals,
        subscribe: Subscribe,
        threads: HubThreads,
        timers: Timers[Sleeper],
        outage: Outage,
        clock: Clock,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        self._journal = journal
        self._subscribe = subscribe
        self._threads = threads
        self._timers = timers
        self._outage = outage
        self._clock = clock
        self._is_wanted = is_wanted  # whether there are followers
        self._loop = asyncio.get_running_loop()
        self._channels: dict[str, RunChannel] = {}
        self._requests: dict[RunChannel, None] = {}  # that wait for the next complete read
        self._opening: asyncio.Task[None] | None = None
        self._is_closed = False
        self._signal: ChangeSignal | None = None
        self._position = 0
        self._positions_of = 0  # the generation of the journal that the position belongs to
        self._generation = 0  # of the subscription; results of an earlier one are dropped
        self._is_reading = False
        self._is_notified = False  # `_on_appended` is already scheduled by another thread
        self._is_dirty = False  # something may have been appended since the read under way began
        self._is_write_reported = False  # a write is under way, and the next read waits for it
        self._lent: set[ChangeSignal] = set()  # to threads that poll for a write
        self._repeat_at: list[float] = []  # times of the loop for further reads
        self._backoff = JOURNAL_BACKOFF
        self._poll_state = PollState()
        self._check = Alarm(self._on_check)
        self._check_at = 0.0
        self._repeat = Alarm(self._read)

    @property
    def is_ready(self) -> bool:
        return self._signal is not None

    async def open(self) -> None:
        if self._signal is not None:
            return
        if self._opening is None or self._opening.done():
            # A task of its own: a follower that is cancelled meanwhile must not leave a descriptor behind.
            self._opening = self._loop.create_task(self._open())
            self._opening.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        signal, position, positions_of = await self._threads.history(self._subscribe_and_locate)
        if self._is_closed or not self._is_wanted():  # the follower that needed it has left
            signal.close()
            return
        self._signal, self._position, self._positions_of = signal, position, positions_of
        self._backoff, self._poll_state = self._backoff.succeeded(), PollState()
        self._is_write_reported = False
        if signal.descriptor is not None:  # a write may just have begun
            self._plan_repeats()
        self._watch_descriptor(signal)
        self._schedule_check()

    def _subscribe_and_locate(self) -> tuple[ChangeSignal, int, int]:
        positions_of = self._journal.generation
        signal = self._subscribe(self._on_append)
        try:
            return signal, self._journal.last_arrival(), positions_of
        except BaseException:
            signal.close()
            raise

    def add(self, channel: RunChannel) -> None:
        self._channels[channel.run_id] = channel

    def start(self, channel: RunChannel, cursor: Cursor) -> bool:
        return False

    def request_poll(self, channel: RunChannel) -> None:
        self._requests[channel] = None
        self._request_read()

    def remove(self, channel: RunChannel) -> None:
        if self._channels.get(channel.run_id) is channel:
            del self._channels[channel.run_id]
        self._requests.pop(channel, None)
        self.release()

    def release(self) -> None:
        """A follower may leave before it has a channel."""
        if not self._channels:
            self.close()

    def close(self) -> None:
        """End the subscription. The next follower opens another one."""
        signal, self._signal = self._signal, None
        if signal is None:
            return
        self._generation += 1
        self._is_reading, self._repeat_at = False, []
        self._timers.cancel(self._check)
        self._timers.cancel(self._repeat)
        if signal.descriptor is not None:
            self._loop.remove_reader(signal.descriptor)
        if signal not in self._lent:  # else it is closed when the thread gives it back
            signal.close()

    async def aclose(self, *, is_quiet: bool) -> None:
        """End for good. `is_quiet`: no thread is under way any more."""
        self._is_closed = True
        self.close()
        while is_quiet and self._lent:  # to a thread that never started
            self._lent.pop().close()
        if self._opening is not None:
            await asyncio.wait([self._opening])

    def poll_state(self, channel: RunChannel) -> PollState:
        return self._poll_state

    def _on_append(self) -> None:
        """Called by any thread of this process after an append."""
        if not self._is_notified:
            self._is_notified = True
            with suppress(RuntimeError):  # the loop is closed already
                self._loop.call_soon_threadsafe(self._on_appended)

    def _on_appended(self) -> None:
        self._is_notified = False
        signal = self._signal
        if signal is not None and signal not in self._lent and (signal.drain() or self._is_write_reported):
            # The descriptor reported this append, which is readable. It may have reported another write too.
            self._is_write_reported = False
            self._plan_repeats()
        self._request_read()

    def _watch_descriptor(self, signal: ChangeSignal) -> None:
        if signal.descriptor is not None:
            self._loop.add_reader(signal.descriptor, self._on_descriptor)

    def _on_descriptor(self) -> None:
        signal = self._signal
        if signal is not None and signal.drain():
            self._is_write_reported = True
            self._request_read()

    def _on_check(self) -> None:
        signal = self._signal
        if signal is None:
            return
        if signal.changed():
            self._request_read()
        self._schedule_check()

    def _schedule_check(self) -> None:
        if self._signal is not None and self._signal.check_seconds is not None:
            # From the time when the last one was due: timers fire a little late, and that would add up.
            self._check_at = max(self._check_at, self._loop.time() - self._signal.check_seconds)
            self._check_at += self._signal.check_seconds
            self._timers.schedule(self._check, self._check_at)

    def _request_read(self) -> None:
        """Read soon: something may have been appended."""
        self._is_dirty = True
        if not self._is_reading and not self._backoff.failures:
            self._read()

    def _read(self) -> None:
        signal = self._signal
        if signal is None or self._is_reading:
            return
        self._is_reading, self._is_dirty = True, False
        began, generation, after = self._loop.time(), self._generation, self._position
        requested = {channel: channel.requested for channel in self._requests}
        lent, clock = self._lend(signal), self._clock
        arrivals = partial(self._journal.arrivals, after, limit=READ_EVENTS)
        read_now = partial(self._threads.attempt, arrivals)

        def read() -> None:
            result: Sequence[Arrival] | LongwatchError
            try:
                result = read_now() if lent is None else read_after_write(read_now, lent, clock)
            except LongwatchError as error:
                result = error
            except Exception as error:  # noqa: BLE001 - the followers must learn of it
                result = LongwatchError(f"{type(error).__name__}: {error}")
            try:
                self._loop.call_soon_threadsafe(self._receive, generation, began, requested, lent, result)
            except RuntimeError:  # the loop is closed already
                if lent is not None:
                    lent.close()

        self._threads.poll(read)

    def _lend(self, signal: ChangeSignal) -> ChangeSignal | None:
        """Give the signal to the thread of the next read, if that polls for a write and drains it."""
        if not self._is_write_reported:
            return None
        self._is_write_reported = False
        self._lent.add(signal)
        if signal.descriptor is not None:
            self._loop.remove_reader(signal.descriptor)
        return signal

    def _give_back(self, lent: ChangeSignal) -> None:
        if lent not in self._lent:  # it was closed meanwhile
            return
        self._lent.remove(lent)
        if self._signal is lent:
            self._watch_descriptor(lent)
        else:
            lent.close()

    def _receive(
        self,
        generation: int,
        began: float,
        requested: dict[RunChannel, int],
        lent: ChangeSignal | None,
        result: Sequence[Arrival] | LongwatchError,
    ) -> None:
        if lent is not None:
            self._give_back(lent)
        if generation != self._generation:
            return
        self._is_reading = False
        if isinstance(result, LongwatchError):
            self._failed(result)
            return
        if self._journal.generation != self._positions_of:
            self._failed(replaced_while_followed())
            return
        if self._backoff.failures:
            self._backoff, self._poll_state = self._backoff.succeeded(), PollState()
            self._outage.succeeded()
        if lent is not None:
            self._plan_repeats()
        if result:
            self._distribute(result)
        if generation != self._generation:  # the last follower has left
            return
        if fills_page((event for _, event in result), READ_EVENTS):
            self._is_dirty = True
        else:
            self._complete_requests(requested, began)
        if generation != self._generation:
            return
        if self._is_dirty:
            self._read()
        else:
            self._schedule_repeat(began)

    def _plan_repeats(self) -> None:
        now = self._loop.time()
        self._repeat_at = [now + seconds for seconds in REPEAT_AFTER_SECONDS]

    def _schedule_repeat(self, began: float) -> None:
        # A read counts for the repeats that were due when it began. One that took longer than all of them,
        # on a busy machine, may have missed the write: the next starts at once.
        self._repeat_at = [at for at in self._repeat_at if at > began]
        if self._repeat_at:
            self._timers.schedule(self._repeat, self._repeat_at[0])

    def _distribute(self, arrivals: Sequence[Arrival]) -> None:
        start, self._position = ArrivalCursor(self._position), arrivals[-1][0]
        end = ArrivalCursor(self._position)
        by_run: dict[str, list[Arrival]] = {}
        for arrival in arrivals:
            run_id = arrival[1].run_id
            if run_id in self._channels:
                by_run.setdefault(run_id, []).append(arrival)
        for run_id, group in by_run.items():
            channel = self._channels.get(run_id)
            if channel is not None:
                channel.receive(page_of(start, group, end=end))

    def _complete_requests(self, requested: dict[RunChannel, int], began: float) -> None:
        here = Page((), ArrivalCursor(self._position).cursor)
        for channel, number in requested.items():
            if channel.requested == number:
                self._requests.pop(channel, None)
            if not channel.is_closed:
                channel.complete_poll(number, began, here)

    def _failed(self, error: LongwatchError) -> None:
        backoff = after_failure(self._backoff, error)
        if backoff is None:
            for channel in list(self._channels.values()):
                channel.failed(error)
            self.close()  # the next follower opens another subscription
            return
        self._backoff, delay = backoff, backoff.delay or 0.0
        self._outage.failed(error, delay)
        at = self._loop.time() + delay
        self._poll_state = PollState(backoff.failures, str(error), at)
        self._timers.schedule(self._repeat, at)


def read_after_write(read: Callable[[], Sequence[T]], signal: ChangeSignal, clock: Clock) -> Sequence[T]:
    """In a thread: poll for a write that the signal has just reported; nothing if it takes longer.

    The signal is drained after each poll. Mostly it reports the rest of the same write, before its sync. It
    may be the start of another write too, so the caller polls again a little later.
    """
    signal.drain()
    reported_at, last = clock.monotonic(), len(POST_WRITE_POLLS_SECONDS) - 1
    deadline = reported_at + MAX_POST_WRITE_SECONDS
    for number in range(MAX_POST_WRITE_POLLS):
        delay = POST_WRITE_POLLS_SECONDS[min(number, last)]
        clock.sleep(max(0.0, reported_at + delay - clock.monotonic()))
        found = read()
        if found:
            return found
        if signal.drain():
            reported_at = clock.monotonic()
        elif number >= last:
            break
        if reported_at >= deadline:
            break
    return ()

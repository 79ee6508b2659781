"""One read for every run: what arrived in a journal that numbers arrivals, handed to those who follow it.

It reads when something was appended, and not otherwise, so followers that wait cost nothing.
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
from longwatch.following.run_channel import LookState, RunChannel
from longwatch.following.threads import Threads
from longwatch.following.timers import Alarm, Sleeper, Timers
from longwatch.journal.arrivals import Arrival, Arrived, page_of
from longwatch.journal.base import Arrivals, fills_page
from longwatch.model.event import Cursor, Page
from longwatch.polling.backoff import JOURNAL_BACKOFF, after_failure
from longwatch.storage.change_signal import ChangeSignal, Subscribe

TAIL_EVENTS = 1_000  # in one read
# After a thread has waited for what was told of: it may not have come yet, or another write was close behind.
# The check covers what takes longer.
LOOK_AGAIN_AFTER_SECONDS = (0.005, 0.025, 0.1, 0.3)
# A write is reported before it can be read, by the time of its sync: a thread polls so long after the report.
POST_WRITE_POLLS_SECONDS = (
    *(0.0002, 0.0004, 0.0006, 0.0008, 0.001),
    *(0.0013, 0.0017, 0.0022, 0.0028, 0.0036, 0.005),
)
MAX_POST_WRITE_SECONDS, MAX_POST_WRITE_POLLS = 0.05, 100  # a transaction may be larger than memory

T = TypeVar("T")


class ArrivalsReader:
    """The source for journals that number what arrives."""

    is_global = True

    def __init__(
        self,
        journal: Arrivals,
        subscribe: Subscribe,
        threads: Threads,
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
        self._is_wanted = is_wanted  # whether there is anybody who might follow something
        self._loop = asyncio.get_running_loop()
        self._channels: dict[str, RunChannel] = {}
        self._asking: dict[RunChannel, None] = {}  # those that want to be told of the next look
        self._opening: asyncio.Task[None] | None = None
        self._is_over = False
        self._signal: ChangeSignal | None = None
        self._position = 0
        self._positions_of = 0  # the generation of the journal that the position belongs to
        self._generation = 0  # answers of an earlier opening are dropped
        self._is_reading = False
        self._is_rung = False  # a call of `_on_appended` is on its way from another thread
        self._is_dirty = False  # something may have been appended since the read under way began
        self._is_told = False  # somebody writes, and the next look waits until that can be read
        self._lent: set[ChangeSignal] = set()  # to threads that wait so
        self._again_at: list[float] = []  # times of the loop at which to look once more
        self._backoff = JOURNAL_BACKOFF
        self._looks = LookState()
        self._check = Alarm(self._on_check)
        self._check_at = 0.0
        self._again = Alarm(self._look)

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
        signal, position, positions_of = await self._threads.history(self._begin)
        if self._is_over or not self._is_wanted():  # whoever asked for it left meanwhile
            signal.close()
            return
        self._signal, self._position, self._positions_of = signal, position, positions_of
        self._backoff, self._looks = self._backoff.succeeded(), LookState()
        self._is_told = False
        if signal.descriptor is not None:  # somebody may just have begun to write
            self._look_again_later()
        self._hear(signal)
        self._schedule_check()

    def _begin(self) -> tuple[ChangeSignal, int, int]:
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

    def look(self, channel: RunChannel) -> None:
        self._asking[channel] = None
        self._ring()

    def leave(self, channel: RunChannel) -> None:
        if self._channels.get(channel.run_id) is channel:
            del self._channels[channel.run_id]
        self._asking.pop(channel, None)
        self.rest()

    def rest(self) -> None:
        """Whoever wanted to follow may have left before there was a channel."""
        if not self._channels:
            self.close()

    def close(self) -> None:
        """Listen no more; whoever comes next begins anew."""
        signal, self._signal = self._signal, None
        if signal is None:
            return
        self._generation += 1
        self._is_reading, self._again_at = False, []
        self._timers.cancel(self._check)
        self._timers.cancel(self._again)
        if signal.descriptor is not None:
            self._loop.remove_reader(signal.descriptor)
        if signal not in self._lent:  # else it is closed when the thread gives it back
            signal.close()

    async def aclose(self, *, is_quiet: bool) -> None:
        """Listen no more, for good. `is_quiet`: no thread is under way any more."""
        self._is_over = True
        self.close()
        while is_quiet and self._lent:  # to a thread that never began
            self._lent.pop().close()
        if self._opening is not None:
            await asyncio.wait([self._opening])

    def looks(self, channel: RunChannel) -> LookState:
        return self._looks

    def _on_append(self) -> None:
        """Something was appended in this process, by whichever thread."""
        if not self._is_rung:
            self._is_rung = True
            with suppress(RuntimeError):  # the loop is closed already
                self._loop.call_soon_threadsafe(self._on_appended)

    def _on_appended(self) -> None:
        self._is_rung = False
        signal = self._signal
        if signal is not None and signal not in self._lent and (signal.drain() or self._is_told):
            # It told of this append, which can be read. If it told of another write too, look again for that.
            self._is_told = False
            self._look_again_later()
        self._ring()

    def _hear(self, signal: ChangeSignal) -> None:
        if signal.descriptor is not None:
            self._loop.add_reader(signal.descriptor, self._on_descriptor)

    def _on_descriptor(self) -> None:
        signal = self._signal
        if signal is not None and signal.drain():
            self._is_told = True
            self._ring()

    def _on_check(self) -> None:
        signal = self._signal
        if signal is None:
            return
        if signal.changed():
            self._ring()
        self._schedule_check()

    def _schedule_check(self) -> None:
        if self._signal is not None and self._signal.check_seconds is not None:
            # From the moment the last one was due: timers go off a little late, and that would add up.
            self._check_at = max(self._check_at, self._loop.time() - self._signal.check_seconds)
            self._check_at += self._signal.check_seconds
            self._timers.schedule(self._check, self._check_at)

    def _ring(self) -> None:
        """Something may have been appended."""
        self._is_dirty = True
        if not self._is_reading and not self._backoff.failures:
            self._look()

    def _look(self) -> None:
        signal = self._signal
        if signal is None or self._is_reading:
            return
        self._is_reading, self._is_dirty = True, False
        began, generation, after = self._loop.time(), self._generation, self._position
        asked = {channel: channel.asked for channel in self._asking}
        lent, clock = self._lend(signal), self._clock
        arrivals = partial(self._journal.arrivals, after, limit=TAIL_EVENTS)
        read_now = partial(self._threads.attempt, arrivals)

        def read() -> None:
            answer: Sequence[Arrival] | LongwatchError
            try:
                answer = read_now() if lent is None else read_after_write(read_now, lent, clock)
            except LongwatchError as error:
                answer = error
            except Exception as error:  # noqa: BLE001 - a thread's last word must reach the followers
                answer = LongwatchError(f"{type(error).__name__}: {error}")
            try:
                self._loop.call_soon_threadsafe(self._took, generation, began, asked, lent, answer)
            except RuntimeError:  # the loop is closed already
                if lent is not None:
                    lent.close()

        self._threads.look(read)

    def _lend(self, signal: ChangeSignal) -> ChangeSignal | None:
        """To the thread of the next look, if that waits for what was told of; it alone listens meanwhile."""
        if not self._is_told:
            return None
        self._is_told = False
        self._lent.add(signal)
        if signal.descriptor is not None:
            self._loop.remove_reader(signal.descriptor)
        return signal

    def _give_back(self, lent: ChangeSignal) -> None:
        if lent not in self._lent:  # it was closed meanwhile
            return
        self._lent.remove(lent)
        if self._signal is lent:
            self._hear(lent)
        else:
            lent.close()

    def _took(
        self,
        generation: int,
        began: float,
        asked: dict[RunChannel, int],
        lent: ChangeSignal | None,
        answer: Sequence[Arrival] | LongwatchError,
    ) -> None:
        if lent is not None:
            self._give_back(lent)
        if generation != self._generation:
            return
        self._is_reading = False
        if isinstance(answer, LongwatchError):
            self._failed(answer)
            return
        if self._journal.generation != self._positions_of:
            self._failed(replaced_while_followed())
            return
        if self._backoff.failures:
            self._backoff, self._looks = self._backoff.succeeded(), LookState()
            self._outage.succeeded()
        if lent is not None:
            self._look_again_later()
        if answer:
            self._hand_out(answer)
        if generation != self._generation:  # everybody left on account of it
            return
        if fills_page((event for _, event in answer), TAIL_EVENTS):
            self._is_dirty = True
        else:
            self._answer(asked, began)
        if generation != self._generation:
            return
        if self._is_dirty:
            self._look()
        else:
            self._schedule_again()

    def _look_again_later(self) -> None:
        now = self._loop.time()
        self._again_at = [now + seconds for seconds in LOOK_AGAIN_AFTER_SECONDS]

    def _schedule_again(self) -> None:
        now = self._loop.time()
        self._again_at = [at for at in self._again_at if at > now]
        if self._again_at:
            self._timers.schedule(self._again, self._again_at[0])

    def _hand_out(self, arrivals: Sequence[Arrival]) -> None:
        start, self._position = Arrived(self._position), arrivals[-1][0]
        end = Arrived(self._position)
        by_run: dict[str, list[Arrival]] = {}
        for arrival in arrivals:
            run_id = arrival[1].run_id
            if run_id in self._channels:
                by_run.setdefault(run_id, []).append(arrival)
        for run_id, group in by_run.items():
            channel = self._channels.get(run_id)
            if channel is not None:
                channel.took(page_of(start, group, end=end))

    def _answer(self, asked: dict[RunChannel, int], began: float) -> None:
        here = Page((), Arrived(self._position).cursor)
        for channel, number in asked.items():
            if channel.asked == number:
                self._asking.pop(channel, None)
            if not channel.is_closed:
                channel.looked(number, began, here)

    def _failed(self, error: LongwatchError) -> None:
        backoff = after_failure(self._backoff, error)
        if backoff is None:
            for channel in list(self._channels.values()):
                channel.failed(error)
            self.close()  # the next follower begins anew
            return
        self._backoff, delay = backoff, backoff.delay or 0.0
        self._outage.failed(error, delay)
        at = self._loop.time() + delay
        self._looks = LookState(backoff.failures, str(error), at)
        self._timers.schedule(self._again, at)


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

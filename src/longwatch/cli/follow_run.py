"""Follows a run for a terminal: hands its events to a view until the watch ends."""

from __future__ import annotations

import asyncio
import os
import select
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from longwatch.clock import Clock
from longwatch.errors import LongwatchError
from longwatch.following import CaughtUp, Ended, Followed, Follower, Hub, Reason, WatchState
from longwatch.following.observation import Observer
from longwatch.following.progress import RunProgress
from longwatch.journal.base import Journal
from longwatch.model.attempts import FACT_TYPES
from longwatch.model.event import Event, Order
from longwatch.model.run import Ending, Status

TICK_SECONDS = 0.2
TICKING_SHARE = 0.1  # of the time that a view may spend in its ticks, however large the run is


class View(Protocol):
    """Where a run is shown while it is followed."""

    def take(self, event: Event, *, late: bool) -> None:
        """Receive an event, exactly once."""

    def flush(self) -> None:
        """The events received so far are a complete batch."""

    def caught_up(self) -> None:
        """The history is complete; further events are live."""

    def tick(self, state: WatchState) -> None:
        """Time has passed."""


@dataclass(frozen=True, slots=True)
class WatchResult:
    """How a watch ended, and the status of the run at that time."""

    status: Status  # pending: there was no event
    reason: Reason | None = None  # None: time was up
    message: str | None = None
    error: str | None = None  # why the last read of the journal failed
    ended_between: tuple[int, int | None] | None = None  # epoch ms, of a run that died

    @property
    def is_deleted(self) -> bool:
        """Whether the run was deleted while it was watched."""
        return self.reason is Reason.DELETED

    @property
    def lost_contact(self) -> bool:
        """Whether the watch ended without knowing the status of the run."""
        return self.reason in (Reason.SILENT, Reason.UNUSABLE) or self.error is not None


async def follow_run(
    journal: Journal,
    run_id: str,
    view: View,
    *,
    clock: Clock,
    timeout_seconds: float | None = None,
    silent_after_seconds: float | None = None,
) -> WatchResult:
    """Follow the run until it has ended and drained, the watch gives up, or the timeout passes.

    Raises BrokenPipeError as soon as the reader of standard output has closed the pipe.
    """
    loop = asyncio.get_running_loop()
    async with Hub(journal, clock=clock) as hub:
        follower = hub.follow(run_id, silent_after_seconds=silent_after_seconds)
        followed = _RunFollowing(follower, view)
        timer = loop.call_later(timeout_seconds, follower.stop) if timeout_seconds is not None else None
        try:
            with _ticking(followed.tick), _reader_watched(followed.leave):
                ended = await followed.items()
                if ended.reason is Reason.STOPPED:
                    return await followed.read_final_state(hub, clock)
                return followed.outcome(ended)
        finally:
            if timer is not None:
                timer.cancel()


class _RunFollowing:
    """One follower and its view, with the progress that decides the status if the watch stops early."""

    def __init__(self, follower: Follower, view: View) -> None:
        self._follower = follower
        self._view = view
        self._top: Order | None = None  # the highest order of the events received
        self._progress = RunProgress(whole=True)
        self._failure: BaseException | None = None  # why the watch has to end

    def leave(self, failure: BaseException) -> None:
        """Stop the watch and raise this from `items`."""
        self._failure = self._failure or failure
        self._follower.stop()

    def tick(self) -> None:
        try:
            self._view.tick(self._follower.state)
        except Exception as error:  # noqa: BLE001 - a timer has no caller, so `items` raises it
            self.leave(error)

    async def items(self) -> Ended:
        """Hand every item to the view and return the last one."""
        async with aclosing(aiter(self._follower)) as items:
            async for item in items:
                if isinstance(item, Followed):
                    self._take(item.event, late=item.late)
                    if item.last:
                        self._view.flush()
                elif isinstance(item, CaughtUp):
                    self._view.caught_up()
                elif isinstance(item, Ended):
                    self._view.flush()
                    if self._failure is not None:
                        raise self._failure
                    return item
        raise AssertionError("a follower yields Ended last")

    async def read_final_state(self, hub: Hub, clock: Clock) -> WatchResult:
        """Read the journal once more: a timeout does not decide the status of the run."""
        before, cursor, more = self._follower.state.status, self._follower.cursor, True
        try:
            while more:
                page = await hub.read(self._follower.run_id, cursor, thorough=True)
                for event in page.events:
                    self._take(event, late=self._top is not None and event.order < self._top)
                self._view.flush()
                cursor, more = page.cursor, page.more
            found = await asyncio.to_thread(_outcome_now, hub.journal, self._follower.run_id, clock)
        except LongwatchError as error:
            return WatchResult(before, error=str(error))
        return found

    def outcome(self, ended: Ended) -> WatchResult:
        """The result of a watch that ended by itself."""
        return WatchResult(
            ended.status, ended.reason, ended.message, ended_between=_interval(self._progress.ending)
        )

    def _take(self, event: Event, *, late: bool) -> None:
        if self._top is None or event.order > self._top:
            self._top = event.order
        if event.type in FACT_TYPES or self._progress.last is None:
            self._progress.add([event])
        self._view.take(event, late=late)


def _outcome_now(journal: Journal, run_id: str, clock: Clock) -> WatchResult:
    """The current status of the run, by its events and its processes."""
    run = journal.find_run(run_id)
    if run is None:
        return WatchResult(Status.PENDING)
    [observed] = Observer(journal, clock=clock).observed([run])
    run = observed.run
    return WatchResult(run.status, message=run.error, ended_between=run.ended_between)


def _interval(ending: Ending | None) -> tuple[int, int | None] | None:
    if ending is None or ending.not_before is None:
        return None
    return ending.not_before, ending.not_after


@contextmanager
def _ticking(tick: Callable[[], None]) -> Iterator[None]:
    """Call `tick` regularly, less often if it takes long."""
    loop = asyncio.get_running_loop()
    handle: asyncio.TimerHandle | None = None

    def on_time() -> None:
        nonlocal handle
        began = loop.time()
        tick()
        took = loop.time() - began
        handle = loop.call_later(max(TICK_SECONDS, took / TICKING_SHARE), on_time)

    handle = loop.call_later(0, on_time)
    try:
        yield
    finally:
        if handle is not None:
            handle.cancel()


@contextmanager
def _reader_watched(leave: Callable[[BaseException], None]) -> Iterator[None]:
    """Notice a closed pipe without a write, because the next event may be hours away."""
    loop = asyncio.get_running_loop()
    descriptor = _pipe()
    if descriptor is None:
        yield
        return

    def on_event() -> None:
        loop.remove_reader(descriptor)
        if has_no_reader(descriptor):
            leave(BrokenPipeError())

    with suppress(OSError, NotImplementedError):  # some loops accept no pipes; then the next write fails
        loop.add_reader(descriptor, on_event)
    try:
        yield
    finally:
        with suppress(NotImplementedError):
            loop.remove_reader(descriptor)


def _pipe() -> int | None:
    """Standard output, if it is a pipe."""
    try:
        descriptor = sys.stdout.fileno()
        return descriptor if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else None
    except (OSError, ValueError):
        return None


def has_no_reader(descriptor: int) -> bool:
    """Whether the reader of this pipe has closed it."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(flags & (select.POLLERR | select.POLLHUP) for _, flags in poll.poll(0))

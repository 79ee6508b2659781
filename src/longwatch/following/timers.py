"""One timer of the event loop for everything that a hub waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

from longwatch.polling.due import DueQueue

MARGIN_SECONDS = 2e-6  # the queue may be early by a microsecond, and a key that wakes early would sleep again

K = TypeVar("K", bound=Hashable)


class Timers(Generic[K]):
    """Reports keys when they are due, those that are due together in one call."""

    def __init__(self, loop: asyncio.AbstractEventLoop, due: Callable[[list[K]], None]) -> None:
        self._loop = loop
        self._due = due
        self._queue: DueQueue[K] = DueQueue()
        self._handle: asyncio.TimerHandle | None = None
        self._set_for = float("inf")  # when the handle calls

    def schedule(self, key: K, at: float) -> None:
        """Make this key due at this time of the loop, instead of any before."""
        self._queue.schedule(key, at + MARGIN_SECONDS)
        if at < self._set_for:
            self._set()

    def schedule_in(self, key: K, seconds: float) -> None:
        """Make this key due so many seconds from now."""
        self.schedule(key, self._loop.time() + seconds)

    def cancel(self, key: K) -> None:
        """Remove this key. The timer may fire for nothing, which costs less than setting it again."""
        self._queue.cancel(key)
        if not self._queue:
            self.close()

    def close(self) -> None:
        """Cancel the timer until something is scheduled."""
        if self._handle is not None:
            self._handle.cancel()
        self._handle, self._set_for = None, float("inf")

    def _set(self) -> None:
        at = self._queue.next_at()
        self.close()
        if at is not None:
            self._set_for = at
            self._handle = self._loop.call_at(at, self._fire)

    def _fire(self) -> None:
        self._handle, self._set_for = None, float("inf")
        keys = self._queue.pop_due(self._loop.time())
        try:
            if keys:
                self._due(keys)
        finally:
            self._set()


class Sleeper(Hashable, Protocol):
    """A key with a method to call when it is due."""

    def wake(self) -> None: ...


class Alarm:
    """A function as a key, for objects with more than one timer."""

    __slots__ = ("wake",)

    def __init__(self, wake: Callable[[], None]) -> None:
        self.wake = wake


def alarms(loop: asyncio.AbstractEventLoop) -> Timers[Sleeper]:
    """Timers that call `wake`, each in a call of its own: one that raises stops no other."""

    def wake(due: list[Sleeper]) -> None:
        for sleeper in due:
            loop.call_soon(sleeper.wake)

    return Timers(loop, wake)

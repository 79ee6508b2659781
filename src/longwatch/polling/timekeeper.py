"""One task that waits for whatever is due next, however many keys there are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from contextvars import Context
from typing import Generic, TypeVar

from longwatch.polling.due import DueQueue

K = TypeVar("K", bound=Hashable)


class Timekeeper(Generic[K]):
    """Calls `fall_due` for each key when its moment has come, on the event loop's clock.

    The task lives only while something is scheduled. If somebody else cancels it, which is what happens to
    every task when an event loop is shut down, `going_down` is called.
    """

    def __init__(self, fall_due: Callable[[K], None], *, going_down: Callable[[], None]) -> None:
        self._fall_due = fall_due
        self._going_down = going_down
        self._due: DueQueue[K] = DueQueue()
        self._alarm: asyncio.Future[None] | None = None
        self._alarm_at = 0.0
        self.task: asyncio.Task[None] | None = None

    def schedule(self, key: K, at: float) -> None:
        """Let the key fall due at this moment, instead of any that was set before."""
        self._due.schedule(key, at)
        if self.task is None or self.task.done():
            loop = asyncio.get_running_loop()
            self.task = loop.create_task(self._run(loop), name="longwatch-polling", context=Context())
            # A callback: a task that is cancelled before its first step reaches no `except` of its own.
            self.task.add_done_callback(self._ended, context=Context())
        elif self._alarm is not None and at < self._alarm_at:
            _ring(self._alarm)

    def cancel(self, key: K) -> bool:
        """Let the key not fall due. False if it was not going to."""
        cancelled = self._due.cancel(key)
        if cancelled and not self._due and self._alarm is not None:
            _ring(self._alarm)  # nothing is left to wait for, so the task ends
        return cancelled

    def close(self) -> None:
        """Let nothing fall due any more."""
        self._due = DueQueue()
        task, self.task = self.task, None
        if task is not None:
            task.cancel()

    async def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while (at := self._due.next_at()) is not None:
            if at > loop.time():
                await self._until(at, loop)
            for key in self._due.pop_due(loop.time()):
                self._fall_due(key)
        self.task = None  # at once: whoever schedules next needs a new one

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self.task is not task:
            return  # it had nothing left to do, or was closed
        self.task = None
        if task.cancelled():
            self._going_down()

    async def _until(self, at: float, loop: asyncio.AbstractEventLoop) -> None:
        self._alarm, self._alarm_at = loop.create_future(), at
        timer = loop.call_at(at, _ring, self._alarm)
        try:
            await self._alarm
        finally:
            self._alarm = None
            timer.cancel()


def _ring(alarm: asyncio.Future[None]) -> None:
    if not alarm.done():
        alarm.set_result(None)

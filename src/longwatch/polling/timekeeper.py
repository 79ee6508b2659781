"""One task that waits for the next due time of any number of keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from contextvars import Context
from typing import Generic, TypeVar

from longwatch.polling.due import DueQueue

K = TypeVar("K", bound=Hashable)


class Timekeeper(Generic[K]):
    """Calls `fall_due` with each key at its due time, on the event loop's clock.

    The task exists only while something is scheduled. If it is cancelled from outside, as happens to every
    task when an event loop shuts down, `on_shutdown` is called.
    """

    def __init__(self, fall_due: Callable[[K], None], *, on_shutdown: Callable[[], None]) -> None:
        self._fall_due = fall_due
        self._on_shutdown = on_shutdown
        self._due: DueQueue[K] = DueQueue()
        self._alarm: asyncio.Future[None] | None = None
        self._alarm_at = 0.0
        self.task: asyncio.Task[None] | None = None

    def schedule(self, key: K, at: float) -> None:
        """Set the due time of the key, replacing an earlier one."""
        self._due.schedule(key, at)
        if self.task is None or self.task.done():
            loop = asyncio.get_running_loop()
            self.task = loop.create_task(self._run(loop), name="longwatch-polling", context=Context())
            # A callback: a task that is cancelled before its first step reaches no `except` of its own.
            self.task.add_done_callback(self._ended, context=Context())
        elif self._alarm is not None and at < self._alarm_at:
            _wake(self._alarm)

    def cancel(self, key: K) -> bool:
        """Remove the due time of the key. False if it had none."""
        cancelled = self._due.cancel(key)
        if cancelled and not self._due and self._alarm is not None:
            _wake(self._alarm)  # nothing is left to wait for, so the task ends
        return cancelled

    def close(self) -> None:
        """Remove all due times and end the task."""
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
        self.task = None  # immediately: the next `schedule` needs a new task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self.task is not task:
            return  # the task had nothing left to do, or was closed
        self.task = None
        if task.cancelled():
            self._on_shutdown()

    async def _until(self, at: float, loop: asyncio.AbstractEventLoop) -> None:
        self._alarm, self._alarm_at = loop.create_future(), at
        timer = loop.call_at(at, _wake, self._alarm)
        try:
            await self._alarm
        finally:
            self._alarm = None
            timer.cancel()


def _wake(alarm: asyncio.Future[None]) -> None:
    if not alarm.done():
        alarm.set_result(None)

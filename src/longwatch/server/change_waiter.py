"""Waits in an event loop until any process may have written to a store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from longwatch.storage.change_signal import ChangeSignal, Subscribe

POST_WRITE_SECONDS = 0.3  # after which a write that inotify reported early is readable

RunSubscribe = Callable[[Callable[[], ChangeSignal]], Awaitable[ChangeSignal]]


class ChangeWaiter:
    """Remembers a change until `wait` returns it. Belongs to one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._signal: ChangeSignal | None = None
        self._timers: list[asyncio.TimerHandle] = []

    @classmethod
    @asynccontextmanager
    async def open(cls, subscribe: Subscribe, run_in_thread: RunSubscribe) -> AsyncIterator[ChangeWaiter]:
        """Subscribe to a store until the block is left. Subscribing may block, so a thread does it."""
        changes = cls()
        opening = asyncio.ensure_future(run_in_thread(lambda: subscribe(changes.notify)))
        try:
            changes._start(await asyncio.shield(opening))
            yield changes
        finally:
            changes._close()
            if not opening.done():  # cancelled while it was being opened
                opening.add_done_callback(_close_unused)

    async def wait(self, timeout_seconds: float | None = None) -> bool:
        """Return True once there was a change since the last call; False if the time is up before."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True

    def notify(self) -> None:
        """Report a change, from any thread."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._event.set)

    def _start(self, signal: ChangeSignal) -> None:
        self._signal = signal
        if signal.descriptor is not None:
            self._loop.add_reader(signal.descriptor, self._on_descriptor)
        self._schedule_check()

    def _close(self) -> None:
        signal, self._signal = self._signal, None
        for timer in self._timers:
            timer.cancel()
        if signal is not None:
            if signal.descriptor is not None:
                self._loop.remove_reader(signal.descriptor)
            signal.close()

    def _on_descriptor(self) -> None:
        if self._signal is not None and self._signal.drain():
            self._event.set()
            self._call_later(POST_WRITE_SECONDS, self._event.set)

    def _on_check(self) -> None:
        if self._signal is not None:
            if self._signal.changed():
                self._event.set()
            self._schedule_check()

    def _schedule_check(self) -> None:
        if self._signal is not None and self._signal.check_seconds is not None:
            self._call_later(self._signal.check_seconds, self._on_check)

    def _call_later(self, seconds: float, call: Callable[[], None]) -> None:
        now = self._loop.time()
        self._timers = [timer for timer in self._timers if timer.when() > now and not timer.cancelled()]
        self._timers.append(self._loop.call_later(seconds, call))


def _close_unused(opening: asyncio.Future[ChangeSignal]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()

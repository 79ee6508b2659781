"""Waits until something may have been written to a store, by whichever process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from longwatch.storage.change_signal import ChangeSignal

AGAIN_SECONDS = 0.3  # a store may tell a little before what was written can be read

Subscribe = Callable[[Callable[[], None]], ChangeSignal]
RunInThread = Callable[[Callable[[], ChangeSignal]], Awaitable[ChangeSignal]]


class ChangeWaiter:
    """Remembers that something was heard until somebody asks."""

    def __init__(self, listening: ChangeSignal | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._listening = listening
        self._timers: list[asyncio.TimerHandle] = []

    async def wait(self) -> None:
        """Until something was heard since the last time."""
        await self._event.wait()
        self._event.clear()

    def heard(self) -> None:
        """From any thread."""
        with suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(self._event.set)

    def begin(self, listening: ChangeSignal) -> None:
        """Hear what this tells of other processes, too."""
        self._listening = listening
        if listening.descriptor is not None:
            self._loop.add_reader(listening.descriptor, self._on_descriptor)
        self._plan_check()

    def close(self) -> None:
        """Hear nothing any more."""
        listening, self._listening = self._listening, None
        for timer in self._timers:
            timer.cancel()
        if listening is not None:
            if listening.descriptor is not None:
                self._loop.remove_reader(listening.descriptor)
            listening.close()

    def _on_descriptor(self) -> None:
        if self._listening is not None and self._listening.told():
            self._event.set()
            self._later(AGAIN_SECONDS, self._event.set)

    def _on_check(self) -> None:
        if self._listening is not None:
            if self._listening.changed():
                self._event.set()
            self._plan_check()

    def _plan_check(self) -> None:
        if self._listening is not None and self._listening.check_seconds is not None:
            self._later(self._listening.check_seconds, self._on_check)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        now = self._loop.time()
        self._timers = [timer for timer in self._timers if timer.when() > now and not timer.cancelled()]
        self._timers.append(self._loop.call_later(seconds, call))


@asynccontextmanager
async def hearing(listen: Subscribe, call: RunInThread) -> AsyncIterator[ChangeWaiter]:
    """Hears until the block is left. `call` calls what may block, in a thread."""
    ear = ChangeWaiter()
    opening = asyncio.ensure_future(call(lambda: listen(ear.heard)))
    try:
        ear.begin(await asyncio.shield(opening))
        yield ear
    finally:
        ear.close()
        if not opening.done():  # given up while it was being opened
            opening.add_done_callback(_let_go)


def _let_go(opening: asyncio.Future[ChangeSignal]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()

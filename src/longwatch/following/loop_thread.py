"""A daemon thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any


class LoopThread:
    """Runs an event loop until it is told to end. Its tasks are waited for, then `at_end` is called in it."""

    def __init__(
        self, name: str, *, make_loop: Callable[[], asyncio.AbstractEventLoop], at_end: Callable[[], None]
    ) -> None:
        self.loop = make_loop()
        self._at_end = at_end
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self.loop.close()
            raise

    @property
    def is_current(self) -> bool:
        """Whether this is called in it."""
        return threading.current_thread() is self._thread

    def soon(self, call: Callable[..., object], *args: Any) -> None:
        """From any thread: call this in the loop, if there still is one."""
        with suppress(RuntimeError):  # it is closed
            self.loop.call_soon_threadsafe(call, *args)

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        """In the loop: a task that is waited for at the end."""
        task = self.loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def end(self) -> None:
        """From any thread: begin nothing any more."""
        self.soon(self.loop.stop)

    def join(self, timeout_seconds: float) -> bool:
        """Wait for the end of the thread; False if it takes longer, or is the one that asks."""
        if self.is_current:
            return False
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        self.loop.set_exception_handler(_unexpected)
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(self._finish())
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            self.loop.close()
            self._at_end()

    async def _finish(self) -> None:
        while self._tasks:  # looked at in here: a task may end just before this begins
            await asyncio.wait(tuple(self._tasks))


def _unexpected(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # A program that ends meanwhile takes thread pools away from under this thread, which is no news.
    if threading.main_thread().is_alive():
        loop.default_exception_handler(context)

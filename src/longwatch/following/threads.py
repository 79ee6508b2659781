"""Where a hub calls its blocking journal: threads of its own, or an executor that it was given."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import TypeVar

from longwatch.following.workers import Workers

T = TypeVar("T")

PATIENCE_SECONDS = 0.5  # with calls that are under way when a hub is closed


class Threads:
    """Two small pools: reading long histories must not delay the looks that everybody shares."""

    def __init__(self, executor: Executor | None, *, looks: int, histories: int) -> None:
        self._own: list[Workers] = []
        self._looks = executor or self._begin(looks, "longwatch-look")
        self._histories = executor or self._begin(histories, "longwatch-history")

    def _begin(self, most: int, name: str) -> Workers:
        workers = Workers(most, name=name)
        self._own.append(workers)
        return workers

    def look(self, call: Callable[[], None]) -> None:
        """Call this in a thread. It has to see to its answer itself, and must not raise."""
        self._looks.submit(call)

    def history(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Call this in a thread. Whoever no longer wants the answer may just leave it."""
        future: Future[T] = self._histories.submit(call)
        answer = asyncio.wrap_future(future)
        answer.add_done_callback(_retrieve)
        return answer

    async def aclose(self) -> bool:
        """End the threads. False: the journal has not answered for a while, and some are left to it."""
        for pool in self._own:
            pool.shutdown(wait=False, cancel_futures=True)
        if self._own:
            await in_a_thread(self._wait)
        return all(pool.wait(0) for pool in self._own)

    def _wait(self) -> None:
        for pool in self._own:
            pool.wait(PATIENCE_SECONDS)


async def in_a_thread(call: Callable[[], None]) -> None:
    """Call this in a thread of its own: asyncio's helpers would leave one behind."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def run() -> None:
        try:
            call()
        finally:
            with suppress(RuntimeError):  # the loop was closed before
                loop.call_soon_threadsafe(_set, ended)

    thread = threading.Thread(target=run, name="longwatch-closing")
    thread.start()
    await asyncio.shield(ended)
    thread.join()


def _set(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


def _retrieve(answer: asyncio.Future[T]) -> None:
    """Take the exception of an answer that nobody may come for, so that asyncio does not complain."""
    if not answer.cancelled():
        answer.exception()

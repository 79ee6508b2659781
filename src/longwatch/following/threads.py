"""Where a hub calls its blocking journal: threads of its own, or an executor that it was given."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class Threads:
    """Two small pools: reading long histories must not delay the looks that everybody shares."""

    def __init__(self, executor: Executor | None, *, looks: int, histories: int) -> None:
        self._given = executor is not None
        self._looks = executor or ThreadPoolExecutor(looks, thread_name_prefix="longwatch-look")
        self._histories = executor or ThreadPoolExecutor(histories, thread_name_prefix="longwatch-history")

    def look(self, call: Callable[[], None]) -> None:
        """Call this in a thread. It has to see to its answer itself, and must not raise."""
        self._looks.submit(call)

    def history(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Call this in a thread. Whoever no longer wants the answer may just leave it."""
        future: Future[T] = self._histories.submit(call)
        answer = asyncio.wrap_future(future)
        answer.add_done_callback(_retrieve)
        return answer

    async def aclose(self) -> None:
        """End the threads, after the calls that are under way."""
        if not self._given:
            await in_a_thread(self._shut_down)

    def _shut_down(self) -> None:
        for pool in (self._looks, self._histories):
            pool.shutdown(cancel_futures=True)


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

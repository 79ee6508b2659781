"""Threads of a hub: a pool for its blocking journal, and a loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from longwatch.clock import SYSTEM_CLOCK


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


P = ParamSpec("P")
T = TypeVar("T")

_Call = tuple[Future[Any], Callable[[], Any]]


class Workers(Executor):
    """Up to `most` daemon threads, started as they are needed.

    The threads of the standard library's pool are waited for when the interpreter ends, whatever they do.
    """

    def __init__(self, most: int, *, name: str) -> None:
        self._most = most
        self._name = name
        self._calls = SimpleQueue[_Call | None]()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._is_closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            if self._is_closed:
                raise RuntimeError("cannot submit after shutdown")
            self._calls.put((future, lambda: fn(*args, **kwargs)))
            if self._idle:
                self._idle -= 1  # that one is promised to this call
            elif len(self._threads) < self._most:
                self._start()
        return future

    def _start(self) -> None:
        name = f"{self._name}_{len(self._threads)}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            _carry_out(*call)
            del call  # or it would hold on to its answer until the next one comes
            with self._lock:
                if self._calls.empty():
                    self._idle += 1
        self._calls.put(None)  # for the next thread

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads after what was submitted, or with `cancel_futures` after what is under way."""
        with self._lock:
            self._is_closed = True
        if cancel_futures:
            self._cancel()
        self._calls.put(None)
        if wait:
            self.wait(None)

    def wait(self, seconds: float | None) -> bool:
        """Wait for the threads to end. False: some call is still under way."""
        deadline = None if seconds is None else SYSTEM_CLOCK.monotonic() + seconds
        for thread in self._threads:
            thread.join(None if deadline is None else max(0.0, deadline - SYSTEM_CLOCK.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _cancel(self) -> None:
        while not self._calls.empty():
            call = self._calls.get()
            if call is not None:
                call[0].cancel()


def _carry_out(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        answer = call()
    except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the answer
        future.set_exception(error)
    else:
        future.set_result(answer)


PATIENCE_SECONDS = 0.5  # with calls that are under way when a hub is closed


class Threads:
    """Two small pools: reading long histories must not delay the looks that everybody shares."""

    def __init__(
        self,
        executor: Executor | None,
        *,
        looks: int,
        histories: int,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        self.report: Callable[[Exception], None] = on_failure or (lambda error: None)
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
        future: Future[T] = self._histories.submit(self.attempt, call)
        answer = asyncio.wrap_future(future)
        answer.add_done_callback(_retrieve)
        return answer

    def attempt(self, call: Callable[[], T]) -> T:
        """In a thread: make a call, and report its failure before it is handled."""
        try:
            return call()
        except Exception as error:
            self.report(error)
            raise

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

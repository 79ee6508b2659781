"""HubThreads of a hub: a pool for its blocking journal, and a loop in a thread of its own."""

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
    """Runs an event loop until `end` is called. It waits for its tasks, then calls `at_end` in the thread."""

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
        """Whether the calling thread is this one."""
        return threading.current_thread() is self._thread

    def soon(self, call: Callable[..., object], *args: Any) -> None:
        """From any thread: call this in the loop, unless it is closed."""
        with suppress(RuntimeError):  # it is closed
            self.loop.call_soon_threadsafe(call, *args)

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        """In the loop: start a task that the end waits for."""
        task = self.loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def end(self) -> None:
        """From any thread: stop the loop."""
        self.soon(self.loop.stop)

    def join(self, timeout_seconds: float) -> bool:
        """Wait for the end of the thread; False if it takes longer, or is the calling one."""
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
        while self._tasks:  # checked in the loop: a task may end just before this starts
            await asyncio.wait(tuple(self._tasks))


def _unexpected(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # When the program exits, thread pools disappear under this thread: such errors are expected.
    if threading.main_thread().is_alive():
        loop.default_exception_handler(context)


P = ParamSpec("P")
T = TypeVar("T")

_Call = tuple[Future[Any], Callable[[], Any]]


class DaemonPool(Executor):
    """Up to `most` daemon threads, started when needed.

    The interpreter waits at exit for the threads of the standard library's pool, even for one that hangs.
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
            del call  # or it would keep its result in memory until the next call
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
        result = call()
    except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
        future.set_exception(error)
    else:
        future.set_result(result)


CLOSE_SECONDS = 0.5  # for calls that are under way when a hub is closed


class HubThreads:
    """Two small pools: reading long histories must not delay the polls that all followers share."""

    def __init__(
        self,
        executor: Executor | None,
        *,
        polls: int,
        histories: int,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        self.report: Callable[[Exception], None] = on_failure or (lambda error: None)
        self._own: list[DaemonPool] = []
        self._polls = executor or self._start_pool(polls, "longwatch-poll")
        self._histories = executor or self._start_pool(histories, "longwatch-history")

    def _start_pool(self, most: int, name: str) -> DaemonPool:
        workers = DaemonPool(most, name=name)
        self._own.append(workers)
        return workers

    def poll(self, call: Callable[[], None]) -> None:
        """Call this in a thread. It has to deliver its result itself, and must not raise."""
        self._polls.submit(call)

    def history(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Call this in a thread. A caller that no longer needs the result may drop the future."""
        future: Future[T] = self._histories.submit(self.attempt, call)
        result = asyncio.wrap_future(future)
        result.add_done_callback(_retrieve)
        return result

    def attempt(self, call: Callable[[], T]) -> T:
        """In a thread: make a call, and report its failure before it is handled."""
        try:
            return call()
        except Exception as error:
            self.report(error)
            raise

    async def aclose(self) -> bool:
        """End the threads. False: the journal does not respond, and some threads still wait for it."""
        for pool in self._own:
            pool.shutdown(wait=False, cancel_futures=True)
        if self._own:
            await run_in_thread(self._wait)
        return all(pool.wait(0) for pool in self._own)

    def _wait(self) -> None:
        for pool in self._own:
            pool.wait(CLOSE_SECONDS)


async def run_in_thread(call: Callable[[], None]) -> None:
    """Call this in a thread of its own: asyncio's helpers would leave one running."""
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


def _retrieve(result: asyncio.Future[T]) -> None:
    """Retrieve the exception of a future that may have been dropped, so that asyncio does not log it."""
    if not result.cancelled():
        result.exception()

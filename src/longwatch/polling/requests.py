"""Requests of the polling manager: a limited number in flight, in order of arrival, with metrics."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from longwatch.errors import Unreachable, WorthAnotherTry

LAG_WINDOW = 1024  # polls

Poll = Callable[[], Any]  # returns the result, or an awaitable of it
Caller = tuple[Poll, Context]  # what to call, and in which context


def is_async(poll: Poll) -> bool:
    """Whether `poll` is a coroutine function, which is called on the event loop."""
    return inspect.iscoroutinefunction(poll) or inspect.iscoroutinefunction(getattr(poll, "__call__", None))  # noqa: B004


async def call_poll(
    key: Hashable, poll: Poll, threads: Callable[[], Executor], timeout_seconds: float | None
) -> Any:
    """Call the poll and wait for its result, in a thread unless it is a coroutine function."""
    try:
        if is_async(poll):
            return await _await_result(key, poll(), timeout_seconds)
        loop = asyncio.get_running_loop()
        result = await loop.run_in_executor(threads(), partial(copy_context().run, _call_in_thread, poll))
        if inspect.isawaitable(result):  # a lambda around a coroutine function, say
            return await _await_result(key, result, timeout_seconds)
        return result
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise WorthAnotherTry(f"The poll of {key!r} cancelled itself; it counts as failed.") from error


async def _await_result(key: Hashable, result: Awaitable[Any], timeout_seconds: float | None) -> Any:
    scope = asyncio.timeout(timeout_seconds)
    try:
        async with scope:
            return await result
    except TimeoutError as error:
        if not scope.expired():
            raise  # the poll's own
        raise Unreachable(
            f"The poll of {key!r} returned no result within {timeout_seconds:g} s. "
            "If it may take longer, pass a larger timeout_seconds to PollingManager."
        ) from error


def _call_in_thread(poll: Poll) -> Any:
    try:
        return poll()
    except StopIteration as error:  # a future cannot hold one, and would never finish
        raise RuntimeError("The poll raised StopIteration.") from error


@dataclass(frozen=True, slots=True)
class Lag:
    """How long after its due time a poll started, in seconds; `p50` and `p99` cover the last 1,024 polls."""

    last: float = 0.0
    most: float = 0.0
    p50: float = 0.0
    p99: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """A snapshot of the counters of a polling manager."""

    calls: int  # polls started
    cache_hits: int  # results from the cache, without a poll
    shared: int  # waited for a poll that another caller had started
    failures: int  # polls that raised or took too long
    in_flight: int
    queued: int  # due, and waiting for a request in flight to end
    keys: int
    subscribers: int
    lag: Lag


class LagWindow:
    """The last lags, in bounded memory."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=LAG_WINDOW)
        self._most = 0.0

    def add(self, seconds: float) -> None:
        self._recent.append(seconds)
        self._most = max(self._most, seconds)

    def lag(self) -> Lag:
        if not self._recent:
            return Lag()
        ordered = sorted(self._recent)
        return Lag(self._recent[-1], self._most, _percentile(ordered, 0.50), _percentile(ordered, 0.99))


def _percentile(ordered: list[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(slots=True, eq=False)
class Request:
    """One call of a poll, in flight or waiting for its turn."""

    key: Hashable
    due_at: float
    source: Callable[[Request], Caller]  # called when it starts: by then a subscriber may have left
    on_end: Callable[[Request, Any, Exception | None], None]  # receives the result or the exception
    offer: Caller | None = None  # of a caller that waits without subscribing
    waiters: list[asyncio.Future[Any]] = field(default_factory=list)
    started_at: float = 0.0
    task: asyncio.Task[Any] | None = None  # None: queued
    stoppable: bool = True  # False: it runs in a thread, which cannot be stopped
    withdrawn: bool = False


class RequestQueue:
    """Starts requests in order of arrival, at most `max_concurrent` at a time.

    If a request is cancelled from outside, as happens to every task when an event loop shuts down,
    `on_shutdown` is called, and nothing more is started.
    """

    def __init__(
        self, *, max_concurrent: int, timeout_seconds: float | None, on_shutdown: Callable[[], None]
    ) -> None:
        self._max_concurrent = max_concurrent
        self._timeout_seconds = timeout_seconds
        self._on_shutdown = on_shutdown
        self._queued: OrderedDict[Request, None] = OrderedDict()
        self._in_flight: set[Request] = set()
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False
        self.calls = 0
        self.lags = LagWindow()

    @property
    def queued(self) -> int:
        return len(self._queued)

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def tasks(self) -> list[asyncio.Task[Any]]:
        """The tasks of the requests in flight."""
        return [request.task for request in self._in_flight if request.task is not None]

    def add(self, request: Request) -> None:
        """Start the request when its turn comes, possibly now."""
        self._queued[request] = None
        self._start()

    def withdraw(self, request: Request) -> None:
        """Cancel a request whose result is no longer wanted. A thread occupies its place until it returns."""
        request.withdrawn = True
        if request.task is None:
            self._queued.pop(request, None)
        elif request.stoppable:
            _cancel(request.task)

    def close(self) -> Iterable[Request]:
        """Withdraw all requests; returns those that were queued or in flight."""
        self._closed = True
        everything = [*self._in_flight, *self._queued]
        self._queued.clear()
        for request in self._in_flight:
            if request.task is not None:
                _cancel(request.task)
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        return everything

    def _start(self) -> None:
        loop = asyncio.get_running_loop()
        while self._queued and len(self._in_flight) < self._max_concurrent and not self._closed:
            request, _ = self._queued.popitem(last=False)
            poll, context = request.source(request)
            request.started_at = loop.time()
            request.stoppable = is_async(poll)
            self.calls += 1
            self.lags.add(max(0.0, request.started_at - request.due_at))
            self._in_flight.add(request)
            request.task = loop.create_task(
                call_poll(request.key, poll, self._executor, self._timeout_seconds), context=context.copy()
            )
            # A callback rather than the end of a coroutine: a coroutine that is cancelled before its first
            # step never gets there.
            request.task.add_done_callback(partial(self._done, request), context=Context())

    def _done(self, request: Request, task: asyncio.Task[Any]) -> None:
        self._in_flight.discard(request)
        error = None if task.cancelled() else task.exception()
        if self._closed:
            return
        if (task.cancelled() and not request.withdrawn) or _ends_the_process(error):
            self._on_shutdown()
            return
        self._start()
        if request.withdrawn:
            return
        if isinstance(error, Exception):
            request.on_end(request, None, error)
        else:
            request.on_end(request, task.result(), None)

    def _executor(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._max_concurrent, thread_name_prefix="longwatch-poll")
        return self._threads


def _cancel(task: asyncio.Task[Any]) -> None:
    if not task.cancelling():  # a second cancellation would disturb its clean-up
        task.cancel()


def _ends_the_process(error: BaseException | None) -> bool:
    """Whether this is KeyboardInterrupt or the like, which the event loop has already raised."""
    return error is not None and not isinstance(error, Exception)

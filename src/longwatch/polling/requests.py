"""Requests under way: at most so many at a time, first come, first served, with their metrics."""

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


def is_async(poll: Callable[[], Any]) -> bool:
    """Whether calling it gives a coroutine at once, so that it may be called on the loop."""
    return inspect.iscoroutinefunction(poll) or inspect.iscoroutinefunction(getattr(poll, "__call__", None))  # noqa: B004


async def ask(
    key: Hashable, poll: Callable[[], Any], threads: Callable[[], Executor], timeout_seconds: float | None
) -> Any:
    """Call the poll and wait for its answer, in a thread if it would block the loop."""
    try:
        if is_async(poll):
            return await _in_time(key, poll(), timeout_seconds)
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(threads(), partial(copy_context().run, _called, poll))
        if inspect.isawaitable(answer):  # a lambda around a coroutine function, say
            return await _in_time(key, answer, timeout_seconds)
        return answer
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise WorthAnotherTry(
            f"The poll of {key!r} was cancelled from inside; nobody here asked it to."
        ) from error


async def _in_time(key: Hashable, answer: Awaitable[Any], timeout_seconds: float | None) -> Any:
    scope = asyncio.timeout(timeout_seconds)
    try:
        async with scope:
            return await answer
    except TimeoutError as error:
        if not scope.expired():
            raise  # the poll's own
        raise Unreachable(
            f"The poll of {key!r} gave no answer in {timeout_seconds:g} s. "
            "If it may take longer, give the PollingManager another timeout_seconds."
        ) from error


def _called(poll: Callable[[], Any]) -> Any:
    try:
        return poll()
    except StopIteration as error:  # a future cannot hold one, and would wait for ever
        raise RuntimeError("the poll raised StopIteration") from error


LAG_WINDOW = 1024  # polls


@dataclass(frozen=True, slots=True)
class Lag:
    """How long after its moment a poll began, in seconds; `p50` and `p99` are of the last 1,024 polls."""

    last: float = 0.0
    most: float = 0.0
    p50: float = 0.0
    p99: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """A look at the counters of a polling manager."""

    calls: int  # polls begun
    cache_hits: int  # answered from the cache, without a poll
    shared: int  # waited for a poll that somebody else had asked for
    failures: int  # polls that raised or took too long
    in_flight: int
    queued: int  # due, and waiting for one of the others to end
    keys: int
    subscribers: int
    lag: Lag


class LagWindow:
    """Remembers the last lags, in bounded memory."""

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


Poll = Callable[[], Any]  # gives the answer, or an awaitable of it
Caller = tuple[Poll, Context]  # what to call, and in which context


@dataclass(slots=True, eq=False)
class Request:
    """One call of a poll, in flight or waiting for its turn."""

    key: Hashable
    due_at: float
    source: Callable[[Request], Caller]  # asked when it starts: by then a subscriber may have left
    ended: Callable[[Request, Any, Exception | None], None]  # gets the answer, or what was raised instead
    offer: Caller | None = None  # of somebody who waits without subscribing
    waiters: list[asyncio.Future[Any]] = field(default_factory=list)
    started_at: float = 0.0
    task: asyncio.Task[Any] | None = None  # None: queued
    stoppable: bool = True  # False: it runs in a thread, which nobody can stop
    given_up: bool = False


class RequestQueue:
    """Starts requests in the order in which they came, as soon as there is room.

    If somebody else cancels one, which happens to every task when an event loop is shut down, `going_down` is
    called, and nothing more is started.
    """

    def __init__(self, *, room: int, timeout_seconds: float | None, going_down: Callable[[], None]) -> None:
        self._room = room
        self._timeout_seconds = timeout_seconds
        self._going_down = going_down
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
        """Of what is in flight."""
        return [request.task for request in self._in_flight if request.task is not None]

    def add(self, request: Request) -> None:
        """Start the request when its turn has come, which may be now."""
        self._queued[request] = None
        self._start()

    def withdraw(self, request: Request) -> None:
        """Nobody wants the answer any more. A thread keeps its place until it is done."""
        request.given_up = True
        if request.task is None:
            self._queued.pop(request, None)
        elif request.stoppable:
            _cancel(request.task)

    def close(self) -> Iterable[Request]:
        """Withdraw everything; returns what was queued or in flight."""
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
        while self._queued and len(self._in_flight) < self._room and not self._closed:
            request, _ = self._queued.popitem(last=False)
            poll, context = request.source(request)
            request.started_at = loop.time()
            request.stoppable = is_async(poll)
            self.calls += 1
            self.lags.add(max(0.0, request.started_at - request.due_at))
            self._in_flight.add(request)
            request.task = loop.create_task(
                ask(request.key, poll, self._executor, self._timeout_seconds), context=context.copy()
            )
            # A callback rather than the end of a coroutine: one that is cancelled before its first step
            # never gets there.
            request.task.add_done_callback(partial(self._done, request), context=Context())

    def _done(self, request: Request, task: asyncio.Task[Any]) -> None:
        self._in_flight.discard(request)
        error = None if task.cancelled() else task.exception()
        if self._closed:
            return
        if (task.cancelled() and not request.given_up) or _ends_the_process(error):
            self._going_down()
            return
        self._start()
        if request.given_up:
            return
        if isinstance(error, Exception):
            request.ended(request, None, error)
        else:
            request.ended(request, task.result(), None)

    def _executor(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._room, thread_name_prefix="longwatch-poll")
        return self._threads


def _cancel(task: asyncio.Task[Any]) -> None:
    if not task.cancelling():  # a second time would disturb what it does to end in order
        task.cancel()


def _ends_the_process(error: BaseException | None) -> bool:
    """KeyboardInterrupt and the like, which the event loop has already passed on."""
    return error is not None and not isinstance(error, Exception)

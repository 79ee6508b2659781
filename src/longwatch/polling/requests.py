"""Requests under way: at most so many at a time, first come, first served."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from longwatch.polling.asking import ask, is_async
from longwatch.polling.metrics import LagWindow

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

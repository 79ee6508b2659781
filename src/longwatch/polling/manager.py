"""The polling manager: many polls in one event loop, shared, cached, limited and fair.

One queue holds the due times of all keys, and one task waits for the next of them. Each request in flight, of
which there are at most three, is one more task. While nothing is scheduled there is no task at all.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextvars import Context, copy_context
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from longwatch.errors import InvalidInput, NotWorthAnotherTry
from longwatch.polling.backoff import REQUEST_BACKOFF, Backoff
from longwatch.polling.requests import Caller, Metrics, Poll, Request, RequestQueue
from longwatch.polling.schedules import Cadence, schedule_for
from longwatch.polling.shared_poll import OnError, OnResult, Registration, SharedPoll, Subscriber
from longwatch.polling.timekeeper import Timekeeper

log = logging.getLogger("longwatch")

MAX_CONCURRENT = 3  # requests in flight
CACHE_SECONDS = 0.5
TIMEOUT_SECONDS = 30.0  # three polls that never return would stop all the others

T = TypeVar("T")


class PollingManager:
    """Polls on behalf of subscribers. It belongs to the event loop in which it is first used."""

    def __init__(
        self,
        *,
        max_concurrent: int = MAX_CONCURRENT,
        cache_seconds: float = CACHE_SECONDS,
        backoff: Backoff = REQUEST_BACKOFF,
        timeout_seconds: float | None = TIMEOUT_SECONDS,
        draw: Callable[[], float] = random.random,
    ) -> None:
        if max_concurrent < 1:
            raise InvalidInput(f"Invalid max_concurrent {max_concurrent}. Use 1 or more.")
        self._cache_seconds = cache_seconds
        self._backoff = backoff
        self._draw = draw
        self._loop: asyncio.AbstractEventLoop | None = None
        self._polls: dict[Hashable, SharedPoll] = {}
        self._timekeeper: Timekeeper[Hashable] = Timekeeper(self._fall_due, on_shutdown=self.close)
        self._requests = RequestQueue(
            max_concurrent=max_concurrent, timeout_seconds=timeout_seconds, on_shutdown=self.close
        )
        self._paused_at: float | None = None
        self._paused_seconds = 0.0
        self._closed = False
        self._hits = self._shares = self._failures = 0

    @overload
    def register(
        self,
        key: Hashable,
        poll: Callable[[], Awaitable[T]],
        interval: float | None = None,
        *,
        on_result: Callable[[T], object] | None = None,
        on_error: OnError | None = None,
    ) -> Registration: ...
    @overload
    def register(
        self,
        key: Hashable,
        poll: Callable[[], T],
        interval: float | None = None,
        *,
        on_result: Callable[[T], object] | None = None,
        on_error: OnError | None = None,
    ) -> Registration: ...
    def register(
        self,
        key: Hashable,
        poll: Poll,
        interval: float | None = None,
        *,
        on_result: OnResult | None = None,
        on_error: OnError | None = None,
    ) -> Registration:
        """Poll now and then every `interval` seconds, or on the ramp if no interval is given.

        Subscribers of one key share one poll, at the shortest of their intervals. If the cache holds a result
        for the key, the subscriber receives that one, without a poll.
        """
        loop = self._here()
        schedule_for(interval)  # rejects an invalid interval before anything has changed
        shared = self._polls.get(key) or SharedPoll(key, self._backoff)
        subscriber = Subscriber(shared, poll, interval, on_result, on_error)
        shared.join(subscriber, self._active_time())
        self._polls[key] = shared
        if shared.result is not None and self._is_fresh(shared):
            self._hits += 1
            loop.call_soon(subscriber.catch_up, shared.result.value, context=Context())
            self._plan(shared)
        elif shared.request is not None:
            self._shares += 1
        else:
            self._poll_now(shared)
        return Registration(subscriber, self._leave)

    def unregister(self, which: Hashable | Registration) -> None:
        """Remove this subscriber, or the latest subscriber of a key. Without subscribers the poll ends.

        A request in flight is then cancelled and its result dropped. Removing a subscriber again does
        nothing.
        """
        if isinstance(which, Registration):
            which.dispose()
        elif (shared := self._polls.get(which)) is not None and shared.subscribers:
            self._leave(next(reversed(shared.subscribers)))

    @overload
    async def fetch(self, key: Hashable, poll: Callable[[], Awaitable[T]]) -> T: ...
    @overload
    async def fetch(self, key: Hashable, poll: Callable[[], T]) -> T: ...
    async def fetch(self, key: Hashable, poll: Poll) -> Any:
        """Poll once, without a schedule. Concurrent callers and those within the cache time share the result.

        An exception of the poll is raised to each of them. A pause does not delay it.
        """
        loop = self._here()
        shared = self._polls.get(key)
        if shared is None:
            shared = self._polls[key] = SharedPoll(key, self._backoff)
        elif shared.result is not None and self._is_fresh(shared):
            self._hits += 1
            return shared.result.value
        offer = poll, copy_context()
        if shared.request is None:
            request = self._start_request(shared, self._now(), offer)
        else:
            self._shares += 1
            request = shared.request
            request.offer = request.offer or offer
        waiter: asyncio.Future[Any] = loop.create_future()
        request.waiters.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            request.waiters.remove(waiter)
            if waiter.done() and not waiter.cancelled():
                waiter.exception()  # retrieved, or asyncio would log that it never was
            self._release(shared, request)
            raise

    def pause(self) -> None:
        """Start no more polls. Requests in flight finish and are delivered; all states are retained."""
        if self._paused_at is not None:
            return
        self._here()
        self._paused_at = self._now()
        for shared in list(self._polls.values()):
            if shared.request is not None:
                self._release(shared, shared.request)
            elif shared.subscribers:
                self._timekeeper.cancel(shared.key)

    def resume(self) -> None:
        """Poll every key now, except those that fail: they wait for the rest of their backoff."""
        if self._paused_at is None:
            return
        self._here()
        self._paused_seconds += self._now() - self._paused_at
        self._paused_at = None
        for shared in sorted(self._polls.values(), key=lambda each: each.since):  # longest ago first
            if shared.subscribers and shared.request is None:
                self._poll_now(shared)

    def touch(self, key: Hashable | None = None) -> None:
        """Show interest in a key, or in all of them: a stopped poll polls now, and a ramp starts over."""
        self._here()
        chosen = self._polls.values() if key is None else filter(None, [self._polls.get(key)])
        for shared in list(chosen):
            stopped = shared.cadence.stopped
            shared.cadence = shared.cadence.after_activity(self._active_time())
            if shared.request is not None or not shared.subscribers:
                continue
            if stopped:
                self._poll_now(shared)
            else:
                self._plan(shared)

    def states(self) -> Mapping[Hashable, Cadence]:
        """The state of the poll of every key that has subscribers."""
        return {key: shared.cadence for key, shared in self._polls.items() if shared.subscribers}

    @property
    def metrics(self) -> Metrics:
        return Metrics(
            calls=self._requests.calls,
            cache_hits=self._hits,
            shared=self._shares,
            failures=self._failures,
            in_flight=self._requests.in_flight,
            queued=self._requests.queued,
            keys=len(self._polls),
            subscribers=sum(len(shared.subscribers) for shared in self._polls.values()),
            lag=self._requests.lags.lag(),
        )

    @property
    def is_paused(self) -> bool:
        return self._paused_at is not None

    @property
    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Cancel all requests and deliver nothing more."""
        if self._closed:
            return
        self._closed = True
        self._timekeeper.close()
        for request in self._requests.close():
            for waiter in request.waiters:
                if not waiter.done():
                    waiter.set_exception(_closed())
        for shared in self._polls.values():
            for subscriber in shared.subscribers:
                subscriber.active = False
        self._polls.clear()

    async def aclose(self) -> None:
        """Close, and wait until the last task has ended. A thread ends when its poll returns."""
        tasks = {*self._requests.tasks, self._timekeeper.task} - {None, asyncio.current_task()}
        self.close()
        if ending := [task for task in tasks if task is not None]:
            await asyncio.wait(ending)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _poll_now(self, shared: SharedPoll) -> None:
        """Poll now, unless the poll is paused, stopped or in backoff."""
        if self._paused_at is not None or shared.cadence.failures or shared.cadence.stopped:
            self._plan(shared)
        else:
            self._start_request(shared, self._now())

    def _plan(self, shared: SharedPoll) -> None:
        """Schedule the next poll of the key, or the moment at which its cached result expires."""
        if shared.request is not None:
            return  # planned when the request has ended
        shared.due_at = self._next_at(shared)
        if shared.due_at is None:
            self._timekeeper.cancel(shared.key)
        else:
            self._timekeeper.schedule(shared.key, shared.due_at)

    def _next_at(self, shared: SharedPoll) -> float | None:
        if not shared.subscribers:
            return shared.result.at + self._cache_seconds if shared.result is not None else self._now()
        delay = shared.cadence.next_delay
        if delay is None or self._paused_at is not None:
            return None
        return max(self._now(), shared.since + delay)

    def _fall_due(self, key: Hashable) -> None:
        shared = self._polls.get(key)
        if shared is None or shared.request is not None:
            return
        if shared.subscribers:
            self._start_request(shared, shared.due_at if shared.due_at is not None else self._now())
        else:
            del self._polls[key]

    def _start_request(self, shared: SharedPoll, due_at: float, offer: Caller | None = None) -> Request:
        self._timekeeper.cancel(shared.key)
        request = Request(shared.key, due_at, shared.source, partial(self._ended, shared), offer)
        shared.request = request
        self._requests.add(request)
        return request

    def _leave(self, subscriber: Subscriber) -> None:
        if not subscriber.active:
            return
        subscriber.active = False
        shared = subscriber.shared
        shared.leave(subscriber)
        if shared.subscribers:
            self._plan(shared)
            return
        self._timekeeper.cancel(shared.key)
        del self._polls[shared.key]
        if shared.request is not None:
            self._release(shared, shared.request)

    def _release(self, shared: SharedPoll, request: Request) -> None:
        """Withdraw a request that has no waiters: for good, or until polling is resumed."""
        if request.waiters or shared.request is not request:
            return
        if not shared.subscribers:
            if self._polls.get(shared.key) is shared:
                del self._polls[shared.key]
        elif self._paused_at is None or request.task is not None:
            return
        shared.request = None
        self._requests.withdraw(request)

    def _ended(self, shared: SharedPoll, request: Request, value: Any, error: Exception | None) -> None:
        """Handle the end of a request: first the manager's own state, then the subscribers' callbacks."""
        shared.request = None
        for waiter in request.waiters:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(value)
            else:
                waiter.set_exception(error)
        if error is not None:
            self._failures += 1
        if self._polls.get(shared.key) is not shared:
            return  # all subscribers left meanwhile; later ones wait for a request of their own
        if error is None:
            shared.succeeded(
                value, started_at=request.started_at, now=self._now(), active_time=self._active_time()
            )
            self._plan(shared)
            for subscriber in list(shared.subscribers):
                subscriber.deliver(value)
        elif not shared.subscribers:
            del self._polls[shared.key]
        else:
            shared.failed(error, now=self._now(), draw=self._draw)
            self._plan(shared)
            self._report_failure(shared, error)

    def _report_failure(self, shared: SharedPoll, error: Exception) -> None:
        if shared.cadence.stopped or not any(each.has_error_callback for each in shared.subscribers):
            delay = shared.cadence.next_delay
            then = "call touch() to resume" if delay is None else f"next poll in {delay:g} s"
            log.warning("Poll of %r failed, %s; %s", shared.key, shared.cadence.reason, then)
        for subscriber in list(shared.subscribers):
            subscriber.fail(error)

    def _is_fresh(self, shared: SharedPoll) -> bool:
        return shared.result is not None and self._now() - shared.result.at < self._cache_seconds

    def _active_time(self) -> float:
        """The time that schedules use: it does not advance during a pause."""
        return (self._now() if self._paused_at is None else self._paused_at) - self._paused_seconds

    def _now(self) -> float:
        assert self._loop is not None
        return self._loop.time()

    def _here(self) -> asyncio.AbstractEventLoop:
        """The event loop of this manager; raises `InvalidInput` unless it is running in this thread."""
        if self._closed:
            raise _closed()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError as error:
            raise InvalidInput(
                "No event loop is running in this thread. Call the polling manager from a coroutine, "
                "or from another thread with loop.call_soon_threadsafe."
            ) from error
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise InvalidInput(
                "This polling manager belongs to another event loop. "
                "Call polling_manager() for the manager of the running one."
            )
        return loop


def _closed() -> NotWorthAnotherTry:
    return NotWorthAnotherTry(
        "This polling manager is closed. Create a new one, or call polling_manager() for the shared one."
    )


_managers: dict[asyncio.AbstractEventLoop, PollingManager] = {}
_lock = threading.Lock()


def polling_manager() -> PollingManager:
    """The shared manager of the running event loop. A closed one is replaced."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError as error:
        raise InvalidInput("No event loop is running. Call polling_manager() from a coroutine.") from error
    with _lock:
        for closed in [each for each in _managers if each.is_closed()]:
            del _managers[closed]
        manager = _managers.get(loop)
        if manager is None or manager.is_closed:
            manager = _managers[loop] = PollingManager()
        return manager

"""One poll for all subscribers of a key, and the registration that each subscriber holds."""

from __future__ import annotations

import inspect
import logging
import math
from collections import Counter
from collections.abc import Callable, Hashable
from contextvars import copy_context
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from longwatch.errors import InvalidInput
from longwatch.polling.backoff import Backoff
from longwatch.polling.requests import Caller, Poll, Request
from longwatch.polling.schedules import Cadence, Soonest

log = logging.getLogger("longwatch")

OnResult = Callable[[Any], object]
OnError = Callable[[Exception], object]


@dataclass(frozen=True, slots=True)
class PollResult:
    """What the last poll returned, and when."""

    value: object
    at: float


class SharedPoll:
    """The poll of a key, from its first subscriber to its last.

    When the last one leaves, the manager drops this object and creates a new one for the next subscriber: a
    result that is still in flight reaches the old object only, and never a later registration.
    """

    __slots__ = ("cadence", "due_at", "intervals", "key", "request", "result", "since", "subscribers")

    def __init__(self, key: Hashable, backoff: Backoff) -> None:
        self.key = key
        self.cadence = Cadence(Soonest(), backoff)
        self.subscribers: dict[Subscriber, None] = {}  # oldest first
        self.intervals: Counter[float | None] = Counter()  # subscribers per interval
        self.request: Request | None = None  # queued or in flight
        self.result: PollResult | None = None
        self.since = -math.inf  # the delay to the next poll counts from here
        self.due_at: float | None = None

    def join(self, subscriber: Subscriber, now: float) -> None:
        """Add a subscriber. A stopped poll resumes, and a slowed one starts over."""
        self._reschedule(self._soonest().joined(subscriber.interval))
        if self.cadence.stopped:
            self.cadence = self.cadence.after_activity(now)
        self.intervals[subscriber.interval] += 1
        self.subscribers[subscriber] = None

    def leave(self, subscriber: Subscriber) -> None:
        """Remove a subscriber, and its interval if no other subscriber has the same."""
        del self.subscribers[subscriber]
        self.intervals[subscriber.interval] -= 1
        if not self.intervals[subscriber.interval]:
            del self.intervals[subscriber.interval]
            self._reschedule(self._soonest().left(subscriber.interval))

    def source(self, request: Request) -> Caller:
        """What to call: the poll of the oldest subscriber, or of a caller that only waits."""
        for subscriber in self.subscribers:
            return subscriber.poll, subscriber.context
        assert request.offer is not None  # without one, the request would have been withdrawn
        return request.offer

    def succeeded(self, value: object, *, started_at: float, now: float, active_time: float) -> None:
        """Handle a result. The next delay counts from the start of this poll."""
        news = self.result is None or not _same(self.result.value, value)
        self.result = PollResult(value, now)
        self.since = started_at
        self.cadence = self.cadence.succeeded(active_time, news=news)

    def failed(self, error: Exception, *, now: float, draw: Callable[[], float]) -> None:
        """Handle a failure. The next delay counts from its end: a slow failure has to wait too."""
        self.since = now
        self.cadence = self.cadence.failed(error, draw=draw)

    def _soonest(self) -> Soonest:
        assert isinstance(self.cadence.schedule, Soonest)
        return self.cadence.schedule

    def _reschedule(self, schedule: Soonest) -> None:
        self.cadence = replace(self.cadence, schedule=schedule)


class Subscriber:
    """One subscriber of a poll: its interval, its callbacks and its context."""

    __slots__ = ("_is_served", "_on_error", "_on_result", "active", "context", "interval", "poll", "shared")

    def __init__(
        self,
        shared: SharedPoll,
        poll: Poll,
        interval: float | None,
        on_result: OnResult | None,
        on_error: OnError | None,
    ) -> None:
        for name, callback in (("on_result", on_result), ("on_error", on_error)):
            if inspect.iscoroutinefunction(callback):
                raise InvalidInput(
                    f"{name} of the poll {shared.key!r} is a coroutine function, which would never be "
                    "awaited. Pass a plain function; it may start a task."
                )
        self.shared = shared
        self.poll = poll
        self.interval = interval
        self.active = True
        # Its code runs in the context in which it registered: what it records must not end up in the run of
        # another subscriber.
        self.context = copy_context()
        self._on_result = on_result
        self._on_error = on_error
        self._is_served = False

    @property
    def has_error_callback(self) -> bool:
        return self._on_error is not None

    def deliver(self, value: object) -> None:
        """Deliver a result. An exception of the subscriber affects no other, and goes to its `on_error`."""
        if not self.active:
            return  # it left while subscribers before it were called
        self._is_served = True
        if self._on_result is None:
            return
        try:
            self.context.run(self._on_result, value)
        except Exception as mistake:  # noqa: BLE001 - a subscriber's mistake is not the manager's
            if self._on_error is None:
                self._log("on_result", mistake)
            else:
                self.fail(mistake)

    def catch_up(self, value: object) -> None:
        """Deliver a cached result, unless a newer one was delivered first."""
        if not self._is_served:
            self.deliver(value)

    def fail(self, error: Exception) -> None:
        """Report a failure to `on_error`, if there is one."""
        if not self.active or self._on_error is None:
            return
        try:
            self.context.run(self._on_error, error)
        except Exception as mistake:  # noqa: BLE001 - as above
            self._log("on_error", mistake)

    def _log(self, callback: str, mistake: Exception) -> None:
        key = self.shared.key
        log.error("%s of a subscriber of %r raised an exception", callback, key, exc_info=mistake)


def _same(before: object, after: object) -> bool:
    try:
        return bool(before == after)
    except Exception:  # noqa: BLE001 - values that cannot be compared, such as two arrays, count as changed
        return False


class Registration:
    """A subscription to a poll. `dispose` ends it, and so does the end of `with`."""

    def __init__(self, subscriber: Subscriber, leave: Callable[[Subscriber], None]) -> None:
        self._subscriber = subscriber
        self._leave = leave

    @property
    def key(self) -> Hashable:
        return self._subscriber.shared.key

    @property
    def active(self) -> bool:
        """Whether anything may still be delivered."""
        return self._subscriber.active

    @property
    def state(self) -> Cadence:
        """The delay to the next poll, the number of failures, whether it has stopped and why."""
        return self._subscriber.shared.cadence

    @property
    def due_at(self) -> float | None:
        """The time of the next poll on the event loop's clock; None while none is planned."""
        return self._subscriber.shared.due_at if self.active else None

    def dispose(self) -> None:
        """Unsubscribe. Nothing more is delivered, not even from a poll in flight. May be called again."""
        self._leave(self._subscriber)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.dispose()

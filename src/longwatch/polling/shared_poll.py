"""One poll for all subscribers of a key, and the registration that each of them holds."""

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
    """What the last poll gave, and when."""

    value: object
    at: float


class SharedPoll:
    """A key's poll, from the first who wants it to the last.

    When the last one leaves, the manager forgets this object and makes a new one for whoever comes next: an
    answer that is still under way reaches the old one only, and so never a later registration.
    """

    __slots__ = ("answer", "cadence", "due_at", "key", "request", "since", "subscribers", "wanted")

    def __init__(self, key: Hashable, backoff: Backoff) -> None:
        self.key = key
        self.cadence = Cadence(Soonest(), backoff)
        self.subscribers: dict[Subscriber, None] = {}  # oldest first
        self.wanted: Counter[float | None] = Counter()  # how many want which interval
        self.request: Request | None = None  # queued or in flight
        self.answer: PollResult | None = None
        self.since = -math.inf  # what the delay to the next look counts from
        self.due_at: float | None = None

    def join(self, subscriber: Subscriber, now: float) -> None:
        """One more. A poll that had stopped goes on, and one that had slowed down begins again."""
        self._reschedule(self._soonest().joined(subscriber.interval))
        if self.cadence.stopped:
            self.cadence = self.cadence.touched(now)
        self.wanted[subscriber.interval] += 1
        self.subscribers[subscriber] = None

    def leave(self, subscriber: Subscriber) -> None:
        """One fewer. What nobody else wanted so often is not done so often any more."""
        del self.subscribers[subscriber]
        self.wanted[subscriber.interval] -= 1
        if not self.wanted[subscriber.interval]:
            del self.wanted[subscriber.interval]
            self._reschedule(self._soonest().left(subscriber.interval))

    def source(self, request: Request) -> Caller:
        """What to call: the poll of the one who has been here longest, or of one who only waits."""
        for subscriber in self.subscribers:
            return subscriber.poll, subscriber.context
        assert request.offer is not None  # or nobody would want it, and it would have been withdrawn
        return request.offer

    def succeeded(self, value: object, *, started_at: float, now: float, active_time: float) -> None:
        """Take in an answer. The next look counts from the beginning of this one."""
        news = self.answer is None or not _same(self.answer.value, value)
        self.answer = PollResult(value, now)
        self.since = started_at
        self.cadence = self.cadence.succeeded(active_time, news=news)

    def failed(self, error: Exception, *, now: float, draw: Callable[[], float]) -> None:
        """Take in a failure. The next look counts from its end: one that failed slowly needs its rest too."""
        self.since = now
        self.cadence = self.cadence.failed(error, draw=draw)

    def _soonest(self) -> Soonest:
        assert isinstance(self.cadence.schedule, Soonest)
        return self.cadence.schedule

    def _reschedule(self, schedule: Soonest) -> None:
        self.cadence = replace(self.cadence, schedule=schedule)


class Subscriber:
    """Somebody who wants the answers of a poll."""

    __slots__ = ("_on_error", "_on_result", "_told", "active", "context", "interval", "poll", "shared")

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
                    f"{name} of the poll {shared.key!r} is a coroutine function, and nobody would await it; "
                    "give a plain function, which may start a task"
                )
        self.shared = shared
        self.poll = poll
        self.interval = interval
        self.active = True
        # Its code runs in the context in which it registered, whoever's turn it is: what it records must
        # not end up in the run of another.
        self.context = copy_context()
        self._on_result = on_result
        self._on_error = on_error
        self._told = False

    @property
    def hears_errors(self) -> bool:
        return self._on_error is not None

    def give(self, value: object) -> None:
        """Deliver an answer. What the subscriber raises hurts nobody else, and is reported to it."""
        if not self.active:
            return  # it left while the others before it were told
        self._told = True
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
        """Deliver a cached answer, unless a newer one was quicker."""
        if not self._told:
            self.give(value)

    def fail(self, error: Exception) -> None:
        """Tell of a failure, if this one wants to hear of it."""
        if not self.active or self._on_error is None:
            return
        try:
            self.context.run(self._on_error, error)
        except Exception as mistake:  # noqa: BLE001 - as above
            self._log("on_error", mistake)

    def _log(self, callback: str, mistake: Exception) -> None:
        key = self.shared.key
        log.error("%s of a subscriber of %r raised; the others go on", callback, key, exc_info=mistake)


def _same(before: object, after: object) -> bool:
    try:
        return bool(before == after)
    except Exception:  # noqa: BLE001 - what cannot be compared, such as two arrays, counts as changed
        return False


class Registration:
    """One subscriber's part in a poll. Dispose of it to leave; as a context manager it does so by itself."""

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
        """When the poll looks next, how often it failed, whether it has stopped and why."""
        return self._subscriber.shared.cadence

    @property
    def due_at(self) -> float | None:
        """The moment of the next look on the event loop's clock; None while none is planned."""
        return self._subscriber.shared.due_at if self.active else None

    def dispose(self) -> None:
        """Leave. Nothing is delivered any more, also not from a poll under way. Again, it does nothing."""
        self._leave(self._subscriber)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.dispose()

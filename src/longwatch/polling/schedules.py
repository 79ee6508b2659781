"""Schedules and cadences: when to poll again. Values: each poll returns the next state, none waits.

`now` is in seconds of any monotonic clock; a schedule compares it with earlier values.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Protocol

from longwatch.errors import InvalidInput
from longwatch.polling.backoff import REQUEST_BACKOFF, Backoff


class Schedule(Protocol):
    """How long until the next poll."""

    @property
    def delay(self) -> float | None:
        """Seconds from the last poll to the next. None: stopped."""

    @property
    def reason(self) -> str | None:
        """Why the schedule has stopped, for people; None while it runs."""

    def after_poll(self, now: float, *, news: bool) -> Schedule:
        """The state after a poll at this time; `news`: whether the result differs from the one before."""

    def after_activity(self, now: float) -> Schedule:
        """The state after a user showed interest: a stopped or slowed schedule starts over."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same delay."""

    seconds: float

    def __post_init__(self) -> None:
        _check("interval", self.seconds)

    @property
    def delay(self) -> float:
        return self.seconds

    @property
    def reason(self) -> None:
        return None

    def after_poll(self, now: float, *, news: bool) -> Fixed:
        return self

    def after_activity(self, now: float) -> Fixed:
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    """Intelligent polling: fast at first, then slower, then not at all.

    `first` seconds for the first `active_seconds`, then × `factor` with each poll up to `most`. News does not
    accelerate it, but keeps it alive: it stops at the first poll `quiet_seconds` after the last news.
    """

    first: float = 1.0  # seconds
    factor: float = 1.5
    most: float = 5.0  # seconds
    active_seconds: float = 30.0
    quiet_seconds: float = 120.0
    step: float | None = None  # the current delay, unless the ramp has stopped
    started_at: float | None = None  # first poll, or the last touch
    news_at: float | None = None
    polled_at: float | None = None

    def __post_init__(self) -> None:
        _check("first delay of a ramp", self.first)
        _check("last delay of a ramp", self.most)
        if self.first > self.most or not 1 <= self.factor < math.inf:
            raise InvalidInput(
                f"Invalid ramp from {self.first} s to {self.most} s with factor {self.factor}. "
                "Use first <= most and a factor of at least 1."
            )

    @property
    def delay(self) -> float | None:
        return None if self._quiet() else self.step or self.first

    @property
    def reason(self) -> str | None:
        return f"no news for {self.quiet_seconds:g} s" if self._quiet() else None

    def after_poll(self, now: float, *, news: bool) -> Ramp:
        started_at = now if self.started_at is None else self.started_at
        step = self.step or self.first
        if now - started_at >= self.active_seconds:
            step = min(self.most, step * self.factor)
        news_at = now if news or self.news_at is None else self.news_at
        return replace(self, step=step, started_at=started_at, news_at=news_at, polled_at=now)

    def after_activity(self, now: float) -> Ramp:
        return replace(self, step=None, started_at=now, news_at=now, polled_at=now)

    def _quiet(self) -> bool:
        if self.polled_at is None or self.news_at is None:
            return False
        return self.polled_at - self.news_at >= self.quiet_seconds


@dataclass(frozen=True, slots=True)
class Phased:
    """A delay for each phase of the work. Phases are compared without regard to case."""

    seconds: Mapping[str, float] = field(hash=False)
    phase: str = ""
    _: KW_ONLY
    otherwise: float = 30.0  # seconds, for an unknown phase, which must not end the watch

    def __post_init__(self) -> None:
        for phase, seconds in {**self.seconds, "otherwise": self.otherwise}.items():
            _check(f"delay of phase {phase!r}", seconds)
        object.__setattr__(self, "seconds", {word.casefold(): each for word, each in self.seconds.items()})

    @property
    def delay(self) -> float:
        return self.seconds.get(self.phase.casefold(), self.otherwise)

    @property
    def reason(self) -> None:
        return None

    def in_phase(self, phase: str) -> Phased:
        """The state when the work has reached this phase."""
        return self if phase == self.phase else replace(self, phase=phase)

    def is_due(self, polled_at: float | None, now: float) -> bool:
        """Whether a poll is due: a whole delay after the last one, or never polled.

        A last poll more than a delay in the future was stamped by a wrong clock, and does not postpone this
        one.
        """
        return polled_at is None or abs(now - polled_at) >= self.delay

    def after_poll(self, now: float, *, news: bool) -> Phased:
        return self

    def after_activity(self, now: float) -> Phased:
        return self


@dataclass(frozen=True, slots=True)
class Soonest:
    """Several schedules for one poll, by requested interval: the soonest decides."""

    members: tuple[tuple[float | None, Schedule], ...] = ()

    @property
    def delay(self) -> float | None:
        return min((delay for _, each in self.members if (delay := each.delay) is not None), default=None)

    @property
    def reason(self) -> str | None:
        if self.delay is not None:
            return None
        return next((reason for _, each in self.members if (reason := each.reason)), "no subscribers")

    def joined(self, interval: float | None) -> Soonest:
        """With this interval as well; one that is present already starts over."""
        return Soonest((*self.left(interval).members, (interval, schedule_for(interval))))

    def left(self, interval: float | None) -> Soonest:
        """Without this interval."""
        return Soonest(tuple(member for member in self.members if member[0] != interval))

    def after_poll(self, now: float, *, news: bool) -> Soonest:
        members = tuple((interval, each.after_poll(now, news=news)) for interval, each in self.members)
        unchanged = all(new is old for (_, new), (_, old) in zip(members, self.members, strict=True))
        return self if unchanged else Soonest(members)

    def after_activity(self, now: float) -> Soonest:
        return Soonest(tuple((interval, each.after_activity(now)) for interval, each in self.members))


def schedule_for(interval: float | None = None) -> Fixed | Ramp:
    """`Fixed` for an interval in seconds, `Ramp` without one."""
    return Ramp() if interval is None else Fixed(interval)


def _check(what: str, seconds: object) -> None:
    if not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise InvalidInput(f"Invalid {what}: {seconds!r}. Use a number of seconds above 0.")


JOURNAL_INTERVAL = Fixed(0.5)  # the polling requirements

# The DRS executions requirements: nothing has begun, the transition, some servers done.
EXECUTION_PHASES = Phased({"pending": 45.0, "started": 15.0, "in_progress": 30.0}, "pending")


@dataclass(frozen=True, slots=True)
class Cadence:
    """When to poll next, and why not sooner."""

    schedule: Schedule
    backoff: Backoff = REQUEST_BACKOFF
    last_error: str | None = None  # while it fails

    @property
    def next_delay(self) -> float | None:
        """Seconds from the last poll to the next. None: stopped."""
        return self.backoff.delay if self.backoff.failures else self.schedule.delay

    @property
    def failures(self) -> int:
        """How many polls failed in a row."""
        return self.backoff.failures

    @property
    def stopped(self) -> bool:
        """Whether it polls no more until it is touched."""
        return self.next_delay is None

    @property
    def reason(self) -> str | None:
        """Why it waits longer than usual or has stopped, for people; None otherwise."""
        if not self.failures:
            return self.schedule.reason
        count = "1 failure" if self.failures == 1 else f"{self.failures} failures in a row"
        last = f": {self.last_error}" if self.last_error else ""
        return f"gave up after {count}{last}" if self.stopped else f"{count}{last}"

    def succeeded(self, now: float, *, news: bool = True) -> Cadence:
        """The state after a successful poll: the backoff is reset."""
        schedule = self.schedule.after_poll(now, news=news)
        if schedule is self.schedule and not self.failures:
            return self  # 50,000 of these a second must cost nothing
        return Cadence(schedule, self.backoff.succeeded())

    def failed(
        self, error: BaseException | str | None = None, *, draw: Callable[[], float] = random.random
    ) -> Cadence:
        """The state after a failed poll."""
        return Cadence(self.schedule, self.backoff.failed(draw=draw), _error_text(error))

    def after_activity(self, now: float) -> Cadence:
        """The state after a user showed interest.

        The schedule starts over, and so does a backoff that had given up. One that has not continues:
        interest does not repair what fails.
        """
        schedule = self.schedule.after_activity(now)
        if self.backoff.stopped:
            return Cadence(schedule, self.backoff.succeeded())
        return replace(self, schedule=schedule)


def _error_text(error: BaseException | str | None) -> str | None:
    if isinstance(error, BaseException):
        return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return error

"""Schedules and cadences: when to poll again. Values: each poll gives the next state, none waits.

`now` is in seconds of any clock that only grows; a schedule compares it with what it was told before.
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
    """How long until the next look."""

    @property
    def delay(self) -> float | None:
        """Seconds from the last look to the next. None: it has stopped."""

    @property
    def reason(self) -> str | None:
        """Why it has stopped, for people; None while it goes on."""

    def looked(self, now: float, *, news: bool) -> Schedule:
        """The state after a look at this moment; `news` says whether anything had changed."""

    def touched(self, now: float) -> Schedule:
        """The state after somebody showed interest: what had stopped or slowed down begins again."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same delay."""

    seconds: float

    def __post_init__(self) -> None:
        _check("an interval", self.seconds)

    @property
    def delay(self) -> float:
        return self.seconds

    @property
    def reason(self) -> None:
        return None

    def looked(self, now: float, *, news: bool) -> Fixed:
        return self

    def touched(self, now: float) -> Fixed:
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    """Intelligent polling: quick while it is young, then slower, then not at all.

    `first` seconds for the first `active_seconds`, then × `factor` with each look up to `most`. News does not
    quicken it, but keeps it alive: it stops at the first look that comes `quiet_seconds` after the last news.
    """

    first: float = 1.0  # seconds
    factor: float = 1.5
    most: float = 5.0  # seconds
    active_seconds: float = 30.0
    quiet_seconds: float = 120.0
    step: float | None = None  # the delay now, before it is known whether the ramp has stopped
    started_at: float | None = None  # first look, or the last touch
    news_at: float | None = None
    looked_at: float | None = None

    def __post_init__(self) -> None:
        _check("the first delay of a ramp", self.first)
        _check("the last delay of a ramp", self.most)
        if self.first > self.most or not 1 <= self.factor < math.inf:
            raise InvalidInput(
                f"a ramp from {self.first} s times {self.factor} does not lead up to {self.most} s; "
                "give first <= most and a factor of at least 1"
            )

    @property
    def delay(self) -> float | None:
        return None if self._quiet() else self.step or self.first

    @property
    def reason(self) -> str | None:
        return f"no news for {self.quiet_seconds:g} s" if self._quiet() else None

    def looked(self, now: float, *, news: bool) -> Ramp:
        started_at = now if self.started_at is None else self.started_at
        step = self.step or self.first
        if now - started_at >= self.active_seconds:
            step = min(self.most, step * self.factor)
        news_at = now if news or self.news_at is None else self.news_at
        return replace(self, step=step, started_at=started_at, news_at=news_at, looked_at=now)

    def touched(self, now: float) -> Ramp:
        return replace(self, step=None, started_at=now, news_at=now, looked_at=now)

    def _quiet(self) -> bool:
        if self.looked_at is None or self.news_at is None:
            return False
        return self.looked_at - self.news_at >= self.quiet_seconds


@dataclass(frozen=True, slots=True)
class Phased:
    """A delay for each phase of the work, by its word. The words are compared without regard to case."""

    seconds: Mapping[str, float] = field(hash=False)
    phase: str = ""
    _: KW_ONLY
    otherwise: float = 30.0  # seconds, for a phase nobody knows: a new word must not end the watch

    def __post_init__(self) -> None:
        for phase, seconds in {**self.seconds, "otherwise": self.otherwise}.items():
            _check(f"the delay of phase {phase!r}", seconds)
        object.__setattr__(self, "seconds", {word.casefold(): each for word, each in self.seconds.items()})

    @property
    def delay(self) -> float:
        return self.seconds.get(self.phase.casefold(), self.otherwise)

    @property
    def reason(self) -> None:
        return None

    def in_phase(self, phase: str) -> Phased:
        """The state when the work has come to this phase."""
        return self if phase == self.phase else replace(self, phase=phase)

    def is_due(self, looked_at: float | None, now: float) -> bool:
        """Whether it is time: a whole delay after the last look, to the moment, or never looked at.

        A last look that lies more than a delay ahead comes from a clock that was wrong then, and waiting for
        it would be waiting for nothing.
        """
        return looked_at is None or abs(now - looked_at) >= self.delay

    def looked(self, now: float, *, news: bool) -> Phased:
        return self

    def touched(self, now: float) -> Phased:
        return self


@dataclass(frozen=True, slots=True)
class Soonest:
    """Several schedules for one poll, by the interval that was asked for: the soonest decides."""

    members: tuple[tuple[float | None, Schedule], ...] = ()

    @property
    def delay(self) -> float | None:
        return min((delay for _, each in self.members if (delay := each.delay) is not None), default=None)

    @property
    def reason(self) -> str | None:
        if self.delay is not None:
            return None
        return next((reason for _, each in self.members if (reason := each.reason)), "nobody asks for it")

    def joined(self, interval: float | None) -> Soonest:
        """With this interval too; one that is there already begins again."""
        return Soonest((*self.left(interval).members, (interval, schedule_for(interval))))

    def left(self, interval: float | None) -> Soonest:
        """Without this interval."""
        return Soonest(tuple(member for member in self.members if member[0] != interval))

    def looked(self, now: float, *, news: bool) -> Soonest:
        members = tuple((interval, each.looked(now, news=news)) for interval, each in self.members)
        unchanged = all(new is old for (_, new), (_, old) in zip(members, self.members, strict=True))
        return self if unchanged else Soonest(members)

    def touched(self, now: float) -> Soonest:
        return Soonest(tuple((interval, each.touched(now)) for interval, each in self.members))


def schedule_for(interval: float | None = None) -> Fixed | Ramp:
    """An interval in seconds means exactly that, none means the ramp."""
    return Ramp() if interval is None else Fixed(interval)


def _check(what: str, seconds: object) -> None:
    if not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise InvalidInput(f"{what} is a number of seconds above 0, not {seconds!r}")


JOURNAL_INTERVAL = Fixed(0.5)  # the polling requirements

# The DRS executions requirements: nothing has begun, the transition, some servers done.
EXECUTION_PHASES = Phased({"pending": 45.0, "started": 15.0, "in_progress": 30.0}, "pending")


@dataclass(frozen=True, slots=True)
class Cadence:
    """When to look next, and why not sooner."""

    schedule: Schedule
    backoff: Backoff = REQUEST_BACKOFF
    last_error: str | None = None  # while it fails

    @property
    def next_delay(self) -> float | None:
        """Seconds from the last look to the next. None: it has stopped."""
        return self.backoff.delay if self.backoff.failures else self.schedule.delay

    @property
    def failures(self) -> int:
        """How many looks failed in a row."""
        return self.backoff.failures

    @property
    def stopped(self) -> bool:
        """Whether it looks no more until somebody touches it."""
        return self.next_delay is None

    @property
    def reason(self) -> str | None:
        """Why it waits longer than usual or has stopped, for people; None while all is well."""
        if not self.failures:
            return self.schedule.reason
        count = "1 failure" if self.failures == 1 else f"{self.failures} failures in a row"
        last = f": {self.last_error}" if self.last_error else ""
        return f"gave up after {count}{last}" if self.stopped else f"{count}{last}"

    def succeeded(self, now: float, *, news: bool = True) -> Cadence:
        """The state after a look that was answered. Failures are forgotten at once."""
        schedule = self.schedule.looked(now, news=news)
        if schedule is self.schedule and not self.failures:
            return self  # fifty thousand of these a second must cost nothing
        return Cadence(schedule, self.backoff.succeeded())

    def failed(
        self, error: BaseException | str | None = None, *, draw: Callable[[], float] = random.random
    ) -> Cadence:
        """The state after a look that was not answered."""
        return Cadence(self.schedule, self.backoff.failed(draw=draw), _told(error))

    def touched(self, now: float) -> Cadence:
        """The state after somebody showed interest.

        The schedule begins again, and so does a backoff that had given up. One that has not goes on: interest
        does not mend what fails.
        """
        schedule = self.schedule.touched(now)
        if self.backoff.stopped:
            return Cadence(schedule, self.backoff.succeeded())
        return replace(self, schedule=schedule)


def _told(error: BaseException | str | None) -> str | None:
    if isinstance(error, BaseException):
        return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return error

"""The drain: how long a watch waits for late events once a run has ended."""

from __future__ import annotations

from dataclasses import dataclass, replace

QUIET_SECONDS = 3.0
MOST_SECONDS = 15.0
LAST_POLL_SECONDS = 5.0  # for the last poll to succeed, once the time is up


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainLimits:
    """When a drain gives up waiting."""

    quiet_seconds: float = QUIET_SECONDS  # without news
    most_seconds: float = MOST_SECONDS  # in all, however many late events come


@dataclass(frozen=True, slots=True)
class Drain:
    """A drain under way. Only a poll that succeeded can end it: an outage proves nothing."""

    began: float  # seconds of a clock that only grows
    news: float  # when the last late event came
    limits: DrainLimits = DrainLimits()

    @classmethod
    def begin(cls, now: float, limits: DrainLimits) -> Drain:
        """The terminal event has just been seen."""
        return cls(now, now, limits)

    def with_news(self, now: float) -> Drain:
        """A late event came: it may not be the last."""
        return replace(self, news=now)

    @property
    def due(self) -> float:
        """The time from which on a poll that finds nothing is the last one."""
        return min(self.news + self.limits.quiet_seconds, self.began + self.limits.most_seconds)

    def is_over(self, polled_at: float, *, complete: bool) -> bool:
        """Whether to stop, after a thorough poll that began at this time and succeeded.

        `complete`: every producer has closed, and none of its events is missing.
        """
        return polled_at >= self.began and (complete or polled_at >= self.due)

    def is_hopeless(self, now: float) -> bool:
        """Whether to stop although no poll succeeds."""
        return now >= self.began + self.limits.most_seconds + LAST_POLL_SECONDS

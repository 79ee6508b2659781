"""How long to wait for stragglers once a run has ended: until nothing can be missing, or all is quiet."""

from __future__ import annotations

from dataclasses import dataclass, replace

QUIET_SECONDS = 3.0
MOST_SECONDS = 15.0
PATIENCE_SECONDS = 5.0  # for a look to be answered, once there is no more time


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainLimits:
    """When a drain gives up waiting."""

    quiet_seconds: float = QUIET_SECONDS  # without news
    most_seconds: float = MOST_SECONDS  # in all, however many stragglers come


@dataclass(frozen=True, slots=True)
class Drain:
    """A drain that has begun. Only an answered look can end it: a journal that is away says nothing."""

    began: float  # seconds of a clock that only grows
    news: float  # when the last straggler came
    limits: DrainLimits = DrainLimits()

    @classmethod
    def begin(cls, now: float, limits: DrainLimits) -> Drain:
        """The terminal event has just been seen."""
        return cls(now, now, limits)

    def with_news(self, now: float) -> Drain:
        """A straggler came: it may not be the last."""
        return replace(self, news=now)

    @property
    def due(self) -> float:
        """From when on a look that finds nothing is the last one."""
        return min(self.news + self.limits.quiet_seconds, self.began + self.limits.most_seconds)

    def is_over(self, looked_at: float, *, complete: bool) -> bool:
        """Whether to stop, after a thorough look that began at this moment and was answered.

        `complete` says that every producer has closed and that none of its events is missing.
        """
        return looked_at >= self.began and (complete or looked_at >= self.due)

    def is_hopeless(self, now: float) -> bool:
        """Whether to stop although no look is answered."""
        return now >= self.began + self.limits.most_seconds + PATIENCE_SECONDS

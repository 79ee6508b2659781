"""A schedule while all is well and a backoff while it fails, as one value that people can be shown."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from longwatch.polling.backoff import REQUEST_BACKOFF, Backoff
from longwatch.polling.schedules import Schedule


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

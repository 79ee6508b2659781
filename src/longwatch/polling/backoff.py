"""Backoff: how long to wait after failures. A value: each failure and each success returns the next one."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace

from longwatch.errors import InvalidInput, TableProblem, WorthAnotherTry


@dataclass(frozen=True, slots=True)
class Backoff:
    """`first`, `first × factor`, … up to `most` seconds. A success resets it.

    With `max_retries` it stops at the failure after that many retries in a row. `jitter` is the share by
    which each delay may be shorter, so that clients that failed together do not retry together.
    """

    first: float  # seconds
    factor: float
    most: float  # seconds
    _: KW_ONLY
    max_retries: int | None = None  # None: never give up
    jitter: float = 0.0  # 0.25: delays are up to a quarter shorter
    failures: int = 0  # in a row, so far
    drawn: float = 0.0  # the last draw for the jitter, from 0 up to 1

    def __post_init__(self) -> None:
        if not (0 < self.first <= self.most < math.inf and 1 <= self.factor < math.inf):
            raise InvalidInput(
                f"Invalid backoff from {self.first} s to {self.most} s with factor {self.factor}. "
                "Use 0 < first <= most and a factor of at least 1."
            )
        if not 0 <= self.jitter <= 1:
            raise InvalidInput(f"Invalid jitter {self.jitter} of a backoff. Use a share from 0 to 1.")
        if self.max_retries is not None and self.max_retries < 0:
            raise InvalidInput(
                f"Invalid max_retries {self.max_retries}. Use 0 or more, or None for no limit."
            )

    @property
    def delay(self) -> float | None:
        """Seconds until the next try: 0 without a failure, None when it has given up."""
        if not self.failures:
            return 0.0
        if self.stopped:
            return None
        return self._grown() * (1 - self.jitter * self.drawn)

    @property
    def stopped(self) -> bool:
        """Whether it has given up."""
        return self.max_retries is not None and self.failures > self.max_retries

    def failed(self, *, draw: Callable[[], float] = random.random) -> Backoff:
        """The state after one more failure."""
        return replace(self, failures=self.failures + 1, drawn=draw() if self.jitter else 0.0)

    def succeeded(self) -> Backoff:
        """The state after a success: no failures."""
        return replace(self, failures=0, drawn=0.0) if self.failures else self

    def _grown(self) -> float:
        try:
            return min(self.most, self.first * float(self.factor) ** (self.failures - 1))
        except OverflowError:  # 2.0 ** 1024, and some outages last all night
            return self.most


# The polling requirements, for a table of events: 1, 2, 4, 8, 16, 30, 30 … seconds, without end.
JOURNAL_BACKOFF = Backoff(1.0, 2.0, 30.0)

# For what an operator has to fix first, such as expired credentials: always the maximum interval.
OPERATOR_BACKOFF = Backoff(JOURNAL_BACKOFF.most, 1.0, JOURNAL_BACKOFF.most)

# The turn polling requirements, for requests: 2, 4, 8, 16, 16 seconds, and no retry after the sixth failure.
REQUEST_BACKOFF = Backoff(2.0, 2.0, 16.0, max_retries=5)


def after_failure(backoff: Backoff, error: Exception) -> Backoff | None:
    """The backoff of a reader of a journal after one more failure; None: retrying does not help."""
    if isinstance(error, WorthAnotherTry):
        return replace(JOURNAL_BACKOFF, failures=backoff.failures).failed()
    if isinstance(error, TableProblem) and error.may_recover:
        return replace(OPERATOR_BACKOFF, failures=backoff.failures).failed()
    return None

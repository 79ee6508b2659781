"""What a polling manager has done so far, and how late it was."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

LAG_WINDOW = 1024  # polls


@dataclass(frozen=True, slots=True)
class Lag:
    """How long after its moment a poll began, in seconds; `p50` and `p99` are of the last 1,024 polls."""

    last: float = 0.0
    most: float = 0.0
    p50: float = 0.0
    p99: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """A look at the counters of a polling manager."""

    calls: int  # polls begun
    cache_hits: int  # answered from the cache, without a poll
    shared: int  # waited for a poll that somebody else had asked for
    failures: int  # polls that raised or took too long
    in_flight: int
    queued: int  # due, and waiting for one of the others to end
    keys: int
    subscribers: int
    lag: Lag


class LagWindow:
    """Remembers the last lags, in bounded memory."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=LAG_WINDOW)
        self._most = 0.0

    def add(self, seconds: float) -> None:
        self._recent.append(seconds)
        self._most = max(self._most, seconds)

    def lag(self) -> Lag:
        if not self._recent:
            return Lag()
        ordered = sorted(self._recent)
        return Lag(self._recent[-1], self._most, _percentile(ordered, 0.50), _percentile(ordered, 0.99))


def _percentile(ordered: list[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

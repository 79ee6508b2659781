"""The clock that every module reads. Tests inject a clock of their own."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_WITHOUT_ZONE = datetime(1970, 1, 1)
_MILLISECOND = timedelta(milliseconds=1)


class Clock(Protocol):
    """Reads the time and sleeps."""

    def now_ms(self) -> int:
        """Wall time in whole milliseconds since 1970 (UTC)."""

    def monotonic(self) -> float:
        """Seconds that never decrease, for measuring durations."""

    def sleep(self, seconds: float) -> None:
        """Block the calling thread for this long."""


class SystemClock:
    """The clock of this machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.perf_counter()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


SYSTEM_CLOCK = SystemClock()


def iso_from_ms(ms: int) -> str:
    """`2026-11-15T10:00:00.123Z`: UTC, always with three decimals, so that text order is time order.

    Raises ValueError outside the years 1 to 9999. Events are limited to 1970 and later.
    """
    try:
        moment = _EPOCH_WITHOUT_ZONE + timedelta(milliseconds=ms)
    except OverflowError as error:
        raise ValueError(f"{ms} ms since 1970 is not in the years 1 to 9999") from error
    return f"{moment.isoformat(timespec='milliseconds')}Z"


def ms_from_iso(text: str) -> int:
    """Parse an ISO 8601 time; without a zone it is UTC. Truncates to milliseconds.

    Raises ValueError for any other text.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MILLISECOND

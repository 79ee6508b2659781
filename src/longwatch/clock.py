"""The only place time comes from. Tests hand over a clock of their own."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Clock(Protocol):
    """What the time is, and a way to let some of it pass."""

    def now_ms(self) -> int:
        """Wall time in whole milliseconds since 1970 (UTC)."""

    def monotonic(self) -> float:
        """Seconds that only grow, for measuring how long something took."""

    def sleep(self, seconds: float) -> None:
        """Let this much time pass in the calling thread."""


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

    Holds for the years 1 to 9999, of which an event may have those from 1970; ValueError beyond.
    """
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError as error:
        raise ValueError(f"{ms} ms since 1970 is not in the years 1 to 9999") from error
    return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def ms_from_iso(text: str) -> int:
    """Read an ISO 8601 time; one without a zone is taken as UTC, parts of a millisecond are cut off.

    Raises ValueError if the text is no such time.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MILLISECOND

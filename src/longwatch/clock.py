"""The only place time comes from. Tests hand over a clock of their own."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


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
    """`2026-11-15T10:00:00.123Z`: UTC, always with three decimals, so that text order is time order."""
    moment = datetime.fromtimestamp(ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


def ms_from_iso(text: str) -> int:
    """Read an ISO 8601 time; one without a zone is taken as UTC. Raises ValueError if it is none."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    whole = int(moment.replace(microsecond=0).timestamp())
    return whole * 1000 + moment.microsecond // 1000

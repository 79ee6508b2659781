"""A clock that tests advance: sleeping takes no time, and every sleep is recorded."""

from __future__ import annotations

import threading

START_MS = 1_794_736_800_000  # 2026-11-15T10:00:00Z


class FakeClock:
    """A `Clock` in virtual time."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.slept: list[float] = []
        self._lock = threading.Lock()
        self._wall_us = now_ms * 1000
        self._passed_us = 0

    def now_ms(self) -> int:
        return self._wall_us // 1000

    def monotonic(self) -> float:
        return self._passed_us / 1_000_000

    def sleep(self, seconds: float) -> None:
        """Advance virtual time at once and record the sleep in `slept`."""
        self.advance(max(0.0, seconds))
        self.slept.append(seconds)

    def advance(self, seconds: float) -> None:
        """Advance virtual time without a sleep."""
        if seconds < 0:
            raise ValueError(
                f"time only passes forward; to set the wall clock back by {-seconds} s, use `set`"
            )
        with self._lock:
            microseconds = round(seconds * 1_000_000)
            self._wall_us += microseconds
            self._passed_us += microseconds

    def set(self, now_ms: int) -> None:
        """Set the wall clock, forward or back; monotonic time does not change."""
        with self._lock:
            self._wall_us = now_ms * 1000

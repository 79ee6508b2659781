"""A clock that moves only when told to: sleeping takes no time, and every sleep is remembered."""

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
        """Let this much virtual time pass at once, and remember it in `slept`."""
        self.advance(max(0.0, seconds))
        self.slept.append(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass without anybody having slept."""
        if seconds < 0:
            raise ValueError(
                f"time only passes forward; to set the wall clock back by {-seconds} s, use `set`"
            )
        with self._lock:
            microseconds = round(seconds * 1_000_000)
            self._wall_us += microseconds
            self._passed_us += microseconds

    def set(self, now_ms: int) -> None:
        """Set the wall clock, forward or back, as an administrator would; monotonic time stays."""
        with self._lock:
            self._wall_us = now_ms * 1000

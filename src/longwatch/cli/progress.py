"""How far a slow piece of work is, on a terminal's standard error, gone without a trace when it ends."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from longwatch.cli.text import clean
from longwatch.clock import Clock

SHOWN_AFTER_SECONDS = 0.5
REDRAWN_EVERY_SECONDS = 0.1


class Progress:
    """Counts, and shows the count once the work turns out to be slow. Silent when nobody looks."""

    def __init__(self, label: str, *, clock: Clock, total: int | None = None) -> None:
        self._label = label
        self._clock = clock
        self._total = total
        self._count = 0
        self._next_draw = clock.monotonic() + SHOWN_AFTER_SECONDS
        self._drawn = False
        self._visible = sys.stderr.isatty()

    def add(self, count: int) -> None:
        """So much more is done."""
        self.at(self._count + count)

    def at(self, count: int, total: int | None = None) -> None:
        """So much is done, of so much."""
        self._count = count
        self._total = total if total is not None else self._total
        if self._visible and self._clock.monotonic() >= self._next_draw:
            self._draw()

    def _draw(self) -> None:
        self._next_draw = self._clock.monotonic() + REDRAWN_EVERY_SECONDS
        self._drawn = True
        sys.stderr.write(f"\r\x1b[K{clean(progress_text(self._label, self._count, self._total))}")
        sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def progress_text(label: str, count: int, total: int | None) -> str:
    """`Reading 1,500 of 12,000 (12 %)`."""
    if not total or count > total:
        return f"{label} {count:,}"
    return f"{label} {count:,} of {total:,} ({100 * count // total} %)"

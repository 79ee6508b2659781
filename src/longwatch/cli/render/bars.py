"""Bars that show when a call happened, drawn in eighths of a column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log1p

EIGHTHS = 8  # of a column
_LEFT = " ▏▎▍▌▋▊▉█"  # a column filled from its left edge, by eighths
_RIGHT_EIGHTH, _RIGHT_HALF = "▕", "▐"


@dataclass(frozen=True, slots=True)
class Scale:
    """An interval of time drawn over some columns."""

    start_ms: float
    end_ms: float
    columns: int
    is_logarithmic: bool = False  # draws durations, from the left edge, instead of times
    longest_ms: float = 0.0  # duration, at the right edge of a logarithmic scale

    @property
    def length_ms(self) -> float:
        """What the whole width stands for."""
        return self.longest_ms if self.is_logarithmic else self.end_ms - self.start_ms

    def bar(self, start_ms: float, end_ms: float) -> str:
        """The bar of one call, as wide as the scale and at least an eighth of a column long."""
        return self._draw(start_ms, end_ms, _block)

    def span(self, start_ms: float, end_ms: float) -> str:
        """A thin line: several calls happened in this time, not all of the time."""
        return self._draw(start_ms, end_ms, _line)

    def _draw(self, start_ms: float, end_ms: float, cell: Callable[[int, int], str]) -> str:
        last = self.columns * EIGHTHS
        if self.is_logarithmic:
            first, end = 0, round(last * self._logarithm(end_ms - start_ms))
        else:
            first, end = round(last * self._share(start_ms)), round(last * self._share(end_ms))
        first = min(first, last - 1)
        end = min(max(end, first + 1), last)
        edges = ((first - at, end - at) for at in range(0, last, EIGHTHS))
        return "".join(cell(max(0, begin), min(EIGHTHS, until)) for begin, until in edges)

    def _share(self, ms: float) -> float:
        length = self.end_ms - self.start_ms
        return min(max((ms - self.start_ms) / length, 0.0), 1.0) if length > 0 else 0.0

    def _logarithm(self, ms: float) -> float:
        return log1p(max(ms, 0.0)) / log1p(self.longest_ms) if self.longest_ms > 0 else 0.0


def _block(begin: int, end: int) -> str:
    """The character that comes closest to a column filled between these eighths."""
    if end <= begin:
        return " "
    if begin == 0:
        return _LEFT[end]
    if end == EIGHTHS:
        return _LEFT[EIGHTHS] if begin < 2 else _RIGHT_HALF if begin < 6 else _RIGHT_EIGHTH
    if begin >= EIGHTHS // 2:
        return _RIGHT_HALF if end - begin > 2 else _RIGHT_EIGHTH
    return _LEFT[end - begin]


def _line(begin: int, end: int) -> str:
    if end <= begin:
        return " "
    half = EIGHTHS // 2
    return "╸" if end <= half else "╺" if begin >= half else "━"

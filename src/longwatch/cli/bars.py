"""When something happened within a longer time, drawn as a bar of half columns."""

from __future__ import annotations

from dataclasses import dataclass

_LEFT, _RIGHT, _FULL = "╸", "╺", "━"


@dataclass(frozen=True, slots=True)
class Scale:
    """A stretch of time laid out over some columns."""

    start_ms: float
    end_ms: float
    columns: int

    def bar(self, start_ms: float, end_ms: float) -> str:
        """The bar for this part, as wide as the scale; at least half a column, so that nothing vanishes."""
        halves = self.columns * 2
        first = min(self._half(start_ms), halves - 1)
        last = min(max(self._half(end_ms), first + 1), halves)
        cells = [" "] * self.columns
        for index in range(first // 2, (last + 1) // 2):
            left, right = first <= index * 2, last >= index * 2 + 2
            cells[index] = _FULL if left and right else _LEFT if left else _RIGHT
        return "".join(cells)

    def _half(self, ms: float) -> int:
        length = self.end_ms - self.start_ms
        if length <= 0:
            return 0
        share = min(max((ms - self.start_ms) / length, 0.0), 1.0)
        return round(share * self.columns * 2)

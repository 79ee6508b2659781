"""Interleaved rounds, medians, and a table of the goals and whether they were met."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """A ratio between two rows that the product should keep."""

    text: str
    ratio: float
    limit: float
    at_most: bool = True

    @property
    def met(self) -> bool:
        return self.ratio <= self.limit if self.at_most else self.ratio >= self.limit

    def __str__(self) -> str:
        sign = "≤" if self.at_most else "≥"
        return (
            f"{'ok   ' if self.met else 'SHORT'}  {self.text}: {self.ratio:.2f} (goal {sign} {self.limit:g})"
        )


@dataclass(frozen=True, slots=True)
class Result:
    """One benchmark's table and its goals."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[object]]
    goals: Sequence[Goal]
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        lines = [f"\n## {self.title}\n", _row(self.headings), _row(["---"] * len(self.headings))]
        lines += [_row([_cell(value) for value in row]) for row in self.rows]
        lines += ["", *self.notes, *(str(goal) for goal in self.goals)]
        return "\n".join(lines)


def interleaved(cases: Mapping[str, Callable[[], float]], *, rounds: int) -> dict[str, float]:
    """The median of each case, the cases taking turns so that a slow minute hurts them all alike."""
    measured: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            measured[name].append(case())
    return {name: statistics.median(values) for name, values in measured.items()}


def microseconds_each(function: Callable[[], object], count: int) -> float:
    """The mean wall time of one call."""
    started = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - started) / count * 1e6


def percentile(values: Sequence[float], fraction: float) -> float:
    """The value below which this fraction of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * fraction))]


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"

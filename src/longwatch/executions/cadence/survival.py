"""How likely it is that a phase lasts longer than a given time, from few and noisy past durations."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, quantiles

CELLS = 400
MOST_KERNELS = 64  # more durations than this are stood for by their quantiles
SURPRISE = 0.02  # share of executions that are taken to be like none before
WIDTHS_BEYOND = 2.5  # kernel widths past the longest duration at which knowledge ends
FARTHEST = 4.0  # × the typical duration at which it ends in any case: one stray must not coarsen the cells
SHORTEST_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Survival:
    """The share of executions that are still in the phase, at times `cell` seconds apart, from 0 on."""

    shares: tuple[float, ...]  # begins with 1 and never grows
    cell: float

    @property
    def horizon(self) -> float:
        """Seconds after which nothing is known."""
        return self.cell * (len(self.shares) - 1)

    def at(self, seconds: float) -> float:
        """The share that lasts longer than this."""
        return between(self.shares, seconds / self.cell)

    @classmethod
    def of(cls, share: Callable[[float], float], horizon: float, cells: int = CELLS) -> Survival:
        """From a function of the time in seconds."""
        cell = horizon / cells
        return cls((1.0, *(share(number * cell) for number in range(1, cells + 1))), cell)


def survival(durations: Sequence[float], resolution: float, cells: int = CELLS) -> Survival:
    """A smooth guess from past durations in seconds, of which each is uncertain by about `resolution`.

    Each duration is a bell on a logarithmic scale, as a thing that takes twice as long also varies twice as
    much. A small share is left for surprises: an early failure, or one that takes for ever.
    """
    logs = [math.log(max(each, SHORTEST_SECONDS)) for each in _thinned(sorted(durations))]
    middle, deviation = fmean(logs), _deviation(logs)
    centre = math.exp(middle)
    width = 0.9 * deviation * len(durations) ** -0.2  # Silverman's rule
    # Bells around the durations spread wider than the durations do; drawn towards the middle they do not.
    drawn = deviation / math.hypot(deviation, width) if deviation else 1.0
    logs = [middle + (log - middle) * drawn for log in logs]
    width = max(width * drawn, math.log1p(resolution / 4 / centre))

    scale = width * math.sqrt(2)

    def share(seconds: float) -> float:
        place = math.log(seconds)
        known = sum(math.erfc((place - log) / scale) for log in logs) / (2 * len(logs))
        return (1 - SURPRISE) * known + SURPRISE * math.exp(-seconds / centre)

    horizon = min(math.exp(logs[-1] + WIDTHS_BEYOND * width), FARTHEST * centre)
    return Survival.of(share, horizon, cells)


def between(values: Sequence[float], place: float) -> float:
    """The value at a place between two entries; past the last entry it stays what it is."""
    low = int(place)
    if low >= len(values) - 1:
        return values[-1]
    return values[low] + (values[low + 1] - values[low]) * (place - low)


def place_of(values: Sequence[float], wanted: float) -> float:
    """Where growing values reach this one; infinity if they never do."""
    index = bisect_left(values, wanted)
    if index >= len(values):
        return math.inf
    if index == 0:
        return 0.0
    before = values[index - 1]
    return index - 1 + (wanted - before) / (values[index] - before)


def _thinned(ordered: Sequence[float]) -> Sequence[float]:
    if len(ordered) <= MOST_KERNELS:
        return ordered
    return [ordered[int((number + 0.5) * len(ordered) / MOST_KERNELS)] for number in range(MOST_KERNELS)]


def _deviation(logs: Sequence[float]) -> float:
    """The standard deviation as the middle half tells it, so that one odd execution does not widen all."""
    if len(logs) < 2:
        return 0.0
    low, _, high = quantiles(logs, n=4)
    return (high - low) / 1.349

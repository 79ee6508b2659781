"""Executions with given durations, to play polling policies against."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from longwatch.errors import InvalidInput
from longwatch.executions.cadence.history import ExecutionKind, Sample
from longwatch.executions.cadence.learned import Learned, Survival
from longwatch.executions.cadence.simulation import LearnedPolicy, Phases, play
from longwatch.executions.due import ExecutionPhase
from longwatch.model.summary import Status

DRILL = {
    ExecutionPhase.PENDING: 808.0,
    ExecutionPhase.STARTED: 76.0,
    ExecutionPhase.IN_PROGRESS: 300.0,
}  # 13 min 28 s, then 6 min 16 s
PLAYED = ExecutionKind("simulated", "JOB")
NO_SPREAD = 1e-3  # stands for "always the same" where a width is divided by
WIDTHS_SHOWN = 3.5  # standard deviations past the middle, in the true distribution


@dataclass(frozen=True, slots=True)
class GivenDurations:
    """Phases that take so many seconds on average, with a standard deviation of `spread` × the average.

    Durations are log-normal: never below zero, and now and then much longer. Phases vary independently.
    """

    seconds: Phases
    spread: float

    def __post_init__(self) -> None:
        if not self.phases:
            raise InvalidInput("No phase takes any time. Pass --pending, --started or --in-progress.")
        if not 0 <= self.spread <= 2:
            raise InvalidInput(f"Invalid spread {self.spread:.0%}. Use a share between 0% and 200%.")

    @property
    def phases(self) -> list[ExecutionPhase]:
        """The phases that these executions go through."""
        return [phase for phase in ExecutionPhase if self.seconds.get(phase, 0.0) > 0]

    def draw(self, random: Random) -> Phases:
        sigma = self._sigma
        return {
            phase: self.seconds[phase] * math.exp(random.gauss(-(sigma**2) / 2, sigma))
            for phase in self.phases
        }

    def past(self, random: Random, count: int) -> Sequence[Sample]:
        return polled_samples([self.draw(random) for _ in range(count)], random)

    def survival(self, cells: int) -> dict[ExecutionPhase, Survival]:
        """The true distribution of each phase, for the best possible policy."""
        return {phase: self._lasting(self.seconds[phase], cells) for phase in self.phases}

    def _lasting(self, mean: float, cells: int) -> Survival:
        sigma = max(self._sigma, NO_SPREAD)
        middle = math.log(mean) - sigma**2 / 2
        return Survival.of(
            lambda seconds: 0.5 * math.erfc((math.log(seconds) - middle) / (sigma * math.sqrt(2))),
            math.exp(middle + WIDTHS_SHOWN * sigma),
            cells,
        )

    @property
    def _sigma(self) -> float:
        return math.sqrt(math.log1p(self.spread**2))


def polled_samples(executions: Sequence[Phases], random: Random) -> list[Sample]:
    """What a journal would contain of these executions if they had been polled by the plain phases."""
    samples = []
    for phases in executions:
        seen = play(LearnedPolicy(Learned()), phases, random.random()).seen
        samples.append(Sample(PLAYED, Status.SUCCEEDED, seen, sum(seen.values())))
    return samples

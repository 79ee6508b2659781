"""Where simulated executions come from: from given durations, or from those in the journal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from longwatch.errors import InvalidInput
from longwatch.executions.cadence.history import Sample
from longwatch.executions.cadence.policies import Phases, watched
from longwatch.executions.cadence.survival import SHORTEST_SECONDS, Survival, survival
from longwatch.executions.due import ExecutionPhase
from longwatch.polling.schedules import EXECUTION_PHASES, Phased

FEWEST_RECORDED = 40  # one half to learn from, one half to play
NO_SPREAD = 1e-3  # what stands for "always the same" where a width is divided by
WIDTHS_SHOWN = 3.5  # standard deviations past the middle, for the one who knows the truth


class SampleWorld(Protocol):
    """A kind of executions."""

    def draw(self, random: Random) -> Phases:
        """One that is to be watched."""

    def past(self, random: Random, count: int) -> Sequence[Sample]:
        """What the journal says of earlier ones, which are never among those that are drawn."""

    def survival(self, cells: int) -> dict[ExecutionPhase, Survival]:
        """The truth about them, for the best possible."""


@dataclass(frozen=True, slots=True)
class KnownDurations:
    """Phases that take so many seconds on average, with a standard deviation of `spread` × the average.

    Durations are log-normal: never below zero, and now and then much longer. Phases vary by themselves.
    """

    seconds: Phases
    spread: float

    def __post_init__(self) -> None:
        if not self.there:
            raise InvalidInput("no phase takes any time; give --pending, --started or --in-progress")
        if not 0 <= self.spread <= 2:
            raise InvalidInput(f"a spread of {self.spread:.0%} is not between 0% and 200%")

    @property
    def there(self) -> list[ExecutionPhase]:
        """The phases that these executions go through."""
        return [phase for phase in ExecutionPhase if self.seconds.get(phase, 0.0) > 0]

    def draw(self, random: Random) -> Phases:
        sigma = self._sigma
        return {
            phase: self.seconds[phase] * math.exp(random.gauss(-(sigma**2) / 2, sigma))
            for phase in self.there
        }

    def past(self, random: Random, count: int) -> Sequence[Sample]:
        return watched([self.draw(random) for _ in range(count)], random)

    def survival(self, cells: int) -> dict[ExecutionPhase, Survival]:
        return {phase: self._lasting(self.seconds[phase], cells) for phase in self.there}

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


@dataclass(frozen=True, slots=True)
class RecordedExecutions:
    """Executions of the journal: every second one is learned from, the others are played.

    A recorded change happened some time before the look that saw it. Played as recorded, whoever looks at the
    same distances would always look at the very moment of a change; so each is moved back by a part of the
    interval, by chance.
    """

    samples: Sequence[Sample]
    phases: Phased = EXECUTION_PHASES

    def __post_init__(self) -> None:
        if len(self.samples) < FEWEST_RECORDED:
            raise InvalidInput(
                f"the journal has {len(self.samples)} ended executions of this kind, and to learn from some "
                f"and play others takes {FEWEST_RECORDED}; give durations instead: --pending 13m28s …"
            )

    def draw(self, random: Random) -> Phases:
        seen = random.choice(self.samples[1::2]).seconds
        moved, before = {}, 0.0
        for phase in ExecutionPhase:
            if phase in seen:
                back = random.random() * min(self.phases.in_phase(phase).delay, seen[phase])
                moved[phase] = max(seen[phase] + before - back, SHORTEST_SECONDS)
                before = back
        return moved

    def past(self, random: Random, count: int) -> Sequence[Sample]:
        return self.samples[::2][-count:]

    def survival(self, cells: int) -> dict[ExecutionPhase, Survival]:
        known = {
            phase: [sample.seconds[phase] for sample in self.samples if phase in sample.seconds]
            for phase in ExecutionPhase
        }
        return {
            phase: survival(durations, self.phases.in_phase(phase).delay, cells)
            for phase, durations in known.items()
            if durations
        }

"""Ways of polling side by side, played against the same executions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from longwatch.executions.cadence.ideal import ideal_plan
from longwatch.executions.cadence.learned import learn
from longwatch.executions.cadence.policies import (
    ByHistory,
    ByPhase,
    Ideal,
    Phases,
    Policy,
    Score,
    Ticking,
    play,
    score,
    score_of,
)
from longwatch.executions.cadence.samples import SampleWorld
from longwatch.executions.cadence.survival import Survival
from longwatch.executions.due import ExecutionPhase

FIXED_SECONDS = 30.0  # the DRS executions requirements compare with it
FLOOR_SECONDS = 60.0  # an EventBridge rule fires no more often
HISTORIES = 10  # to learn from, each for a part of the executions: one alone may be a lucky one
TRUTH_CELLS = 400
PRICES = (0.1, 1000.0)  # seconds of delay that a call is worth, in the search for the best possible
_HALVINGS = 9
CURVE_PRICES = tuple(0.4 * 2.0**power for power in range(9))  # seconds of delay that a call is worth

FIXED, PLAIN, FLOOR, LEARNED, BEST = "every 30 s", "45/15/30", "every 60 s", "learned", "best possible"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What each way of polling took."""

    scores: dict[str, Score]
    learned: tuple[ExecutionPhase, ...]  # phases for which there was something to learn
    plain: tuple[ExecutionPhase, ...]  # phases for which there was not
    best: tuple[tuple[float, float], ...]  # calls and delay of the best possible, for other numbers of calls

    def calls_against(self, name: str, other: str) -> float:
        """The calls of one as a share of another's."""
        return self.scores[name].calls / self.scores[other].calls

    def delay_against(self, name: str, other: str) -> float:
        """The mean delay of one as a share of another's."""
        return self.scores[name].delay / max(self.scores[other].delay, 1e-9)


def compare(world: SampleWorld, *, runs: int, history: int, seed: int) -> Comparison:
    """Play every way of polling against the same executions; the seed decides everything."""
    random = Random(f"{seed} executions")
    executions = [world.draw(random) for _ in range(runs)]
    plain: dict[str, Policy] = {
        FIXED: Ticking(FIXED_SECONDS),
        PLAIN: ByPhase(),
        FLOOR: Ticking(FLOOR_SECONDS),
    }
    scores = {name: score(each, executions, Random(f"{seed} luck")) for name, each in plain.items()}
    lessons = [learn(world.past(Random(f"{seed} past {each}"), history)) for each in range(HISTORIES)]
    scores[LEARNED] = score_of(
        [play(ByHistory(lessons[number % HISTORIES]), each) for number, each in enumerate(executions)]
    )
    truth = world.survival(TRUTH_CELLS)
    curve = [score(_ideal(truth, price), executions, Random()) for price in CURVE_PRICES]
    scores[BEST] = _best(truth, executions, scores[PLAIN].calls)
    learned = tuple(phase for phase in truth if any(phase in each.plans for each in lessons))
    return Comparison(
        scores,
        learned=learned,
        plain=tuple(phase for phase in truth if phase not in learned),
        best=tuple(sorted((each.calls, each.delay) for each in curve)),
    )


def _best(truth: Mapping[ExecutionPhase, Survival], executions: Sequence[Phases], calls: float) -> Score:
    """The best possible with no more calls than this: the price of a call is halved in until it fits."""
    low, high = PRICES
    best = score(_ideal(truth, high), executions, Random())
    for _ in range(_HALVINGS):
        price = math.sqrt(low * high)
        tried = score(_ideal(truth, price), executions, Random())
        if tried.calls > calls:
            low = price
        else:
            high, best = price, tried
    return best


def _ideal(truth: Mapping[ExecutionPhase, Survival], price: float) -> Ideal:
    return Ideal({phase: ideal_plan(each, price) for phase, each in truth.items()})

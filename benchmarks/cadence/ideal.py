"""The best possible polling without foresight, found by trying every plan.

It is given the true distribution and the true beginning of each phase, and may wait as long as it likes. No
policy does better with as many calls, except by luck; the distance to it is what is left to gain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from random import Random

from longwatch.executions.cadence.learned import Survival
from longwatch.executions.cadence.simulation import Phases, Score, score
from longwatch.executions.due import ExecutionPhase

TRUTH_CELLS = 400
PRICES = (0.1, 1000.0)  # seconds of delay that a call is worth, in the search for the best possible
CURVE_PRICES = tuple(0.4 * 2.0**power for power in range(9))  # seconds of delay that a call is worth

_HALVINGS = 9

Truth = Mapping[ExecutionPhase, Survival]


@dataclass(frozen=True, slots=True)
class IdealPlan:
    """The best next poll from each cell of one phase, for one price of a call."""

    cell: float  # seconds
    cells_ahead: tuple[int, ...]  # from each cell
    calls: float  # expected for the phase
    seconds: float  # of delay, expected

    def delay(self, elapsed: float) -> float:
        """Seconds to the next poll."""
        here = min(math.ceil(elapsed / self.cell), len(self.cells_ahead) - 1)
        return max((here + self.cells_ahead[here]) * self.cell - elapsed, self.cell)


@dataclass(frozen=True, slots=True)
class IdealPolicy:
    """The best possible, which knows when a phase began and needs no poll at the start."""

    plans: Mapping[ExecutionPhase, IdealPlan]

    def first(self, luck: float) -> float:
        return self.plans[next(phase for phase in ExecutionPhase if phase in self.plans)].delay(0.0)

    def delay(self, phase: ExecutionPhase, seen: float, actual: float) -> float:
        return self.plans[phase].delay(actual)


def ideal_plan(lasting: Survival, price: float) -> IdealPlan:
    """From the last cell back to the first: the poll that makes the rest cheapest."""
    shares, cell = lasting.shares, lasting.cell
    last = len(shares) - 1
    # The share that has ended, summed up over time: what ended between two polls waits for the later one.
    waited = [0.0, *accumulate((1 - (a + b) / 2) * cell for a, b in pairwise(shares))]
    cost = [0.0] * last + [shares[last] * (price + cell)]
    calls = [0.0] * last + [shares[last]]
    ahead = [1] * (last + 1)
    for here in range(last - 1, -1, -1):
        ended = 1 - shares[here]
        best, chosen = math.inf, here + 1
        base = waited[here]
        for there in range(here + 1, last + 1):
            delay = waited[there] - base - (there - here) * cell * ended
            if delay > best:  # it only grows, and what follows costs something too
                break
            if delay + cost[there] < best:
                best, chosen = delay + cost[there], there
        cost[here] = best + price * shares[here]
        calls[here] = shares[here] + calls[chosen]
        ahead[here] = chosen - here
    return IdealPlan(cell, tuple(ahead), calls[0], cost[0] - price * calls[0])


def best_score(truth: Truth, executions: Sequence[Phases], *, calls: float) -> Score:
    """The best possible with no more calls than this, found by bisecting the price of a call."""
    low, high = PRICES
    best = score(_policy(truth, high), executions, Random())
    for _ in range(_HALVINGS):
        price = math.sqrt(low * high)
        tried = score(_policy(truth, price), executions, Random())
        if tried.calls > calls:
            low = price
        else:
            high, best = price, tried
    return best


def best_curve(truth: Truth, executions: Sequence[Phases]) -> list[tuple[float, float]]:
    """Calls and delay of the best possible for other numbers of calls."""
    scores = [score(_policy(truth, price), executions, Random()) for price in CURVE_PRICES]
    return sorted((each.calls, each.delay) for each in scores)


def _policy(truth: Truth, price: float) -> IdealPolicy:
    return IdealPolicy({phase: ideal_plan(each, price) for phase, each in truth.items()})

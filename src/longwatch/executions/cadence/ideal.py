"""The best that anybody can do who can not see the future: how often to look, found by trying everything.

It knows the true distribution and the true beginning of each phase, and may wait as long as it likes. No
policy does better with as many calls, save by luck; how near one comes says what there is left to gain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate, pairwise

from longwatch.executions.cadence.survival import Survival


@dataclass(frozen=True, slots=True)
class IdealPlan:
    """The best next look from each cell of one phase, for one price of a call."""

    cell: float  # seconds
    cells_ahead: tuple[int, ...]  # from each cell
    calls: float  # expected for the phase
    seconds: float  # of delay, expected

    def delay(self, elapsed: float) -> float:
        """Seconds to the next look."""
        here = min(math.ceil(elapsed / self.cell), len(self.cells_ahead) - 1)
        return max((here + self.cells_ahead[here]) * self.cell - elapsed, self.cell)


def ideal_plan(lasting: Survival, price: float) -> IdealPlan:
    """From the last cell back to the first: the look that makes the rest cheapest."""
    shares, cell = lasting.shares, lasting.cell
    last = len(shares) - 1
    # The share that has ended, summed up over time: who ended between two looks waits for the later one.
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
            if delay > best:  # it only grows, and what comes after costs something too
                break
            if delay + cost[there] < best:
                best, chosen = delay + cost[there], there
        cost[here] = best + price * shares[here]
        calls[here] = shares[here] + calls[chosen]
        ahead[here] = chosen - here
    return IdealPlan(cell, tuple(ahead), calls[0], cost[0] - price * calls[0])

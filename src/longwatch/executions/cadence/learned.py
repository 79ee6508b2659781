"""Learns when to poll from past durations of a phase: rarely while nothing can happen, then often.

The best interval between two polls is proportional to one over the square root of the hazard, the chance
that the phase ends now if it has not ended yet. So an inner clock runs at the square root of the hazard, and
polls are at equal steps of it. The step is as small as possible without
expecting more calls than the plain phases make.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from statistics import fmean, median, quantiles

from longwatch.executions.cadence.history import Sample
from longwatch.executions.due import ExecutionPhase, phase_of
from longwatch.executions.model import Execution, ItemState
from longwatch.polling.schedules import EXECUTION_PHASES, Phased

FEWEST = 20  # durations to learn from
WIDEST = 1.5  # the middle 80 % over the median; a wider spread is not learned from
SLOWEST = 2.0  # × the phase's interval: an early failure must not hide for longer
QUICKEST = 1 / 6  # × the phase's interval: a source has limits
CAUTION = 0.05  # of the plain calls, over the root of the number of durations: they may be lucky ones
MAX_POLLS = 2000  # in a typical phase; planning more takes too long
WORTH_IT = 0.9  # × the delay of the plain phases: a smaller gain is not used

CELLS = 400
MOST_KERNELS = 64  # more durations than this are represented by their quantiles
SURPRISE = 0.02  # share of executions that are assumed to be like none before
WIDTHS_BEYOND = 2.5  # kernel widths past the longest duration at which the curve ends
FARTHEST = 4.0  # × the typical duration at which it ends in any case: one stray must not coarsen the cells
SHORTEST_SECONDS = 0.5

_HALVINGS = 30
_STEPS = (1e-3, 1e4)  # of the inner clock, in square roots of a second
_NO_HAZARD = 1e-12


@dataclass(frozen=True, slots=True)
class PollPlan:
    """When to poll in one phase, by the time that it has lasted."""

    interval: float  # seconds between polls in the plain phase
    cell: float  # seconds between the entries of `inner`
    inner: tuple[float, ...]  # what the inner clock shows
    step: float  # of the inner clock, from poll to poll

    def delay(self, elapsed: float) -> float:
        """Seconds to the next poll. Past the longest duration it is the plain interval."""
        position = max(elapsed, 0.0) / self.cell
        if position >= len(self.inner) - 1:
            return self.interval
        reached = position_of(self.inner, interpolate(self.inner, position) + self.step)
        wanted = self.interval if math.isinf(reached) else (reached - position) * self.cell
        return min(max(wanted, QUICKEST * self.interval), SLOWEST * self.interval)


@dataclass(frozen=True, slots=True)
class Learned:
    """A cadence with plans for some phases; the others are plain."""

    plans: Mapping[ExecutionPhase, PollPlan] = field(default_factory=dict)
    phases: Phased = EXECUTION_PHASES

    def delay(self, phase: ExecutionPhase, elapsed: float) -> float:
        """Seconds from a poll to the next, if the phase had lasted this many seconds at the poll."""
        plan = self.plans.get(phase)
        return self.phases.in_phase(phase).delay if plan is None else plan.delay(elapsed)

    def delay_for(self, execution: Execution) -> float:
        """Seconds from the last poll of the execution to the next."""
        in_phase_ms = execution.observed_at - phase_began_at(execution)
        return self.delay(phase_of(execution), in_phase_ms / 1000)


PLAIN = Learned()


def learn(samples: Iterable[Sample], phases: Phased = EXECUTION_PHASES) -> Learned:
    """Learn from past executions of one kind. A phase with too few durations stays plain."""
    known = tuple(samples)
    plans = {
        phase: plan
        for phase in ExecutionPhase
        if (plan := plan_for([each.seconds[phase] for each in known if phase in each.seconds], phases, phase))
    }
    return Learned(plans, phases)


def plan_for(durations: Sequence[float], phases: Phased, phase: ExecutionPhase) -> PollPlan | None:
    """A plan from the past durations of a phase in seconds; None if they are few, wide, or no help."""
    interval = phases.in_phase(phase).delay
    if len(durations) < FEWEST or is_wide(durations) or median(durations) > MAX_POLLS * interval:
        return None
    lasting = survival(durations, resolution=interval)
    plain_calls, plain_delay = expected_cost(lasting, lambda _: interval)
    caution = CAUTION / math.sqrt(len(durations))
    budget = max((1 - caution) * plain_calls, 1.0)  # it takes one poll to see the end
    plan = _densest(lasting, interval, budget)
    calls, delay = expected_cost(lasting, plan.delay)
    return plan if calls <= plain_calls and delay <= WORTH_IT * plain_delay else None


def is_wide(durations: Sequence[float]) -> bool:
    """Whether past durations differ too much to predict the next."""
    tenths = quantiles(durations, n=10)
    return tenths[8] - tenths[0] > WIDEST * tenths[4]


def expected_cost(lasting: Survival, delay: Callable[[float], float]) -> tuple[float, float]:
    """The expected calls and seconds of delay of a policy for one phase."""
    now, calls, seconds = 0.0, 0.0, 0.0
    while now < lasting.horizon:
        share = lasting.at(now)
        later = now + delay(now)
        calls += share
        # An end in between waits for the later poll: the area above the curve, by Simpson's rule.
        middle, last = lasting.at((now + later) / 2), lasting.at(later)
        seconds += (later - now) * (share - (share + 4 * middle + last) / 6)
        now = later
    return calls, seconds


def phase_began_at(execution: Execution) -> int:
    """When the phase that the execution is in was first seen, in epoch ms."""
    phase = phase_of(execution)
    if phase is ExecutionPhase.PENDING:
        return execution.started_at
    wanted = [
        item.since
        for _, item in execution.items()
        if item.since is not None
        and (
            item.state.is_final
            if phase is ExecutionPhase.IN_PROGRESS
            else item.state in (ItemState.IN_PROGRESS, ItemState.UNKNOWN)
        )
    ]
    return min(wanted, default=execution.started_at)


def _densest(lasting: Survival, interval: float, budget: float) -> PollPlan:
    """The plan with the smallest step whose expected calls stay within the budget."""
    inner = inner_clock(lasting)
    low, high = _STEPS
    for _ in range(_HALVINGS):
        step = math.sqrt(low * high)
        calls, _ = expected_cost(lasting, PollPlan(interval, lasting.cell, inner, step).delay)
        low, high = (step, high) if calls > budget else (low, step)
    return PollPlan(interval, lasting.cell, inner, high)


def inner_clock(lasting: Survival) -> tuple[float, ...]:
    """The time of the inner clock at each cell, which runs at the square root of the hazard."""
    ticks = (
        math.sqrt(max(math.log(share / later), _NO_HAZARD) * lasting.cell)
        for share, later in pairwise(lasting.shares)
    )
    return tuple(accumulate(ticks, initial=0.0))


@dataclass(frozen=True, slots=True)
class Survival:
    """The share of executions that are still in the phase, at times `cell` seconds apart, from 0 on."""

    shares: tuple[float, ...]  # begins with 1 and never grows
    cell: float

    @property
    def horizon(self) -> float:
        """Seconds at which the curve ends."""
        return self.cell * (len(self.shares) - 1)

    def at(self, seconds: float) -> float:
        """The share that lasts longer than this."""
        return interpolate(self.shares, seconds / self.cell)

    @classmethod
    def of(cls, share: Callable[[float], float], horizon: float, cells: int = CELLS) -> Survival:
        """From a function of the time in seconds."""
        cell = horizon / cells
        return cls((1.0, *(share(number * cell) for number in range(1, cells + 1))), cell)


def survival(durations: Sequence[float], resolution: float, cells: int = CELLS) -> Survival:
    """A smooth estimate from past durations in seconds, each uncertain by about `resolution`.

    Each duration is a kernel on a logarithmic scale, because longer durations vary more. A small share is
    reserved for surprises: an early failure, or an execution that never ends.
    """
    logs = [math.log(max(each, SHORTEST_SECONDS)) for each in _thinned(sorted(durations))]
    middle, deviation = fmean(logs), _deviation(logs)
    centre = math.exp(middle)
    width = 0.9 * deviation * len(durations) ** -0.2  # Silverman's rule
    # Kernels around the durations spread wider than the durations; drawn towards the middle they do not.
    drawn = deviation / math.hypot(deviation, width) if deviation else 1.0
    logs = [middle + (log - middle) * drawn for log in logs]
    width = max(width * drawn, math.log1p(resolution / 4 / centre))

    scale = width * math.sqrt(2)

    def share(seconds: float) -> float:
        position = math.log(seconds)
        known = sum(math.erfc((position - log) / scale) for log in logs) / (2 * len(logs))
        return (1 - SURPRISE) * known + SURPRISE * math.exp(-seconds / centre)

    horizon = min(math.exp(logs[-1] + WIDTHS_BEYOND * width), FARTHEST * centre)
    return Survival.of(share, horizon, cells)


def interpolate(values: Sequence[float], position: float) -> float:
    """Interpolate between two entries; past the last entry the value is constant."""
    low = int(position)
    if low >= len(values) - 1:
        return values[-1]
    return values[low] + (values[low + 1] - values[low]) * (position - low)


def position_of(values: Sequence[float], wanted: float) -> float:
    """The position at which growing values reach this one; infinity if they never do."""
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
    """The standard deviation estimated from the middle half, which ignores outliers."""
    if len(logs) < 2:
        return 0.0
    low, _, high = quantiles(logs, n=4)
    return (high - low) / 1.349

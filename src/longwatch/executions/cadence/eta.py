"""The remaining time of an execution, with a range, or None if there are too few past executions.

Only executions of the same size that succeeded count: a drill of 3 servers says nothing about one of 300, and
one that failed early nothing about how long success takes. The remaining time comes from those that lasted
longer in the same phase.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import quantiles

from longwatch.executions.cadence.history import ExecutionSize, Sample
from longwatch.executions.cadence.learned import phase_began_at
from longwatch.executions.due import ExecutionPhase, phase_of
from longwatch.executions.model import Execution, Mode

FEWEST = 10  # past executions, for a range
FEWEST_LIKE_IT = 5  # of them, that came as far as this one
FAR = 1.5  # × what nine of ten stay below: a phase that lasts longer is far from usual
MOST_TIMES = 2  # as many items, or half as many: beyond that the size differs
MINUTE, HOUR = 60.0, 3600.0


@dataclass(frozen=True, slots=True)
class DurationRange:
    """The range of seconds of eight in ten, and the median."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True, slots=True)
class Eta:
    """The estimate for a running execution."""

    elapsed: float  # seconds since its start
    usually: DurationRange  # the whole, from start to end
    longest: float  # past execution, in seconds
    left: DurationRange | None  # None: too few came as far as this one
    executions: int  # that it is based on
    phase: ExecutionPhase = ExecutionPhase.PENDING  # the one that it is in
    in_phase: float = 0.0  # seconds
    phase_usually: DurationRange | None = None  # how long that phase takes; None: too few were seen in it

    @property
    def is_late(self) -> bool:
        """Whether it takes longer than nine in ten."""
        return self.elapsed > self.usually.high

    @property
    def is_stuck(self) -> bool:
        """Whether it has been in its phase for far longer than usual."""
        return self.phase_usually is not None and self.in_phase > FAR * self.phase_usually.high

    def text(self) -> str:
        """For people: `usually 19–22 min, now 24`."""
        low, high, now, unit = _in_one_unit(self.usually.low, self.usually.high, self.elapsed)
        text = f"usually {_span(low, high)} {unit}, now {now}"
        if self.elapsed > self.longest:
            return f"{text}, longer than any of the last {self.executions}"
        if self.left is None:
            return text
        low, high, _, unit = _in_one_unit(self.left.low, self.left.high, 0.0)
        return f"{text}, {_span(low, high)} {unit} to go"

    def slowness(self) -> str | None:
        """What takes longer than usual, for people; None if nothing does."""
        if self.is_late:
            return self.text()
        if self.is_stuck and self.phase_usually is not None:
            low, high, now, unit = _in_one_unit(
                self.phase_usually.low, self.phase_usually.high, self.in_phase
            )
            return f"{self.phase} usually takes {_span(low, high)} {unit}, now {now}"
        return None


def comparable_samples(
    execution: Execution, own: Iterable[Sample], any_plan: Iterable[Sample]
) -> list[Sample]:
    """Past executions of the same size: of its own plan or, if these are too few, of any plan.

    Jobs of other systems are compared within their plan only: two builds have the same size and nothing else
    in common. The same holds while the items of an execution are not all listed.
    """
    same = [sample for sample in own if is_comparable(execution, sample.shape)]
    if len(same) >= FEWEST or execution.mode is Mode.JOB or not _lists_all_items(execution):
        return same
    return [sample for sample in any_plan if is_comparable(execution, sample.shape)]


def is_comparable(execution: Execution, shape: ExecutionSize | None) -> bool:
    """Whether a past execution of this size is comparable: as many stages, and about as many items."""
    if shape is None or execution.total_stages != shape.stages:
        return False
    items = sum(1 for _ in execution.items())
    if items > MOST_TIMES * shape.items:
        return False
    return not _lists_all_items(execution) or shape.items <= MOST_TIMES * items


def _lists_all_items(execution: Execution) -> bool:
    if execution.total_stages is None or len(execution.stages) < execution.total_stages:
        return False
    return all(any(True for _ in stage.items()) for stage in execution.stages)


def eta_of(execution: Execution, samples: Iterable[Sample], now_ms: int) -> Eta | None:
    """The ETA of an execution from past ones like it; None if it has ended or they are too few."""
    if execution.verdict is not None:
        return None
    return eta(
        samples,
        phase=phase_of(execution),
        in_phase=max(now_ms - phase_began_at(execution), 0) / 1000,
        elapsed=max(now_ms - execution.started_at, 0) / 1000,
    )


def eta(samples: Iterable[Sample], *, phase: ExecutionPhase, in_phase: float, elapsed: float) -> Eta | None:
    """The ETA of an execution that has been in this phase and under way for so many seconds."""
    past = [sample for sample in samples if sample.has_succeeded]
    if len(past) < FEWEST:
        return None
    wholes = [sample.whole for sample in past]
    like_it = [
        sample.whole - sample.before(phase) - in_phase
        for sample in past
        if sample.seconds.get(phase, 0.0) > in_phase
    ]
    left = range_of(like_it) if len(like_it) >= FEWEST_LIKE_IT else None
    lasted = [sample.seconds[phase] for sample in past if phase in sample.seconds]
    usual = range_of(lasted) if len(lasted) >= FEWEST else None
    return Eta(elapsed, range_of(wholes), max(wholes), left, len(past), phase, in_phase, usual)


def range_of(seconds: Sequence[float]) -> DurationRange:
    """The middle eight tenths, never wider than the values."""
    tenths = quantiles(seconds, n=10, method="inclusive")
    return DurationRange(tenths[0], tenths[4], tenths[8])


def _in_one_unit(low: float, high: float, now: float) -> tuple[str, str, str, str]:
    """Three lengths of time in the same unit, which is the one that suits the range."""
    if high < 2 * MINUTE:
        return f"{low:.0f}", f"{high:.0f}", f"{now:.0f}", "s"
    if high < 2 * HOUR:
        return f"{low / MINUTE:.0f}", f"{high / MINUTE:.0f}", f"{now / MINUTE:.0f}", "min"
    return f"{low / HOUR:.1f}", f"{high / HOUR:.1f}", f"{now / HOUR:.1f}", "h"


def _span(low: str, high: str) -> str:
    return low if low == high else f"{low}–{high}"

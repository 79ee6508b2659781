"""Ways of polling, played against executions whose phases are known: how many calls, how late the news.

A look sees which phase the execution is in at that moment and nothing else. Nobody is told when a phase
began; it is taken to begin with the look that first saw it, as in the real engine. Everything follows from
the seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import Protocol

from longwatch.executions.cadence.history import ExecutionKind, Sample
from longwatch.executions.cadence.ideal import IdealPlan
from longwatch.executions.cadence.learned import Learned
from longwatch.executions.due import ExecutionPhase
from longwatch.model.summary import Status
from longwatch.polling.schedules import EXECUTION_PHASES, Phased

Phases = Mapping[ExecutionPhase, float]  # seconds that each lasts; one that is not there is skipped

PLAYED = ExecutionKind("simulated", "JOB")


class Policy(Protocol):
    """A way of polling."""

    def first(self, luck: float) -> float:
        """Seconds from the start to the first look; `luck` is from 0 to 1."""

    def delay(self, phase: ExecutionPhase, elapsed: float, told: float) -> float:
        """Seconds to the next look: by what was seen of the phase, and by the truth for those who know it."""


@dataclass(frozen=True, slots=True)
class Ticking:
    """A rule that fires every so many seconds, whenever the execution began."""

    seconds: float

    def first(self, luck: float) -> float:
        return luck * self.seconds

    def delay(self, phase: ExecutionPhase, elapsed: float, told: float) -> float:
        return self.seconds


@dataclass(frozen=True, slots=True)
class ByPhase:
    """45, 15 and 30 seconds, after a look at the start."""

    phases: Phased = EXECUTION_PHASES

    def first(self, luck: float) -> float:
        return 0.0

    def delay(self, phase: ExecutionPhase, elapsed: float, told: float) -> float:
        return self.phases.in_phase(phase).delay


@dataclass(frozen=True, slots=True)
class ByHistory:
    """The learned cadence, after a look at the start."""

    learned: Learned

    def first(self, luck: float) -> float:
        return 0.0

    def delay(self, phase: ExecutionPhase, elapsed: float, told: float) -> float:
        return self.learned.delay(phase, elapsed)


@dataclass(frozen=True, slots=True)
class Ideal:
    """The best possible, which knows when a phase began and needs no look at the start."""

    plans: Mapping[ExecutionPhase, IdealPlan]

    def first(self, luck: float) -> float:
        return self.plans[next(phase for phase in ExecutionPhase if phase in self.plans)].delay(0.0)

    def delay(self, phase: ExecutionPhase, elapsed: float, told: float) -> float:
        return self.plans[phase].delay(told)


@dataclass(frozen=True, slots=True)
class Played:
    """What one execution took to watch."""

    calls: int
    delays: tuple[float, ...]  # seconds from each change to the look that saw it; the last is the end
    seen: Phases  # how long each phase seemed to last


def play(policy: Policy, phases: Phases, luck: float = 0.5) -> Played:
    """Watch one execution until its end was seen."""
    there = [phase for phase in ExecutionPhase if phases.get(phase, 0.0) > 0]
    ends = [sum(phases[phase] for phase in there[: number + 1]) for number in range(len(there))]
    begins = [0.0, *ends]
    now, calls, at, seen_since = policy.first(luck), 1, 0, 0.0
    delays: list[float] = []
    seen: dict[ExecutionPhase, float] = {}
    while True:
        if now >= ends[at]:
            seen[there[at]] = now - seen_since
            while at < len(ends) and now >= ends[at]:
                delays.append(now - ends[at])
                at += 1
            seen_since = now
            if at == len(ends):
                return Played(calls, tuple(delays), seen)
        now += policy.delay(there[at], now - seen_since, now - begins[at])
        calls += 1


@dataclass(frozen=True, slots=True)
class Score:
    """What a policy took over many executions."""

    calls: float  # of one execution
    delay: float  # seconds, of any change
    delay_p95: float
    delay_worst: float
    end_delay: float  # seconds, of the end alone


def score(policy: Policy, executions: Sequence[Phases], random: Random) -> Score:
    """Watch all of them."""
    return score_of([play(policy, phases, random.random()) for phases in executions])


def score_of(played: Sequence[Played]) -> Score:
    """What watching these took."""
    delays = sorted(delay for each in played for delay in each.delays)
    return Score(
        calls=fmean(each.calls for each in played),
        delay=fmean(delays),
        delay_p95=delays[min(len(delays) - 1, int(len(delays) * 0.95))],
        delay_worst=delays[-1],
        end_delay=fmean(each.delays[-1] for each in played),
    )


def watched(executions: Sequence[Phases], random: Random, policy: Policy | None = None) -> list[Sample]:
    """What the journal would say of these executions, had they been watched by the plain phases."""
    samples = []
    for phases in executions:
        seen = play(policy or ByPhase(), phases, random.random()).seen
        samples.append(Sample(PLAYED, Status.SUCCEEDED, seen, sum(seen.values())))
    return samples

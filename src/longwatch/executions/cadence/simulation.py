"""Plays polling policies against recorded executions and compares their calls and delays.

A poll sees the phase that the execution is in at that moment, and nothing else. As in the poller, a phase
counts as begun at the poll that first saw it. The seed decides everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import Protocol

from longwatch.errors import InvalidInput
from longwatch.executions.cadence.history import Sample
from longwatch.executions.cadence.learned import SHORTEST_SECONDS, Learned, learn
from longwatch.executions.due import ExecutionPhase
from longwatch.polling.schedules import EXECUTION_PHASES, Phased

MIN_RECORDED = 40  # executions: one half to learn from, one half to play
HISTORIES = 10  # to learn from, each for a part of the executions: a single one may be lucky
FIXED, PLAIN, FLOOR, LEARNED = "every 30 s", "45/15/30", "every 60 s", "learned"

Phases = Mapping[ExecutionPhase, float]  # seconds that each lasts; one that is absent is skipped


class Policy(Protocol):
    """Decides when to poll next."""

    def first(self, luck: float) -> float:
        """Seconds from the start to the first poll; `luck` is from 0 to 1."""

    def delay(self, phase: ExecutionPhase, seen: float, actual: float) -> float:
        """Seconds to the next poll, by the time since the phase was first seen, or since it began."""


@dataclass(frozen=True, slots=True)
class FixedInterval:
    """Polls at a fixed interval, wherever in it the execution begins."""

    seconds: float

    def first(self, luck: float) -> float:
        return luck * self.seconds

    def delay(self, phase: ExecutionPhase, seen: float, actual: float) -> float:
        return self.seconds


@dataclass(frozen=True, slots=True)
class LearnedPolicy:
    """Polls at the start, then as the learned cadence decides. Without a history: 45, 15 and 30 seconds."""

    learned: Learned

    def first(self, luck: float) -> float:
        return 0.0

    def delay(self, phase: ExecutionPhase, seen: float, actual: float) -> float:
        return self.learned.delay(phase, seen)


@dataclass(frozen=True, slots=True)
class PlayedExecution:
    """The polls that one execution took."""

    calls: int
    delays: tuple[float, ...]  # seconds from each change to the poll that saw it; the last is the end
    seen: Phases  # how long each phase seemed to last


def play(policy: Policy, phases: Phases, luck: float = 0.5) -> PlayedExecution:
    """Poll one execution until a poll sees its end."""
    order = [phase for phase in ExecutionPhase if phases.get(phase, 0.0) > 0]
    ends = [sum(phases[phase] for phase in order[: number + 1]) for number in range(len(order))]
    begins = [0.0, *ends]
    now, calls, at, seen_since = policy.first(luck), 1, 0, 0.0
    delays: list[float] = []
    seen: dict[ExecutionPhase, float] = {}
    while True:
        if now >= ends[at]:
            seen[order[at]] = now - seen_since
            while at < len(ends) and now >= ends[at]:
                delays.append(now - ends[at])
                at += 1
            seen_since = now
            if at == len(ends):
                return PlayedExecution(calls, tuple(delays), seen)
        now += policy.delay(order[at], now - seen_since, now - begins[at])
        calls += 1


@dataclass(frozen=True, slots=True)
class Score:
    """The calls and delays of a policy over many executions."""

    calls: float  # mean of one execution
    delay: float  # seconds, mean of all changes
    delay_p95: float
    delay_worst: float
    end_delay: float  # seconds, mean of the last changes

    @classmethod
    def of(cls, played: Sequence[PlayedExecution]) -> Score:
        delays = sorted(delay for each in played for delay in each.delays)
        return cls(
            calls=fmean(each.calls for each in played),
            delay=fmean(delays),
            delay_p95=delays[min(len(delays) - 1, int(len(delays) * 0.95))],
            delay_worst=delays[-1],
            end_delay=fmean(each.delays[-1] for each in played),
        )


def score(policy: Policy, executions: Sequence[Phases], random: Random) -> Score:
    """Play the policy against all of them."""
    return Score.of([play(policy, phases, random.random()) for phases in executions])


class ExecutionSampler(Protocol):
    """Executions of one kind: some to play, and others to learn from."""

    def draw(self, random: Random) -> Phases:
        """One execution to play."""

    def past(self, random: Random, count: int) -> Sequence[Sample]:
        """What a journal contains of earlier executions, none of which is drawn."""


@dataclass(frozen=True, slots=True)
class RecordedExecutions:
    """Executions of the journal: every second one is learned from, the others are played.

    A recorded change happened some time before the poll that saw it. A policy with the same intervals would
    otherwise poll at the very moment of each change, so every change is moved back by a random part of the
    interval.
    """

    samples: Sequence[Sample]
    phases: Phased = EXECUTION_PHASES

    def __post_init__(self) -> None:
        if len(self.samples) < MIN_RECORDED:
            raise InvalidInput(
                f"The journal has {len(self.samples)} ended executions of this kind, and the comparison "
                f"needs {MIN_RECORDED}. Choose another kind with --source, --mode or --plan."
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


@dataclass(frozen=True, slots=True)
class Comparison:
    """The score of each policy against the same executions."""

    scores: Mapping[str, Score]
    learned: tuple[ExecutionPhase, ...]  # phases with something to learn
    plain: tuple[ExecutionPhase, ...]  # phases without

    def call_ratio(self, name: str, other: str) -> float:
        """The calls of one policy as a share of another's."""
        return self.scores[name].calls / self.scores[other].calls

    def delay_ratio(self, name: str, other: str) -> float:
        """The mean delay of one policy as a share of another's."""
        return self.scores[name].delay / max(self.scores[other].delay, 1e-9)


def draw_executions(sampler: ExecutionSampler, *, runs: int, seed: int) -> list[Phases]:
    """The executions that `compare` plays for this seed."""
    random = Random(f"{seed} executions")
    return [sampler.draw(random) for _ in range(runs)]


def compare(sampler: ExecutionSampler, *, runs: int, history: int, seed: int) -> Comparison:
    """Play fixed, plain and learned polling against the same executions."""
    executions = draw_executions(sampler, runs=runs, seed=seed)
    policies: dict[str, Policy] = {
        FIXED: FixedInterval(30.0),  # the DRS executions requirements compare with it
        PLAIN: LearnedPolicy(Learned()),
        FLOOR: FixedInterval(60.0),  # an EventBridge rule fires no more often
    }
    scores = {name: score(each, executions, Random(f"{seed} luck")) for name, each in policies.items()}
    cadences = [learn(sampler.past(Random(f"{seed} past {each}"), history)) for each in range(HISTORIES)]
    scores[LEARNED] = Score.of(
        [play(LearnedPolicy(cadences[number % HISTORIES]), each) for number, each in enumerate(executions)]
    )
    phases = [phase for phase in ExecutionPhase if any(phase in each for each in executions)]
    learned = tuple(phase for phase in phases if any(phase in each.plans for each in cadences))
    return Comparison(scores, learned, tuple(phase for phase in phases if phase not in learned))

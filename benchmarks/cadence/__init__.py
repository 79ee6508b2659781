"""What learning from history saves in calls and delay against 45/15/30, and what a false history costs.

Nothing here is timed. Executions are drawn by seeds, so that every machine prints the same figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from benchmarks.cadence.durations import DRILL, GivenDurations, polled_samples
from benchmarks.harness import Goal, Result

from longwatch.executions.cadence.learned import SLOWEST, Learned, learn
from longwatch.executions.cadence.simulation import LearnedPolicy, Phases, PlayedExecution, Score, play
from longwatch.executions.due import ExecutionPhase
from longwatch.polling.schedules import EXECUTION_PHASES

SPREAD = 0.25
HISTORY = 100  # past executions
FIRST_SEED = 1000  # the constants of the learning were chosen with others
HEADINGS = ("executions", "calls", "× 45/15/30", "delay, s", "× 45/15/30", "worst delay, s")

Draw = Callable[[Random], Phases]
Twist = Callable[[Phases, Random], Phases]


def measure(*, quick: bool) -> list[Result]:
    """The table of histories that are true, and that of those that mislead."""
    histories, runs = (8, 100) if quick else (24, 200)
    return [_true(histories, runs), _false(histories, runs)]


@dataclass(frozen=True, slots=True)
class Pair:
    """The same executions watched in two ways, a list for each history."""

    plain: Sequence[Sequence[PlayedExecution]]
    learned: Sequence[Sequence[PlayedExecution]]

    @property
    def calls(self) -> float:
        return Score.of(_joined(self.learned)).calls / Score.of(_joined(self.plain)).calls

    @property
    def delay(self) -> float:
        return Score.of(_joined(self.learned)).delay / Score.of(_joined(self.plain)).delay

    def row(self, name: str) -> tuple[object, ...]:
        ours = Score.of(_joined(self.learned))
        return name, ours.calls, self.calls, ours.delay, self.delay, ours.delay_worst

    def by_history(self) -> list[tuple[float, float]]:
        """The ratios of calls and of delay for each history alone."""
        scores = [(Score.of(a), Score.of(b)) for a, b in zip(self.learned, self.plain, strict=True)]
        return [(ours.calls / plain.calls, ours.delay / plain.delay) for ours, plain in scores]


def _true(histories: int, runs: int) -> Result:
    drawn: dict[str, tuple[Draw, int]] = {
        f"spread {spread:.0%}, history of {past}": (GivenDurations(DRILL, spread).draw, past)
        for spread, past in ((0.1, HISTORY), (SPREAD, 20), (SPREAD, 50), (SPREAD, HISTORY), (0.5, HISTORY))
    }
    drawn[f"spread {SPREAD:.0%}, normal instead of log-normal"] = (_normal, HISTORY)
    given = {
        name: _watched(draw, past=past, histories=histories, runs=runs)
        for name, (draw, past) in drawn.items()
    }
    pair = given[f"spread {SPREAD:.0%}, history of {HISTORY}"]
    calls, delays = zip(*pair.by_history(), strict=True)
    return Result(
        "Learned cadence",
        HEADINGS,
        [each.row(name) for name, each in given.items()],
        [
            Goal(f"calls / those of 45/15/30 at {SPREAD:.0%} spread", pair.calls, 1.0),
            Goal(f"delay / that of 45/15/30 at {SPREAD:.0%} spread", pair.delay, 0.6),
        ],
        (
            f"{histories} histories, each as 45/15/30 saw it, and {runs} fresh executions for each. Single "
            f"histories of {HISTORY} at {SPREAD:.0%}: {min(calls):.2f} to {max(calls):.2f} × the calls, "
            f"{min(delays):.2f} to {max(delays):.2f} × the delay.",
        ),
    )


def _false(histories: int, runs: int) -> Result:
    twists: dict[str, Twist] = {
        "half as long as before": lambda phases, _: _times(phases, 0.5),
        "twice as long as before": lambda phases, _: _times(phases, 2.0),
        "five times as long as before": lambda phases, _: _times(phases, 5.0),
        "failed while pending, at any time": _failing,
    }
    given = {
        name: _watched(
            GivenDurations(DRILL, SPREAD).draw, past=HISTORY, histories=histories, runs=runs, twist=twist
        )
        for name, twist in twists.items()
    }
    slowest = SLOWEST * max(EXECUTION_PHASES.in_phase(phase).delay for phase in ExecutionPhase)
    worst = max(Score.of(_joined(pair.learned)).delay_worst for pair in given.values())
    most_calls = max(pair.calls for pair in given.values())
    return Result(
        "Learned cadence, misled by its history",
        HEADINGS,
        [each.row(name) for name, each in given.items()],
        [
            Goal("worst delay / twice the longest interval", worst / slowest, 1.0),
            Goal("most calls / those of 45/15/30", most_calls, 2.0),
        ],
    )


def _watched(draw: Draw, *, past: int, histories: int, runs: int, twist: Twist | None = None) -> Pair:
    plain: list[list[PlayedExecution]] = []
    learned: list[list[PlayedExecution]] = []
    for seed in range(FIRST_SEED, FIRST_SEED + histories):
        random = Random(seed)
        ours = LearnedPolicy(learn(polled_samples([draw(random) for _ in range(past)], random)))
        executions = [draw(random) for _ in range(runs)]
        if twist is not None:
            executions = [twist(phases, random) for phases in executions]
        plain.append([play(LearnedPolicy(Learned()), phases) for phases in executions])
        learned.append([play(ours, phases) for phases in executions])
    return Pair(plain, learned)


def _joined(played: Sequence[Sequence[PlayedExecution]]) -> list[PlayedExecution]:
    return [each for part in played for each in part]


def _normal(random: Random) -> Phases:
    return {phase: max(seconds * random.gauss(1, SPREAD), 1.0) for phase, seconds in DRILL.items()}


def _times(phases: Phases, factor: float) -> Phases:
    return {phase: seconds * factor for phase, seconds in phases.items()}


def _failing(phases: Phases, random: Random) -> Phases:
    return {ExecutionPhase.PENDING: phases[ExecutionPhase.PENDING] * random.uniform(0.01, 1.0)}

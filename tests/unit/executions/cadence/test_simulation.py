from __future__ import annotations

from random import Random
from statistics import fmean

import pytest
from benchmarks.cadence.durations import DRILL, GivenDurations
from hypothesis import given, settings
from hypothesis import strategies as st

from longwatch.errors import InvalidInput
from longwatch.executions.cadence.learned import Learned, learn
from longwatch.executions.cadence.simulation import (
    FIXED,
    FLOOR,
    MIN_RECORDED,
    PLAIN,
    FixedInterval,
    LearnedPolicy,
    Phases,
    RecordedExecutions,
    compare,
    play,
    score,
)
from longwatch.executions.due import ExecutionPhase
from tests.unit.executions.cadence.samples import drills, sample

INTERVALS = {ExecutionPhase.PENDING: 45.0, ExecutionPhase.STARTED: 15.0, ExecutionPhase.IN_PROGRESS: 30.0}


PLAIN_POLICY = LearnedPolicy(Learned())


def phases(*seconds: float) -> Phases:
    return dict(zip(ExecutionPhase, seconds, strict=False))


@pytest.mark.parametrize(
    ("lasts", "calls", "delays"),
    [
        (phases(90, 30, 60), 7, (0, 0, 0)),  # at the exact boundaries: 0 45 90, 105 120, 150 180
        (phases(91, 30, 60), 6, (44, 14, 14)),  # 0 45 90 135, where two are seen, 165 195
        (phases(10, 10, 10), 2, (35, 25, 15)),  # all changes seen by one poll
        (phases(100), 4, (35,)),
    ],
)
def test_plain_phases_poll_at_the_start_and_then_by_the_phase_they_saw(
    lasts: Phases, calls: int, delays: tuple[float, ...]
) -> None:
    played = play(PLAIN_POLICY, lasts)

    assert (played.calls, played.delays) == (calls, delays)


def test_a_rule_fires_whenever_the_execution_began() -> None:
    assert play(FixedInterval(60), phases(100), luck=0.0).delays == (20.0,)
    assert play(FixedInterval(60), phases(100), luck=0.5).delays == (50.0,)


def test_a_phase_seems_to_last_from_poll_to_poll() -> None:
    assert play(PLAIN_POLICY, phases(50, 50, 50)).seen == {
        ExecutionPhase.PENDING: 90.0,
        ExecutionPhase.STARTED: 15.0,
        ExecutionPhase.IN_PROGRESS: 60.0,
    }


@settings(max_examples=40)
@given(
    lasts=st.tuples(*[st.floats(1.0, 5000.0)] * 3),
    history=st.integers(0, 3),
    luck=st.floats(0, 1),
)
def test_no_history_delays_a_change_beyond_twice_the_interval_of_its_phase(
    lasts: tuple[float, ...], history: int, luck: float
) -> None:
    learned = LearnedPolicy(CADENCES[history])

    played = play(learned, phases(*lasts), luck)

    assert len(played.delays) == 3
    assert all(0 <= delay <= 90.0 + 1e-6 for delay in played.delays)
    assert played.delays[0] <= 2 * INTERVALS[ExecutionPhase.PENDING]


CADENCES = [
    learn(drills(30)),
    learn(drills(100, spread=0.05)),
    learn([sample(20.0 + number / 10, 30.0, 40.0) for number in range(40)]),
    learn([]),
]


def test_learning_from_the_history_takes_no_more_calls_and_much_less_delay() -> None:
    world, random = GivenDurations(DRILL, 0.25), Random(3)
    executions = [world.draw(random) for _ in range(400)]
    cadences = [learn(drills(100, seed=seed)) for seed in range(4)]

    plain = score(PLAIN_POLICY, executions, random)
    learned = [score(LearnedPolicy(each), executions, random) for each in cadences]

    assert fmean(each.calls for each in learned) <= plain.calls
    assert fmean(each.delay for each in learned) <= 0.62 * plain.delay


def test_the_same_seed_plays_the_same() -> None:
    world = GivenDurations(DRILL, 0.25)

    first, second, other = (compare(world, runs=40, history=0, seed=seed) for seed in (7, 7, 8))

    assert first == second
    assert first != other


def test_forty_percent_fewer_calls_are_out_of_reach_of_45_15_30() -> None:
    """Even if everything were pending: 45 s is a third fewer than 30 s, and no phase is slower."""
    everything_pending = compare(
        GivenDurations({ExecutionPhase.PENDING: 3000.0}, 0.25), runs=200, history=0, seed=1
    )
    observed = compare(GivenDurations(phases(808, 0, 376), 0.25), runs=200, history=0, seed=1)

    assert everything_pending.call_ratio(PLAIN, FIXED) > 0.65
    assert observed.call_ratio(PLAIN, FIXED) == pytest.approx(0.78, abs=0.02)
    assert observed.scores[FLOOR].delay == pytest.approx(30.0, abs=3.0)


def test_recorded_durations_are_moved_off_the_polls_that_saw_them() -> None:
    seen = [sample(810.0, 75.0, 300.0) for _ in range(MIN_RECORDED)]
    random = Random(1)

    drawn = [RecordedExecutions(seen).draw(random) for _ in range(300)]

    assert all(765.0 < each[ExecutionPhase.PENDING] <= 810.0 for each in drawn)
    assert all(60.0 < each[ExecutionPhase.STARTED] <= 120.0 for each in drawn)
    assert fmean(each[ExecutionPhase.PENDING] for each in drawn) == pytest.approx(787.5, abs=5)


def test_simulated_executions_are_not_those_that_were_learned_from() -> None:
    samples = [sample(float(100 + number)) for number in range(MIN_RECORDED)]
    world = RecordedExecutions(samples)

    learned = {each.whole for each in world.past(Random(1), 1000)}

    assert len(learned) == MIN_RECORDED / 2
    assert all(whole % 2 == 0 for whole in learned)


def test_too_few_recorded_executions_are_refused() -> None:
    with pytest.raises(InvalidInput, match="3 ended executions"):
        RecordedExecutions([sample(1.0)] * 3)

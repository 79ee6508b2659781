from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longwatch.executions.cadence.learned import (
    FEWEST,
    PLAIN,
    QUICKEST,
    SLOWEST,
    Learned,
    expected_cost,
    learn,
    phase_began_at,
    plan_for,
    survival,
)
from longwatch.executions.due import ExecutionPhase
from longwatch.executions.model import ItemState
from longwatch.polling.schedules import EXECUTION_PHASES
from tests.unit.executions.cadence.samples import START_MS, drills, execution, sample

PENDING, BUSY, DONE = ItemState.PENDING, ItemState.IN_PROGRESS, ItemState.DONE
INTERVALS = {ExecutionPhase.PENDING: 45.0, ExecutionPhase.STARTED: 15.0, ExecutionPhase.IN_PROGRESS: 30.0}


@pytest.fixture(scope="module")
def learned() -> Learned:
    return learn(drills(100))


def test_without_history_the_phases_are_plain() -> None:
    for phase, interval in INTERVALS.items():
        assert PLAIN.delay(phase, 0.0) == interval
        assert PLAIN.delay(phase, 1e6) == interval


def test_polls_are_rare_while_nothing_can_happen_and_dense_around_the_expected_change(
    learned: Learned,
) -> None:
    assert learned.delay(ExecutionPhase.PENDING, 0.0) == 90.0
    assert learned.delay(ExecutionPhase.PENDING, 200.0) == 90.0
    assert learned.delay(ExecutionPhase.PENDING, 808.0) < 25.0


def test_past_every_duration_of_the_history_the_phase_is_plain_again(learned: Learned) -> None:
    assert learned.delay(ExecutionPhase.PENDING, 10_000.0) == 45.0


@pytest.mark.parametrize("count", [0, 1, FEWEST - 1])
def test_a_thin_history_teaches_nothing(count: int) -> None:
    assert learn(drills(count)).plans == {}


def test_a_wide_history_teaches_nothing() -> None:
    random = Random(1)

    assert learn([sample(random.expovariate(1 / 800)) for _ in range(200)]).plans == {}


def test_a_phase_that_is_too_long_to_plan_stays_plain() -> None:
    assert learn([sample(86_400.0 * 10 + number) for number in range(50)]).plans == {}


def test_a_stray_among_many_changes_little() -> None:
    without, with_one = learn(drills(100)), learn([*drills(100), sample(200_000.0, 76.0, 300.0)])

    for elapsed in (0.0, 400.0, 700.0, 808.0, 1000.0):
        assert with_one.delay(ExecutionPhase.PENDING, elapsed) == pytest.approx(
            without.delay(ExecutionPhase.PENDING, elapsed), rel=0.25
        )


def test_only_phases_with_a_history_are_learned() -> None:
    learned = learn([sample(800.0 + number) for number in range(50)])

    assert list(learned.plans) == [ExecutionPhase.PENDING]
    assert learned.delay(ExecutionPhase.IN_PROGRESS, 100.0) == 30.0


DURATIONS = st.lists(
    st.floats(0.001, 1e5, allow_nan=False) | st.integers(0, 20_000).map(float), min_size=0, max_size=60
)


@settings(max_examples=60)
@given(durations=DURATIONS, elapsed=st.floats(-10.0, 1e6), phase=st.sampled_from(ExecutionPhase))
def test_no_history_makes_it_slower_than_twice_the_interval_or_quicker_than_its_sixth(
    durations: list[float], elapsed: float, phase: ExecutionPhase
) -> None:
    learned = learn([sample(*[each] * 3) for each in durations])

    delay = learned.delay(phase, elapsed)

    assert QUICKEST * INTERVALS[phase] <= delay <= SLOWEST * INTERVALS[phase]


@settings(max_examples=30)
@given(
    middle=st.floats(20.0, 3000.0),
    spread=st.floats(0.0, 0.6),
    seed=st.integers(0, 1000),
    phase=st.sampled_from(ExecutionPhase),
)
def test_a_plan_expects_no_more_calls_than_the_plain_phase_and_less_delay(
    middle: float, spread: float, seed: int, phase: ExecutionPhase
) -> None:
    random = Random(seed)
    durations = [max(middle * random.gauss(1, spread), 1.0) for _ in range(40)]
    interval = INTERVALS[phase]

    plan = plan_for(durations, EXECUTION_PHASES, phase)

    if plan is not None:
        lasting = survival(durations, interval)
        plain: Callable[[float], float] = lambda _: interval  # noqa: E731
        calls, delay = expected_cost(lasting, plan.delay)
        plain_calls, plain_delay = expected_cost(lasting, plain)
        assert calls <= plain_calls
        assert delay <= 0.9 * plain_delay


def test_a_phase_begins_when_it_was_first_seen() -> None:
    later = START_MS + 5000

    assert phase_began_at(execution(PENDING, at=later)) == START_MS
    assert phase_began_at(execution(BUSY, PENDING, at=later)) == later
    assert phase_began_at(execution(DONE, BUSY, at=later)) == later
    assert phase_began_at(execution()) == START_MS


def test_an_execution_is_polled_by_the_time_its_phase_had_lasted_at_the_last_poll(
    learned: Learned,
) -> None:
    fresh = execution(PENDING, last_answer_at=START_MS)
    expecting = execution(PENDING, last_answer_at=START_MS + 808_000)

    assert learned.delay_for(fresh) == 90.0
    assert learned.delay_for(expecting) == learned.delay(ExecutionPhase.PENDING, 808.0)
    assert learned.delay_for(execution(PENDING)) == 90.0

from __future__ import annotations

from dataclasses import replace
from random import Random
from statistics import fmean

import pytest
from benchmarks.cadence.durations import DRILL, GivenDurations

from longwatch.executions.cadence.eta import (
    FEWEST,
    DurationRange,
    Eta,
    comparable_samples,
    eta,
    eta_of,
    is_comparable,
)
from longwatch.executions.cadence.history import ExecutionSize, Sample
from longwatch.executions.due import ExecutionPhase
from longwatch.executions.model import Evidence, Execution, ItemState, Job, Mode, Stage, Verdict, WorkItem
from longwatch.model.summary import Status
from tests.unit.executions.cadence.samples import START_MS, drills, execution, sample

MINUTE = 60.0


def past(*, status: Status = Status.SUCCEEDED) -> list[Sample]:
    """Executions of 19 to 22 minutes: 13 to 16 pending, then one started and five in progress."""
    return [sample((13 + step / 10) * MINUTE, MINUTE, 5 * MINUTE, status=status) for step in range(31)]


def at(minutes: float, phase: ExecutionPhase = ExecutionPhase.PENDING, in_phase: float | None = None) -> Eta:
    lasted = minutes if in_phase is None else in_phase
    estimate = eta(past(), phase=phase, in_phase=lasted * MINUTE, elapsed=minutes * MINUTE)
    assert estimate is not None
    return estimate


@pytest.mark.parametrize(
    ("minutes", "phase", "in_phase", "words"),
    [
        (7, ExecutionPhase.PENDING, 7, "usually 19–22 min, now 7, 12–15 min to go"),
        (15, ExecutionPhase.STARTED, 0.5, "usually 19–22 min, now 15, 6 min to go"),
        (21, ExecutionPhase.IN_PROGRESS, 4.5, "usually 19–22 min, now 21, 30 s to go"),
        (21.5, ExecutionPhase.IN_PROGRESS, 6, "usually 19–22 min, now 22"),
        (24, ExecutionPhase.IN_PROGRESS, 8, "usually 19–22 min, now 24, longer than any of the last 31"),
    ],
)
def test_the_eta_has_the_usual_duration_the_present_one_and_the_rest(
    minutes: float, phase: ExecutionPhase, in_phase: float, words: str
) -> None:
    assert at(minutes, phase, in_phase).text() == words


@pytest.mark.parametrize(
    ("usually", "elapsed", "words"),
    [
        (DurationRange(19, 20, 42), 25, "usually 19–42 s, now 25"),
        (DurationRange(200, 200, 210), 60, "usually 3–4 min, now 1"),
        (DurationRange(300, 300, 301), 60, "usually 5 min, now 1"),
        (DurationRange(9000, 9500, 10_000), 3600, "usually 2.5–2.8 h, now 1.0"),
    ],
)
def test_a_range_is_shown_in_a_suitable_unit(usually: DurationRange, elapsed: float, words: str) -> None:
    assert Eta(elapsed, usually, longest=1e6, left=None, executions=30).text() == words


def test_an_execution_that_takes_longer_than_nine_of_ten_is_late() -> None:
    assert not at(20).is_late
    assert at(22).is_late


def test_the_remaining_time_is_that_of_those_that_lasted_as_long() -> None:
    left = at(15.5, ExecutionPhase.PENDING, 15.5).left

    assert left is not None
    assert 6.0 * MINUTE < left.low <= left.middle <= left.high <= 6.5 * MINUTE


def test_a_thin_history_gives_no_eta() -> None:
    assert eta(past()[: FEWEST - 1], phase=ExecutionPhase.PENDING, in_phase=0, elapsed=0) is None
    assert eta([], phase=ExecutionPhase.PENDING, in_phase=0, elapsed=0) is None


def test_failed_executions_do_not_count_for_the_duration_of_success() -> None:
    failed = past(status=Status.FAILED)

    assert eta(failed, phase=ExecutionPhase.PENDING, in_phase=0, elapsed=0) is None
    assert eta([*past(), *failed], phase=ExecutionPhase.PENDING, in_phase=0, elapsed=0) == at(0)


def test_without_enough_executions_of_that_duration_the_rest_is_unknown() -> None:
    assert at(15.7, ExecutionPhase.PENDING, 15.7).left is None


def test_the_eta_uses_the_phase_and_the_time_of_the_execution() -> None:
    busy = execution(ItemState.IN_PROGRESS, at=START_MS + 840_000)

    estimate = eta_of(busy, past(), START_MS + 870_000)

    assert estimate == at(14.5, ExecutionPhase.STARTED, 0.5)


def test_an_execution_that_is_over_has_no_eta() -> None:
    over = replace(
        execution(ItemState.DONE),
        verdict=Verdict(Status.SUCCEEDED, START_MS, (Evidence("drs:DescribeJobs", START_MS),)),
    )

    assert eta_of(over, past(), START_MS + 1000) is None


def test_about_eight_of_ten_new_executions_end_within_their_estimated_range() -> None:
    random, world = Random(5), GivenDurations(DRILL, 0.25)
    past, inside = drills(200), []
    for _ in range(500):
        fresh = world.draw(random)
        estimate = eta(past, phase=ExecutionPhase.PENDING, in_phase=600.0, elapsed=600.0)
        if fresh[ExecutionPhase.PENDING] > 600.0 and estimate is not None and estimate.left is not None:
            inside.append(estimate.left.low <= sum(fresh.values()) - 600.0 <= estimate.left.high)

    assert 0.72 <= fmean(inside) <= 0.88


def waves(*counts: int, total: int) -> Execution:
    """An execution with waves of so many listed items each."""
    made = tuple(
        Stage(f"w{at}", (Job(f"j{at}", items=tuple(WorkItem(f"s-{n}") for n in range(count))),))
        for at, count in enumerate(counts)
    )
    return execution(stages=made, total_stages=total)


@pytest.mark.parametrize(
    ("counts", "total", "shape", "alike"),
    [
        ((4,), 1, ExecutionSize(1, 4), True),
        ((4,), 1, ExecutionSize(1, 8), True),
        ((4,), 1, ExecutionSize(1, 2), True),
        ((4,), 1, ExecutionSize(1, 9), False),
        ((4,), 1, ExecutionSize(1, 1), False),
        ((4,), 1, ExecutionSize(2, 4), False),
        ((4,), 1, None, False),
        ((4, 0), 2, ExecutionSize(2, 300), True),  # not all of its items are listed yet
        ((4, 0), 2, ExecutionSize(2, 1), False),
        ((4,), 3, ExecutionSize(3, 300), True),
        ((4,), 3, ExecutionSize(1, 4), False),
    ],
)
def test_only_executions_of_the_same_shape_are_compared(
    counts: tuple[int, ...], total: int, shape: ExecutionSize | None, alike: bool
) -> None:
    assert is_comparable(waves(*counts, total=total), shape) is alike


def test_an_execution_of_unknown_wave_count_is_compared_with_none() -> None:
    assert not is_comparable(execution(ItemState.PENDING, total_stages=None), ExecutionSize(1, 1))


def test_its_own_plan_counts_first_then_other_plans_of_the_same_shape() -> None:
    mine = [sample(100.0, shape=ExecutionSize(1, 1)) for _ in range(FEWEST)]
    others = [sample(9.0, shape=ExecutionSize(1, 1)), sample(9.0, shape=ExecutionSize(1, 50))]
    pending = execution(ItemState.PENDING)

    assert comparable_samples(pending, mine, others) == mine
    assert comparable_samples(pending, mine[1:], [*mine[1:], *others]) == [*mine[1:], others[0]]
    assert comparable_samples(replace(pending, mode=Mode.JOB), mine[1:], [*mine[1:], *others]) == mine[1:]
    assert comparable_samples(waves(1, total=2), (), others) == []

"""The phase comes from the servers, and from nothing else."""

from __future__ import annotations

import pytest

from longwatch.watching.model import ServerState, Wave
from longwatch.watching.phases import Phase, delay_of, phase_of
from tests.unit.watching.making import (
    CANCELLED,
    FAILED,
    IN_PROGRESS,
    LAUNCHED,
    PENDING,
    TERMINATED,
    drill,
    execution,
    job,
)


@pytest.mark.parametrize(
    ("states", "phase", "seconds"),
    [
        ((), Phase.PENDING, 45.0),
        ((PENDING,), Phase.PENDING, 45.0),
        ((PENDING, PENDING), Phase.PENDING, 45.0),
        ((IN_PROGRESS,), Phase.STARTED, 15.0),
        ((PENDING, IN_PROGRESS), Phase.STARTED, 15.0),
        ((ServerState.UNKNOWN, PENDING), Phase.STARTED, 15.0),
        ((LAUNCHED, PENDING), Phase.IN_PROGRESS, 30.0),
        ((LAUNCHED, IN_PROGRESS), Phase.IN_PROGRESS, 30.0),
        ((FAILED, PENDING), Phase.IN_PROGRESS, 30.0),
        ((TERMINATED, IN_PROGRESS), Phase.IN_PROGRESS, 30.0),
        ((CANCELLED, IN_PROGRESS), Phase.IN_PROGRESS, 30.0),
        ((LAUNCHED,), Phase.IN_PROGRESS, 30.0),
    ],
)
def test_the_phase_decides_how_often_to_ask(
    states: tuple[ServerState, ...], phase: Phase, seconds: float
) -> None:
    open_one = drill(*states)

    assert phase_of(open_one) is phase
    assert delay_of(open_one) == seconds


def test_an_execution_without_waves_is_pending() -> None:
    assert phase_of(execution()) is Phase.PENDING


def test_all_waves_count_together() -> None:
    two = execution(Wave("one", (job(LAUNCHED),)), Wave("two", (job(PENDING, job_id="j-2"),)))

    assert phase_of(two) is Phase.IN_PROGRESS


def test_a_server_that_only_the_plan_knows_has_not_begun() -> None:
    assert phase_of(execution(Wave("one", (), ("s-1",)))) is Phase.PENDING

"""The phase comes from the servers, and from nothing else."""

from __future__ import annotations

import pytest

from longwatch.executions.due import ExecutionPhase, delay_of, phase_of
from longwatch.executions.model import ItemState, Stage
from tests.unit.executions.samples import (
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
        ((), ExecutionPhase.PENDING, 45.0),
        ((PENDING,), ExecutionPhase.PENDING, 45.0),
        ((PENDING, PENDING), ExecutionPhase.PENDING, 45.0),
        ((IN_PROGRESS,), ExecutionPhase.STARTED, 15.0),
        ((PENDING, IN_PROGRESS), ExecutionPhase.STARTED, 15.0),
        ((ItemState.UNKNOWN, PENDING), ExecutionPhase.STARTED, 15.0),
        ((LAUNCHED, PENDING), ExecutionPhase.IN_PROGRESS, 30.0),
        ((LAUNCHED, IN_PROGRESS), ExecutionPhase.IN_PROGRESS, 30.0),
        ((FAILED, PENDING), ExecutionPhase.IN_PROGRESS, 30.0),
        ((TERMINATED, IN_PROGRESS), ExecutionPhase.IN_PROGRESS, 30.0),
        ((CANCELLED, IN_PROGRESS), ExecutionPhase.IN_PROGRESS, 30.0),
        ((LAUNCHED,), ExecutionPhase.IN_PROGRESS, 30.0),
    ],
)
def test_the_phase_decides_how_often_to_poll(
    states: tuple[ItemState, ...], phase: ExecutionPhase, seconds: float
) -> None:
    open_one = drill(*states)

    assert phase_of(open_one) is phase
    assert delay_of(open_one) == seconds


def test_an_execution_without_waves_is_pending() -> None:
    assert phase_of(execution()) is ExecutionPhase.PENDING


def test_all_waves_count_together() -> None:
    two = execution(Stage("one", (job(LAUNCHED),)), Stage("two", (job(PENDING, job_id="j-2"),)))

    assert phase_of(two) is ExecutionPhase.IN_PROGRESS


def test_a_server_that_only_the_plan_knows_has_not_begun() -> None:
    assert phase_of(execution(Stage("one", (), ("s-1",)))) is ExecutionPhase.PENDING

from __future__ import annotations

from dataclasses import replace

from longwatch.executions.cadence.cadence import LearnedCadence
from longwatch.executions.cadence.history import DurationHistory, ExecutionKind
from longwatch.executions.cadence.learned import FEWEST
from longwatch.executions.due import is_due, next_poll_at
from longwatch.executions.model import ItemState
from longwatch.polling.schedules import EXECUTION_PHASES
from tests.unit.executions.cadence.samples import DRILLS, START_MS, drills, execution

PENDING = ItemState.PENDING


def cadence(count: int = 100, kind: ExecutionKind = DRILLS) -> LearnedCadence:
    history = DurationHistory()
    for each in drills(count):
        history.add(replace(each, kind=kind))
    return LearnedCadence(history)


def test_a_learned_execution_is_due_when_the_history_expects_a_change() -> None:
    quiet = execution(PENDING, last_polled_at=START_MS)
    phases = cadence().phases_for(quiet)

    assert next_poll_at(quiet, phases) == START_MS + 90_000
    assert not is_due(quiet, START_MS + 89_999, phases)
    assert is_due(quiet, START_MS + 90_000, phases)


def test_a_deadline_is_due_at_once_and_a_pause_that_the_source_requests_is_honoured() -> None:
    soon_overdue = execution(PENDING, last_polled_at=START_MS, deadline_ms=20_000)
    paused = execution(PENDING, last_polled_at=START_MS, next_poll_at=START_MS + 200_000)
    learned = cadence()

    assert next_poll_at(soon_overdue, learned.phases_for(soon_overdue)) == START_MS + 20_000
    assert next_poll_at(paused, learned.phases_for(paused)) == START_MS + 200_000


def test_without_history_nothing_changes() -> None:
    watched = execution(PENDING, last_polled_at=START_MS)

    assert cadence(0).phases_for(watched).seconds == EXECUTION_PHASES.seconds
    assert cadence(0).eta_of(watched, START_MS) is None


def test_another_plan_of_the_same_source_and_mode_is_better_than_nothing() -> None:
    watched = execution(PENDING, last_polled_at=START_MS)

    assert cadence(kind=replace(DRILLS, plan_id="other")).phases_for(watched).seconds["pending"] == 90.0
    assert cadence(kind=ExecutionKind("glue", "DRILL")).phases_for(watched).seconds["pending"] == 45.0


def test_an_execution_that_has_ended_is_learned_from_at_once() -> None:
    learning, watched = cadence(FEWEST - 1), execution(PENDING, last_polled_at=START_MS)
    before = learning.phases_for(watched).seconds["pending"]

    learning.add(None)
    learning.add(replace(drills(FEWEST)[-1], kind=DRILLS))

    assert before == 45.0
    assert learning.phases_for(watched).seconds["pending"] == 90.0


def test_an_execution_under_way_has_an_eta() -> None:
    estimate = cadence().eta_of(execution(PENDING), START_MS + 420_000)

    assert estimate is not None
    assert estimate.text() == "usually 15–25 min, now 7, 9–18 min to go"

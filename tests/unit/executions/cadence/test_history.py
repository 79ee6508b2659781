from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from longwatch.executions import transitions
from longwatch.executions.cadence.history import (
    LONGEST_SECONDS,
    DurationHistory,
    ExecutionKind,
    ExecutionSize,
    LazyHistory,
    read_history,
    recorded_sample,
    sample_from,
)
from longwatch.executions.due import ExecutionPhase
from longwatch.executions.model import ItemState
from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import Event
from longwatch.model.summary import Status
from tests.unit.executions.cadence.samples import DRILLS, START_MS, sample, story

PENDING, BUSY, DONE = ItemState.PENDING, ItemState.IN_PROGRESS, ItemState.DONE


def drill(**options: object) -> list[Event]:
    return story(
        (1, (PENDING, PENDING)),
        (808, (BUSY, PENDING)),
        (884, (DONE, BUSY)),
        (1000, (DONE, DONE)),
        ended=options.pop("ended", 1184),  # type: ignore[arg-type]
        **options,  # type: ignore[arg-type]
    )


def test_each_phase_lasts_from_the_poll_that_saw_it_begin_to_the_one_that_saw_it_end() -> None:
    found = sample_from(drill())

    assert found is not None
    assert found.seconds == {
        ExecutionPhase.PENDING: 808.0,
        ExecutionPhase.STARTED: 76.0,
        ExecutionPhase.IN_PROGRESS: 300.0,
    }
    assert found.whole == 1184.0
    assert found.kind == DRILLS
    assert found.status is Status.SUCCEEDED
    assert found.shape == ExecutionSize(stages=1, items=2)


def test_any_order_of_events_and_repeated_ones_give_the_same() -> None:
    events = drill() * 2
    Random(3).shuffle(events)

    assert sample_from(events) == sample_from(drill())


def test_a_phase_that_no_poll_saw_has_no_duration() -> None:
    straight = sample_from(story((100, (PENDING,)), (200, (DONE,)), ended=230))

    assert straight is not None
    assert straight.seconds == {ExecutionPhase.PENDING: 200.0, ExecutionPhase.IN_PROGRESS: 30.0}


def test_an_execution_without_servers_was_pending_all_the_time() -> None:
    empty = sample_from(story(ended=60, status=Status.FAILED))

    assert empty is not None
    assert empty.seconds == {ExecutionPhase.PENDING: 60.0}
    assert not empty.has_succeeded


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([], id="nothing"),
        pytest.param(drill(ended=None), id="still open"),
        pytest.param(drill()[1:], id="no start"),
        pytest.param(drill(status=Status.CANCELLED), id="cancelled"),
        pytest.param(drill(status=Status.DIED), id="died"),
        pytest.param(drill(ended=-5), id="ended before it began"),
        pytest.param(drill(ended=LONGEST_SECONDS + 1), id="forgotten by its watcher"),
        pytest.param(story((-10, (BUSY,)), ended=60), id="a server that began before the execution"),
        pytest.param([replace(drill()[0], payload={}), *drill()[1:]], id="a start without fields"),
        pytest.param([*drill()[:-1], replace(drill()[-1], payload={"status": 7})], id="an odd status"),
    ],
)
def test_invalid_durations_are_left_out(events: list[Event]) -> None:
    assert sample_from(events) is None


def test_a_correction_changes_how_it_ended_and_not_when() -> None:
    corrected = Event(
        run_id="ex-1",
        event_id="x-later",
        type=transitions.CORRECTED,
        occurred_at=START_MS + 9_000_000,
        payload={"status": "failed", "corrects": "succeeded"},
    )

    found = sample_from([corrected, *drill()])

    assert found is not None
    assert (found.status, found.whole) == (Status.FAILED, 1184.0)


def test_only_the_newest_samples_of_a_kind_are_stored() -> None:
    history = DurationHistory(samples_of_a_kind=3)

    for seconds in range(1, 8):
        history.add(sample(float(seconds)))

    assert [each.whole for each in history.samples(DRILLS)] == [5.0, 6.0, 7.0]


def test_of_too_many_kinds_the_least_recently_used_is_forgotten() -> None:
    history = DurationHistory(kinds=4)

    for number in range(10):
        history.add(sample(1.0, kind=ExecutionKind("drs", "DRILL", f"plan-{number}")))

    assert len(list(history.kinds())) == 4
    assert history.samples(ExecutionKind("drs", "DRILL", "plan-9"))


def test_a_plan_with_little_history_is_compared_with_others_of_its_source_and_mode() -> None:
    history = DurationHistory()
    for _ in range(5):
        history.add(sample(100.0, kind=ExecutionKind("drs", "DRILL", "other")))
    history.add(sample(50.0))

    assert len(history.samples(DRILLS, fewest=1)) == 1
    assert len(history.samples(DRILLS, fewest=3)) == 6
    assert history.samples(ExecutionKind("drs", "RECOVERY", "plan-1"), fewest=3) == ()


def test_a_journal_is_read_from_its_newest_executions() -> None:
    journal = MemoryJournal()
    for number in range(5):
        started_at = START_MS + number * 10_000_000
        journal.append(drill(execution_id=f"ex-{number}", started_at=started_at, ended=1184 + number))
    journal.append(drill(execution_id="open", ended=None))

    history = read_history(journal, most=3)

    assert [each.whole for each in history.samples(DRILLS)] == [1186.0, 1187.0, 1188.0]


def test_a_lazy_history_has_each_execution_that_ends_once() -> None:
    journal = MemoryJournal()
    for number in range(3):
        journal.append(drill(execution_id=f"ex-{number}", started_at=START_MS + number * 10_000_000))
    past, last = LazyHistory(journal, most=10), recorded_sample(journal, "plan-1/ex-2")
    assert last is not None

    past.add(last)  # before anything was read: it is in the journal
    read = len(past.samples(DRILLS))
    past.add(last)

    assert (read, len(past.samples(DRILLS))) == (3, 4)
    assert DRILLS in past.kinds()

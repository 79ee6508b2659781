"""What is true of an open execution now, and why it is still running."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from longwatch.executions.due import ExecutionPhase
from longwatch.executions.explain import (
    SILENT_AFTER_MS,
    SILENT_PENDING_AFTER_MS,
    UNREACHABLE_AFTER,
    UNWATCHED_AFTER_MS,
    conditions,
    silence_ms,
)
from longwatch.executions.model import Execution, Job, JobState, Stage
from tests.unit.executions.samples import IN_PROGRESS, MINUTE, PENDING, SECOND, START, drill, execution, job

NOW = START + 40 * MINUTE


def watched(**more: Any) -> Execution:
    """An execution that was polled just now, with a change, and has time."""
    return drill(
        PENDING,
        **{"last_polled_at": NOW, "last_change_at": NOW, "deadline_ms": None, "last_answer_at": NOW, **more},
    )


def names(found: Execution, now: int = NOW) -> list[str]:
    return [condition.name for condition in conditions(found, now)]


def test_an_execution_that_runs_as_it_should_has_no_condition() -> None:
    assert names(watched()) == []


@pytest.mark.parametrize(
    ("more", "before", "after"),
    [
        ({"deadline_ms": 40 * MINUTE}, -1, 0),
        ({"last_change_at": NOW - SILENT_PENDING_AFTER_MS}, 0, 1),
        ({"last_polled_at": NOW - 45 * SECOND - UNWATCHED_AFTER_MS}, 0, 1),
    ],
)
def test_a_condition_begins_to_the_millisecond(more: dict[str, Any], before: int, after: int) -> None:
    assert names(watched(**more), NOW + before) == []
    assert len(names(watched(**more), NOW + after)) == 1


def test_overdue_states_for_how_long() -> None:
    (found,) = conditions(watched(deadline_ms=30 * MINUTE), NOW)

    assert (found.name, found.message) == ("overdue", "past its deadline by 10 min; polling continues")


def test_an_unreachable_source_is_named_with_its_error() -> None:
    failing = watched(failures=UNREACHABLE_AFTER, last_error="throttled")

    (found,) = conditions(failing, NOW)

    assert found.name == "unreachable"
    assert found.message == "no response from drs to 3 polls in a row: throttled"
    assert names(watched(failures=UNREACHABLE_AFTER - 1)) == []


def test_an_unreachable_source_is_not_called_silent() -> None:
    assert names(watched(failures=UNREACHABLE_AFTER, last_change_at=START)) == ["unreachable"]


def test_a_job_that_the_source_no_longer_lists_is_named() -> None:
    lost = execution(
        Stage("one", (job(PENDING, state=JobState.MISSING),)),
        last_polled_at=NOW,
        last_change_at=NOW,
        deadline_ms=None,
    )

    (found,) = conditions(lost, NOW)

    assert (found.name, found.message) == ("missing", "drs no longer has j-1")


def test_a_job_that_the_source_never_listed_is_not_called_forgotten() -> None:
    unknown = execution(Stage("one", (Job("j-9", JobState.MISSING, since=NOW),)), last_polled_at=NOW)

    found = {each.name: each.message for each in conditions(unknown, NOW)}

    assert found["missing"] == "job id unknown to drs: j-9; check the id, the region and the account"


@pytest.mark.parametrize(
    ("phase", "usual_seconds", "minutes"),
    [
        (ExecutionPhase.PENDING, None, 30),
        (ExecutionPhase.STARTED, None, 10),
        (ExecutionPhase.IN_PROGRESS, None, 10),
        (ExecutionPhase.PENDING, 40 * 60, 60),  # long phases are normal there
        (ExecutionPhase.PENDING, 8 * 60, 12),  # and short ones here
        (ExecutionPhase.STARTED, 20 * 60, 30),
        (ExecutionPhase.STARTED, 5, 5),  # a few polls have to have brought nothing
    ],
)
def test_silence_is_measured_against_the_phase_and_against_history(
    phase: ExecutionPhase, usual_seconds: float | None, minutes: int
) -> None:
    assert silence_ms(phase, usual_seconds) == minutes * MINUTE


def test_an_execution_that_is_no_longer_pending_is_silent_after_ten_minutes() -> None:
    busy = replace(watched(last_change_at=NOW - SILENT_AFTER_MS), stages=drill(IN_PROGRESS).stages)

    assert names(busy, NOW) == []
    assert names(busy, NOW + 1) == ["silent"]


def test_an_execution_without_a_poller_is_unwatched() -> None:
    assert "unwatched" in names(drill(PENDING), START + UNWATCHED_AFTER_MS + 1)


def test_a_closed_execution_has_no_conditions() -> None:
    assert names(drill(PENDING, closed=True), START + 1000 * MINUTE) == []

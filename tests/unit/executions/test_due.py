"""When to poll again, to the millisecond."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longwatch.executions.due import (
    CLOCK_TOLERANCE_MS,
    LONGEST_LEASE_MS,
    deadline_at,
    is_due,
    is_leased,
    is_overdue,
    next_poll_at,
)
from longwatch.executions.model import ItemState, Verdict
from longwatch.model.summary import Status
from tests.unit.executions.samples import IN_PROGRESS, LAUNCHED, MINUTE, PENDING, SECOND, START, drill

POLLED_AT = START + MINUTE


@pytest.mark.parametrize(
    ("state", "seconds"), [((PENDING,), 45), ((IN_PROGRESS,), 15), ((LAUNCHED, IN_PROGRESS), 30)]
)
def test_an_execution_is_due_a_whole_interval_after_the_last_poll_and_not_a_millisecond_before(
    state: tuple[ItemState, ...], seconds: int
) -> None:
    polled = drill(*state, last_polled_at=POLLED_AT)

    assert not is_due(polled, POLLED_AT)
    assert not is_due(polled, POLLED_AT + seconds * SECOND - 1)
    assert is_due(polled, POLLED_AT + seconds * SECOND)
    assert is_due(polled, POLLED_AT + seconds * SECOND + 1)


def test_an_execution_that_was_never_polled_is_due_since_its_start() -> None:
    assert not is_due(drill(PENDING), START - 1)
    assert is_due(drill(PENDING), START)


def test_a_closed_execution_is_never_due() -> None:
    assert not is_due(drill(PENDING, closed=True), START + 1000 * MINUTE)


def test_the_deadline_is_a_reason_to_poll_at_once() -> None:
    deadline = START + 30 * MINUTE
    polled = drill(PENDING, last_polled_at=deadline - 10 * SECOND)

    assert not is_due(polled, deadline - 1)
    assert is_due(polled, deadline)


def test_past_its_deadline_it_is_polled_as_often_as_before() -> None:
    deadline = START + 30 * MINUTE
    polled = drill(PENDING, last_polled_at=deadline)

    assert next_poll_at(polled) == deadline + 45 * SECOND


def test_a_pause_that_the_source_requests_beats_the_deadline() -> None:
    deadline = START + 30 * MINUTE
    polled = drill(PENDING, last_polled_at=deadline - SECOND, next_poll_at=deadline + 90 * SECOND, failures=1)

    assert not is_due(polled, deadline + 90 * SECOND - 1)
    assert is_due(polled, deadline + 90 * SECOND)


@pytest.mark.parametrize(("failures", "seconds"), [(1, 5), (2, 10), (3, 20), (6, 160), (7, 300), (500, 300)])
def test_a_source_that_does_not_respond_is_left_alone_longer_each_time(failures: int, seconds: int) -> None:
    assert (
        next_poll_at(drill(PENDING, last_polled_at=POLLED_AT, failures=failures))
        == POLLED_AT + seconds * SECOND
    )


def test_a_poll_stamped_by_a_clock_that_was_wrong_is_not_waited_for() -> None:
    ahead = drill(PENDING, last_polled_at=POLLED_AT + CLOCK_TOLERANCE_MS)

    assert not is_due(ahead, POLLED_AT)
    assert is_due(ahead, POLLED_AT - 1)


def test_a_verdict_that_is_not_reported_is_due_at_once() -> None:
    decided = drill(LAUNCHED, last_polled_at=POLLED_AT, verdict=Verdict(Status.SUCCEEDED, POLLED_AT, ()))

    assert is_due(decided, POLLED_AT)
    assert not is_due(replace(decided, closed=True), POLLED_AT)


def test_the_deadline_is_counted_from_the_start() -> None:
    assert deadline_at(drill(PENDING)) == START + 30 * MINUTE
    assert not is_overdue(drill(PENDING), START + 30 * MINUTE - 1)
    assert is_overdue(drill(PENDING), START + 30 * MINUTE)


def test_without_a_deadline_nothing_is_overdue() -> None:
    assert not is_overdue(drill(PENDING, deadline_ms=None), START + 10_000 * MINUTE)


def test_a_closed_execution_is_not_overdue() -> None:
    assert not is_overdue(drill(PENDING, closed=True), START + 60 * MINUTE)


def test_a_lease_holds_until_its_end() -> None:
    leased = drill(PENDING, lease_holder="a", lease_until=POLLED_AT)

    assert is_leased(leased, POLLED_AT - 1)
    assert not is_leased(leased, POLLED_AT)


def test_a_poller_s_own_lease_is_not_an_obstacle() -> None:
    leased = drill(PENDING, lease_holder="a", lease_until=POLLED_AT)

    assert not is_leased(leased, POLLED_AT - 1, to_other_than="a")
    assert is_leased(leased, POLLED_AT - 1, to_other_than="b")


def test_a_lease_from_a_clock_that_was_wrong_blocks_no_poller() -> None:
    leased = drill(PENDING, lease_holder="a", lease_until=POLLED_AT + LONGEST_LEASE_MS + 1)

    assert not is_leased(leased, POLLED_AT)
    assert is_leased(leased, POLLED_AT + 1)

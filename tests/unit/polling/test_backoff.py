"""Backoff as a value: the required delays, giving up, recovering, and nights without a response."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.errors import (
    InvalidCursor,
    InvalidInput,
    LongwatchError,
    NotADatabase,
    TableProblem,
    Throttled,
    Unreachable,
)
from longwatch.polling import JOURNAL_BACKOFF, REQUEST_BACKOFF, Backoff
from longwatch.polling.backoff import after_failure


def delays(backoff: Backoff, failures: int) -> list[float | None]:
    """The delay after each of so many failures in a row."""
    found = []
    for _ in range(failures):
        backoff = backoff.failed()
        found.append(backoff.delay)
    return found


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (JOURNAL_BACKOFF, [1, 2, 4, 8, 16, 30, 30, 30]),
        (REQUEST_BACKOFF, [2, 4, 8, 16, 16, None, None]),
        (Backoff(1, 2, 30), [1, 2, 4, 8, 16, 30, 30]),
        (Backoff(5, 1, 5), [5, 5, 5]),
        (Backoff(3, 10, 20), [3, 20, 20]),
        (Backoff(1, 2, 8, max_retries=0), [None]),
        (Backoff(1, 2, 8, max_retries=1), [1, None]),
    ],
)
def test_delays_grow_to_their_most_and_end_where_retries_do(
    backoff: Backoff, expected: list[float | None]
) -> None:
    assert delays(backoff, len(expected)) == expected


def test_without_a_failure_there_is_nothing_to_wait_for() -> None:
    assert JOURNAL_BACKOFF.delay == 0
    assert not JOURNAL_BACKOFF.stopped


def test_a_success_begins_again_at_once() -> None:
    failing = JOURNAL_BACKOFF.failed().failed().failed().failed()

    recovered = failing.succeeded()

    assert recovered == JOURNAL_BACKOFF
    assert delays(recovered, 2) == [1, 2]


def test_five_retries_are_cleared_by_a_success_and_the_sixth_failure_in_a_row_stops() -> None:
    five = REQUEST_BACKOFF.failed().failed().failed().failed().failed()

    assert not five.stopped
    assert not five.succeeded().failed().stopped
    assert five.failed().stopped


@pytest.mark.parametrize("failures", [1023, 1024, 1025, 1_000_000, 10**12])
@pytest.mark.parametrize("factor", [2, 2.0, 1.5, 1e300])
def test_a_night_of_failures_does_not_overflow(failures: int, factor: float) -> None:
    backoff = Backoff(1, factor, 30, failures=failures)

    assert backoff.failed().delay == 30


def test_a_value_is_not_changed_by_what_happens_to_it() -> None:
    JOURNAL_BACKOFF.failed().failed()

    assert JOURNAL_BACKOFF.failures == 0


@pytest.mark.parametrize(("draw", "expected"), [(0.0, 8.0), (0.5, 7.0), (1.0, 6.0)])
def test_jitter_takes_its_share_off_the_delay(draw: float, expected: float) -> None:
    backoff = Backoff(8, 2, 8, jitter=0.25)

    assert backoff.failed(draw=lambda: draw).delay == expected


def test_the_drawn_delay_stays_the_same_however_often_it_is_read() -> None:
    draws = iter([0.1, 0.9])
    backoff = Backoff(8, 2, 8, jitter=1).failed(draw=lambda: next(draws))

    assert backoff.delay == backoff.delay
    assert backoff.failed(draw=lambda: next(draws)).delay != backoff.delay


def test_without_jitter_nothing_is_drawn() -> None:
    def never() -> float:
        raise AssertionError("drawn")

    assert JOURNAL_BACKOFF.failed(draw=never).delay == 1


@given(
    first=st.floats(0.001, 10),
    factor=st.floats(1, 10),
    more=st.floats(0, 100),
    jitter=st.floats(0, 1),
    draws=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=50),
)
def test_a_delay_is_never_negative_and_never_above_its_most(
    first: float, factor: float, more: float, jitter: float, draws: list[float]
) -> None:
    backoff = Backoff(first, factor, first + more, jitter=jitter)

    for draw in draws:
        backoff = backoff.failed(draw=lambda draw=draw: draw)  # type: ignore[misc]

        assert backoff.delay is not None
        assert 0 <= backoff.delay <= first + more


@pytest.mark.parametrize(
    "numbers",
    [
        (0, 2, 30),
        (-1, 2, 30),
        (31, 2, 30),
        (1, 0.5, 30),
        (1, 2, math.inf),
        (math.nan, 2, 30),
        (1, math.nan, 30),
    ],
)
def test_numbers_that_make_no_backoff_are_refused(numbers: tuple[float, float, float]) -> None:
    with pytest.raises(InvalidInput, match="Invalid backoff from"):
        Backoff(*numbers)


def test_a_jitter_beyond_everything_and_retries_below_none_are_refused() -> None:
    with pytest.raises(InvalidInput, match="share from 0 to 1"):
        Backoff(1, 2, 30, jitter=1.5)
    with pytest.raises(InvalidInput, match="max_retries -1"):
        Backoff(1, 2, 30, max_retries=-1)


@pytest.mark.parametrize(
    ("failures", "error", "delay"),
    [
        (0, Unreachable("no response"), 1.0),
        (3, Unreachable("no response"), 8.0),
        (20, Throttled("fewer"), 30.0),
        (0, TableProblem("expired-token", "sign in"), 30.0),
        (7, TableProblem("not-found", "no table"), 30.0),
        (0, TableProblem("access-denied", "no right"), 30.0),
        (0, TableProblem("wrong-keys", "another table"), None),
        (0, TableProblem("refused", "not valid"), None),
        (0, InvalidCursor("of another journal"), None),
        (0, NotADatabase("a text file"), None),
        (0, LongwatchError("a bug"), None),
    ],
)
def test_the_error_decides_when_a_reader_retries(
    failures: int, error: LongwatchError, delay: float | None
) -> None:
    after = after_failure(replace(JOURNAL_BACKOFF, failures=failures), error)

    assert (None if after is None else after.delay) == delay
    assert after is None or after.failures == failures + 1


def test_an_error_of_another_kind_changes_the_interval() -> None:
    signed_out = after_failure(JOURNAL_BACKOFF, TableProblem("expired-token", "sign in"))
    assert signed_out is not None

    unreachable = after_failure(signed_out, Unreachable("no response"))

    assert unreachable is not None
    assert (signed_out.delay, unreachable.delay) == (30.0, 2.0)

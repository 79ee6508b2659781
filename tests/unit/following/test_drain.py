"""How long a watch waits for late events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.following.drain import LAST_POLL_SECONDS, Drain, DrainLimits

LIMITS = DrainLimits()  # 3 s of quiet, 15 s in all


@pytest.mark.parametrize(
    ("news", "polled_at", "complete", "over"),
    [
        ([], 100.0, False, False),  # the terminal event has just come
        ([], 102.9, False, False),
        ([], 103.0, False, True),  # quiet for three seconds
        ([], 100.0, True, True),  # nothing can be missing
        ([], 99.9, True, False),  # that poll began before the terminal event was seen
        ([102.0], 103.0, False, False),  # a straggler restarts the quiet time
        ([102.0], 105.0, False, True),
        ([102.0, 104.5], 105.0, False, False),
        ([102.0, 105.0, 108.0, 111.0, 114.0], 114.9, False, False),
        ([102.0, 105.0, 108.0, 111.0, 114.0], 115.0, False, True),  # but not for ever
    ],
)
def test_when_a_drain_is_over(news: list[float], polled_at: float, complete: bool, over: bool) -> None:
    drain = Drain.begin(100.0, LIMITS)
    for at in news:
        drain = drain.with_news(at)

    assert drain.is_over(polled_at, complete=complete) is over


def test_a_journal_that_never_responds_does_not_hold_the_watch_for_ever() -> None:
    drain = Drain.begin(100.0, LIMITS)

    assert not drain.is_hopeless(115.0)
    assert drain.is_hopeless(115.0 + LAST_POLL_SECONDS)


@given(
    began=st.floats(0, 1e6),
    steps=st.lists(st.floats(0, 4), max_size=20),
    quiet=st.floats(0.1, 10),
    most=st.floats(0.1, 30),
)
def test_a_drain_ends_in_time_and_not_while_events_arrive(
    began: float, steps: list[float], quiet: float, most: float
) -> None:
    drain = Drain.begin(began, DrainLimits(quiet_seconds=quiet, most_seconds=most))
    now = began
    for step in steps:
        now += step
        drain = drain.with_news(now)

        assert drain.due <= began + most
        assert drain.is_over(began + most, complete=False)
        assert not drain.is_over(now, complete=False) or now >= began + most
        assert drain.due == min(now + quiet, began + most)

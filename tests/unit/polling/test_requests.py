"""The lag of a polling manager: bounded memory, and percentiles that are values that occurred."""

from __future__ import annotations

import pytest

from longwatch.polling.requests import LAG_WINDOW, Lag, LagWindow


def test_without_a_poll_there_is_no_lag() -> None:
    assert LagWindow().lag() == Lag(0, 0, 0, 0)


@pytest.mark.parametrize(
    ("lags", "expected"),
    [
        ([0.2], Lag(0.2, 0.2, 0.2, 0.2)),
        ([0.3, 0.1], Lag(0.1, 0.3, 0.1, 0.3)),
        ([float(n) for n in range(1, 101)], Lag(100, 100, 50, 99)),
        ([float(n) for n in range(100, 0, -1)], Lag(1, 100, 50, 99)),
    ],
)
def test_percentiles_are_those_of_the_values(lags: list[float], expected: Lag) -> None:
    window = LagWindow()

    for lag in lags:
        window.add(lag)

    assert window.lag() == expected


def test_the_most_is_remembered_longer_than_the_window() -> None:
    window = LagWindow()

    window.add(9.0)
    for _ in range(LAG_WINDOW):
        window.add(1.0)

    assert window.lag() == Lag(last=1, most=9, p50=1, p99=1)

from __future__ import annotations

import math
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.executions.cadence.learned import interpolate, position_of, survival


@given(
    durations=st.lists(st.floats(0.0, 1e6), min_size=1, max_size=300),
    resolution=st.sampled_from([15.0, 45.0]),
)
def test_it_begins_at_one_never_grows_and_never_quite_ends(durations: list[float], resolution: float) -> None:
    lasting = survival(durations, resolution, cells=60)

    assert lasting.shares[0] == 1.0
    assert all(later <= share for share, later in pairwise(lasting.shares))
    assert lasting.shares[-1] > 0
    assert math.isfinite(lasting.horizon)


def test_it_follows_the_durations() -> None:
    random = Random(1)
    durations = [random.lognormvariate(6.0, 0.25) for _ in range(500)]

    lasting = survival(durations, 15.0)

    for tenth in (0.1, 0.25, 0.5, 0.75, 0.9):
        seconds = sorted(durations)[int(tenth * len(durations))]
        assert lasting.at(seconds) == pytest.approx(1 - tenth, abs=0.04)


def test_one_duration_alone_is_uncertain_by_the_interval() -> None:
    lasting = survival([100.0], 30.0)

    assert lasting.at(70.0) > 0.9
    assert lasting.at(135.0) < 0.1


@pytest.mark.parametrize(
    ("position", "value"), [(0.0, 1.0), (0.5, 1.5), (1.0, 2.0), (1.25, 2.5), (2.0, 4.0), (9.0, 4.0)]
)
def test_values_between_the_samples_are_interpolated_both_ways(position: float, value: float) -> None:
    values = (1.0, 2.0, 4.0)

    assert interpolate(values, position) == value
    assert position_of(values, value) == min(position, 2.0)


def test_a_value_that_is_never_reached_is_infinitely_far() -> None:
    assert position_of((1.0, 2.0), 3.0) == math.inf
    assert position_of((1.0, 2.0), 0.0) == 0.0

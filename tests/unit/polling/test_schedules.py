"""Schedules as values: when they poll again, under a clock that moves only on demand."""

from __future__ import annotations

import math

import pytest

from longwatch.errors import InvalidInput
from longwatch.polling import (
    EXECUTION_PHASES,
    JOURNAL_INTERVAL,
    Fixed,
    Phased,
    Ramp,
    Schedule,
    Soonest,
    schedule_for,
)
from longwatch.testing import FakeClock


def poll_times(
    schedule: Schedule, clock: FakeClock, *, until: float, news_at: tuple[float, ...] = ()
) -> list[float]:
    """The moments of all polls up to `until`, the first one now; those at `news_at` find something new."""
    found: list[float] = []
    while clock.monotonic() <= until:
        now = clock.monotonic()
        found.append(now)
        schedule = schedule.after_poll(now, news=not found[:-1] or now in news_at)
        if schedule.delay is None:
            break
        clock.sleep(schedule.delay)
    return found


def test_the_default_schedule_polls_every_500_milliseconds() -> None:
    assert poll_times(JOURNAL_INTERVAL, FakeClock(), until=2) == [0, 0.5, 1, 1.5, 2]


def test_a_fixed_interval_never_slows_down_and_never_stops() -> None:
    clock = FakeClock()

    found = poll_times(Fixed(60), clock, until=86_400)

    assert len(found) == 24 * 60 + 1
    assert set(clock.slept) == {60}


def test_the_ramp_polls_every_second_for_30_seconds() -> None:
    clock = FakeClock()

    found = poll_times(Ramp(), clock, until=30)

    assert found == [float(second) for second in range(31)]


def test_after_30_seconds_the_ramp_slows_down_by_half_at_each_poll_up_to_5_seconds() -> None:
    clock = FakeClock()

    poll_times(Ramp(), clock, until=60)

    assert clock.slept[:30] == [1] * 30
    assert clock.slept[30:36] == [1.5, 2.25, 3.375, 5, 5, 5]


def test_the_ramp_stops_at_the_first_poll_two_minutes_after_the_last_news() -> None:
    clock = FakeClock()

    found = poll_times(Ramp(), clock, until=1_000)

    assert found[-2] < 120 <= found[-1] < 125


def test_news_keeps_the_ramp_alive_and_does_not_quicken_it() -> None:
    clock = FakeClock()

    found = poll_times(Ramp(), clock, until=1_000, news_at=(30.0,))

    assert found[-2] < 150 <= found[-1] < 155
    assert clock.slept[31:35] == [2.25, 3.375, 5, 5]


def test_a_ramp_that_stopped_has_a_reason_and_starts_again_when_touched() -> None:
    stopped = Ramp().after_poll(0, news=True).after_poll(120, news=False)

    again = stopped.after_activity(500)

    assert (stopped.delay, stopped.reason) == (None, "no news for 120 s")
    assert (again.delay, again.reason) == (1, None)
    assert again.after_poll(529.9, news=False).delay == 1
    assert again.after_poll(530, news=False).delay == 1.5
    assert again.after_poll(619.9, news=False).delay is not None
    assert again.after_poll(620, news=False).delay is None


@pytest.mark.parametrize(("at", "stops"), [(119.999, False), (120.0, True), (120.001, True)])
def test_two_minutes_are_two_minutes(at: float, stops: bool) -> None:
    ramp = Ramp().after_poll(0, news=True).after_poll(at, news=False)

    assert (ramp.delay is None) is stops


def test_news_at_the_last_moment_keeps_it_alive() -> None:
    assert Ramp().after_poll(0, news=True).after_poll(120, news=True).delay is not None


def test_an_interval_means_fixed_and_none_means_the_ramp() -> None:
    assert schedule_for(2.0) == Fixed(2.0)
    assert schedule_for() == schedule_for(None) == Ramp()


@pytest.mark.parametrize(
    ("phase", "seconds"),
    [("pending", 45), ("started", 15), ("in_progress", 30), ("PENDING", 45), ("Started", 15), ("paused", 30)],
)
def test_each_phase_of_an_execution_has_its_delay_and_an_unknown_one_the_usual(
    phase: str, seconds: float
) -> None:
    assert EXECUTION_PHASES.in_phase(phase).delay == seconds


@pytest.mark.parametrize(
    ("phase", "last", "now", "due"),
    [
        ("pending", None, 1_000, True),
        ("pending", 1_000, 1_000, False),
        ("pending", 1_000, 1_044, False),
        ("pending", 1_000, 1_044.999, False),
        ("pending", 1_000, 1_045, True),
        ("pending", 1_000, 1_046, True),
        ("started", 1_000, 1_014.999, False),
        ("started", 1_000, 1_015, True),
        ("in_progress", 1_000, 1_029.999, False),
        ("in_progress", 1_000, 1_030, True),
        ("in_progress", 1_010, 1_000, False),  # another machine's clock, a little ahead
        ("in_progress", 9_000, 1_000, True),  # a clock that was wrong: do not wait two hours for it
    ],
)
def test_an_execution_is_due_a_whole_delay_after_its_last_poll(
    phase: str, last: float | None, now: float, due: bool
) -> None:
    assert EXECUTION_PHASES.in_phase(phase).is_due(last, now) is due


def test_a_phase_changes_the_delay_of_the_next_poll() -> None:
    phased = EXECUTION_PHASES.after_poll(0, news=False)

    assert phased.delay == 45
    assert phased.in_phase("started").after_activity(1).delay == 15
    assert phased.in_phase("pending") is phased
    assert phased.reason is None


def test_custom_phases_can_be_values_in_a_set() -> None:
    assert len({Phased({"a": 1.0}, "a"), Phased({"A": 1.0}, "a"), Phased({"a": 1.0}, "b")}) == 2


def test_the_soonest_of_several_decides_and_one_that_stopped_does_not_stop_the_others() -> None:
    both = Soonest().joined(10.0).joined(None)

    young = both.after_poll(0, news=True)
    old = young.after_poll(200, news=False)

    assert young.delay == 1
    assert (old.delay, old.reason) == (10, None)


def test_when_the_last_active_schedule_has_left_the_soonest_stops_with_a_reason() -> None:
    both = Soonest().joined(10.0).joined(None).after_poll(0, news=True).after_poll(200, news=False)

    left = both.left(10.0)

    assert (left.delay, left.reason) == (None, "no news for 120 s")
    assert left.after_activity(200).delay == 1
    assert (Soonest().delay, Soonest().reason) == (None, "no subscribers")


def test_a_poll_at_fixed_intervals_alone_makes_no_new_value() -> None:
    soonest = Soonest().joined(10.0).joined(2.0)

    assert soonest.after_poll(0, news=True) is soonest
    assert soonest.delay == 2


@pytest.mark.parametrize("seconds", [0, -1, math.inf, math.nan, "2"])
def test_an_invalid_interval_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidInput, match="seconds above 0"):
        schedule_for(seconds)
    with pytest.raises(InvalidInput, match="seconds above 0"):
        Ramp(first=seconds)
    with pytest.raises(InvalidInput, match="delay of phase 'pending'"):
        Phased({"pending": seconds})


def test_a_decreasing_ramp_is_refused() -> None:
    with pytest.raises(InvalidInput, match="Invalid ramp from"):
        Ramp(first=6.0)
    with pytest.raises(InvalidInput, match="Invalid ramp from"):
        Ramp(factor=0.9)

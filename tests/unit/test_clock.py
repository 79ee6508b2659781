"""Times as text, and the clock of this machine."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.clock import SYSTEM_CLOCK, iso_from_ms, ms_from_iso
from tests.strategies import times


@given(times)
def test_a_time_as_text_is_the_same_time_again(ms: int) -> None:
    assert ms_from_iso(iso_from_ms(ms)) == ms


@given(times, times)
def test_the_order_of_texts_is_the_order_of_times(one: int, other: int) -> None:
    assert (iso_from_ms(one) < iso_from_ms(other)) == (one < other)


@given(
    st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(9999, 12, 30)), st.integers(-1439, 1439)
)
def test_any_zone_is_read_and_parts_of_a_millisecond_are_cut_off(moment: datetime, minutes: int) -> None:
    zoned = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    whole = zoned.replace(microsecond=zoned.microsecond // 1000 * 1000)

    ms = ms_from_iso(zoned.isoformat())

    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms) == whole


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1, "1970-01-01T00:00:00.001Z"),
        (1_763_200_800_123, "2025-11-15T10:00:00.123Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_a_time_is_written_in_utc_with_three_decimals(ms: int, text: str) -> None:
    assert iso_from_ms(ms) == text


@pytest.mark.parametrize("ms", [253_402_300_800_000, 10**20, -(10**20)])
def test_a_time_beyond_the_calendar_is_refused_as_one_kind_of_error(ms: int) -> None:
    with pytest.raises(ValueError, match="years 1 to 9999"):
        iso_from_ms(ms)


def test_a_time_without_a_zone_is_read_as_utc() -> None:
    assert ms_from_iso("1970-01-01T00:00:01") == ms_from_iso("1970-01-01T02:00:01+02:00") == 1000


@pytest.mark.parametrize("text", ["", "yesterday", "12:00", "2026-13-01", "1763200800123"])
def test_text_that_is_not_a_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        ms_from_iso(text)


def test_the_system_clock_returns_the_time_of_this_machine() -> None:
    before = time.time_ns() // 1_000_000
    now = SYSTEM_CLOCK.now_ms()

    assert before <= now <= time.time_ns() // 1_000_000


def test_the_system_clock_lets_time_pass() -> None:
    began = SYSTEM_CLOCK.monotonic()

    SYSTEM_CLOCK.sleep(0.001)

    assert SYSTEM_CLOCK.monotonic() - began >= 0.001

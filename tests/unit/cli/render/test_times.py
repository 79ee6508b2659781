from __future__ import annotations

from datetime import UTC, timedelta, timezone

import pytest

from longwatch.cli.render.times import (
    ago_text,
    between_text,
    clock_text,
    day_text,
    duration_text,
    moment_ms,
    ran_text,
    span_ms,
    start_text,
)
from longwatch.errors import InvalidInput

NOW = 1_794_736_931_123  # 2026-11-15T10:02:11.123Z


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (0, "0 ms"),
        (0.4, "<1 ms"),
        (850, "850 ms"),
        (999.4, "999 ms"),
        (999.6, "1.0 s"),
        (2.5, "3 ms"),
        (1_150, "1.2 s"),
        (1_200, "1.2 s"),
        (1_250, "1.3 s"),
        (90_500, "1 min 31 s"),
        (59_940, "59.9 s"),
        (59_960, "1 min 00 s"),
        (185_000, "3 min 05 s"),
        (3_599_400, "59 min 59 s"),
        (3_599_600, "1 h 00 min"),
        (7_800_000, "2 h 10 min"),
        (273_600_000, "3 d 04 h"),
    ],
)
def test_durations_read_as_people_say_them(ms: float, shown: str) -> None:
    assert duration_text(ms) == shown


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("10m", NOW - 600_000),
        ("1h30m", NOW - 5_400_000),
        ("3d", NOW - 259_200_000),
        ("500ms", NOW - 500),
        ("2026-11-15T10:00Z", 1_794_736_800_000),
        ("2026-11-15T12:00", 1_794_736_800_000),  # two hours east of Greenwich
        ("2026-11-15", 1_794_693_600_000),
        ("1794736931123", NOW),
    ],
)
def test_a_time_may_be_written_in_many_ways(text: str, ms: int) -> None:
    assert moment_ms(text, now_ms=NOW, zone=timezone(timedelta(hours=2))) == ms


@pytest.mark.parametrize(
    "text", ["yesterday", "10", "10 minutes", "", "-5m", "2026-13-01", "99999999999999999"]
)
def test_an_invalid_time_is_refused_with_the_valid_forms(text: str) -> None:
    with pytest.raises(InvalidInput, match="10m, 2h or 3d"):
        moment_ms(text, now_ms=NOW)


def test_seconds_given_as_milliseconds_are_recognised() -> None:
    with pytest.raises(InvalidInput, match="1794736931000"):
        moment_ms("1794736931", now_ms=NOW)


def test_a_time_before_1970_is_the_beginning() -> None:
    assert moment_ms("9999999w", now_ms=NOW) == 0


def test_an_invalid_duration_is_refused_with_the_valid_forms() -> None:
    with pytest.raises(InvalidInput, match="30d"):
        span_ms("a month")


@pytest.mark.parametrize(
    ("distance_ms", "shown"),
    [
        (900, "just now"),
        (40_000, "40 s ago"),
        (185_000, "3 min ago"),
        (7_300_000, "2 h ago"),
        (450_000_000, "5 d ago"),
        (-185_000, "in 3 min"),
    ],
)
def test_an_age_is_rounded(distance_ms: int, shown: str) -> None:
    assert ago_text(NOW - distance_ms, now_ms=NOW) == shown


def test_a_start_is_shown_as_exactly_as_it_is_recent() -> None:
    def shown(ms: int) -> str:
        return start_text(ms, now_ms=NOW, zone=UTC)

    assert shown(NOW - 1000) == "10:02:10"
    assert shown(NOW - 86_400_000) == "11-14 10:02"
    assert shown(NOW - 365 * 86_400_000) == "2025-11-15"


def test_clock_times_keep_their_milliseconds() -> None:
    assert clock_text(NOW, zone=UTC) == "10:02:11.123"
    assert clock_text(NOW, dated=True, zone=UTC) == "2026-11-15 10:02:11.123"
    assert day_text(NOW, now_ms=NOW, zone=UTC) == "today 10:02:11"


def test_a_time_past_every_calendar_does_not_break_the_list() -> None:
    assert clock_text(10**17, dated=True, zone=UTC).startswith("9999-12-31")


DAY = 86_400_000


@pytest.mark.parametrize(
    ("not_before", "not_after", "shown"),
    [
        (NOW, NOW + 24_000, "between 10:02:11 and 10:02:35"),
        (NOW, NOW + 500, "at 10:02:11"),
        (NOW, None, "after 10:02:11"),
        (NOW - DAY, NOW - DAY + 24_000, "between 2026-11-14 10:02:11 and 10:02:35"),
        (NOW - DAY, NOW, "between 2026-11-14 10:02:11 and 2026-11-15 10:02:11"),
        (NOW - DAY, None, "after 2026-11-14 10:02:11"),
    ],
)
def test_an_interval_names_dates_only_where_they_are_needed(
    not_before: int, not_after: int | None, shown: str
) -> None:
    assert between_text(not_before, not_after, now_ms=NOW, zone=UTC) == shown


@pytest.mark.parametrize(
    ("least", "most", "shown"),
    [(207, 24_000, "between 207 ms and 24.0 s"), (207, None, "at least 207 ms"), (207, 207, "207 ms")],
)
def test_a_duration_between_two_limits_is_shown_as_a_range(least: int, most: int | None, shown: str) -> None:
    assert ran_text(least, most) == shown

"""The time of an observation is that of its source, whatever the clock of the poller shows."""

from __future__ import annotations

import pytest

from longwatch.executions.sources.dates import date_ms, observed_at, sdk_date_ms

NOON = 1_794_736_800_000
HEADER = "Sun, 15 Nov 2026 10:00:00 GMT"


@pytest.mark.parametrize(
    ("local", "dates", "at"),
    [
        (NOON + 250, [], NOON + 250),
        (NOON + 250, [None], NOON + 250),
        (NOON + 250, [NOON], NOON + 250),  # the second that the source names, to our millisecond
        (NOON - 5, [NOON], NOON),
        (NOON + 1_000, [NOON], NOON + 999),
        (NOON + 600_000, [NOON], NOON + 999),
        (NOON - 600_000, [NOON], NOON),
        (NOON + 250, [NOON + 4_000, None, NOON], NOON + 250),
        (NOON + 600_000, [NOON + 4_000, NOON], NOON + 999),
    ],
)
def test_an_observation_lies_in_the_second_that_its_source_names(
    local: int, dates: list[int | None], at: int
) -> None:
    assert observed_at(local, dates) == at


@pytest.mark.parametrize(
    ("header", "ms"),
    [
        (HEADER, NOON),
        ("Sun, 15 Nov 2026 10:00:00 -0000", NOON),
        ("Sunday, 15-Nov-26 10:00:00 GMT", NOON),
        (None, None),
        ("", None),
        ("yesterday", None),
        ("Sun, 99 Nov 2026 10:00:00 GMT", None),
    ],
)
def test_a_date_header_is_read_where_it_can_be(header: str | None, ms: int | None) -> None:
    assert date_ms(header) == ms


def test_the_date_of_an_sdk_response_is_in_its_metadata() -> None:
    assert sdk_date_ms({"ResponseMetadata": {"HTTPHeaders": {"date": HEADER}}}) == NOON
    assert sdk_date_ms({}) is None
    assert sdk_date_ms({"ResponseMetadata": {}}) is None

"""Responses of declared sources are dated by the system that sent them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from email.message import Message

import pytest

from longwatch.executions.model import Execution
from longwatch.executions.responses import SourceResponse
from longwatch.executions.sources.dates import response_date_ms
from longwatch.executions.sources.declared import (
    MAX_CLOCK_DIFFERENCE_MS,
    AwsTarget,
    DeclaredSource,
    PolledJob,
)
from longwatch.executions.sources.mapping import RawJob
from longwatch.executions.sources.shipped import AWS
from longwatch.testing import FakeClock
from tests.unit.executions.samples import MINUTE, SECOND, START


class Dated:
    """An `Asker` whose responses bear this date."""

    def __init__(self, date: int | None) -> None:
        self._date = date

    def call(self, target: AwsTarget, ids: Sequence[str]) -> Mapping[str, PolledJob]:
        return {each: RawJob({"status": "RUNNING"}, date=self._date) for each in ids}

    def close(self) -> None:
        """Nothing to close."""


@pytest.mark.parametrize(
    ("date", "at"),
    [
        (None, START),
        (START, START),
        (START - 10 * MINUTE, START - 10 * MINUTE + 999),
        (START + 100 * SECOND, START + 100 * SECOND),
        (START + MAX_CLOCK_DIFFERENCE_MS + SECOND, START),  # a server whose clock was never set
        (START - 2 * MAX_CLOCK_DIFFERENCE_MS, START),
    ],
)
def test_a_response_has_its_own_date_unless_that_is_far_off(date: int | None, at: int) -> None:
    source = DeclaredSource(AWS["batch"], Dated(date), clock=FakeClock(START))

    watched = source.begin("j-1")
    assert isinstance(watched, Execution)
    (response,) = source.poll([watched]).values()

    assert isinstance(response, SourceResponse)
    assert (response.at, response.polled_at) == (at, START)
    assert watched.started_at == at // 1000 * 1000


@pytest.mark.parametrize(
    ("headers", "ms"),
    [
        ({"Date": "Sun, 15 Nov 2026 10:00:00 GMT"}, START),
        ({"Date": "Sun, 15 Nov 2026 10:00:00 GMT", "Age": "600"}, START + 10 * MINUTE),
        ({"Date": "Sun, 15 Nov 2026 10:00:00 GMT", "Age": "old"}, START),
        ({"Age": "600"}, None),
    ],
)
def test_the_date_of_a_cached_response_is_when_the_cache_sent_it(
    headers: Mapping[str, str], ms: int | None
) -> None:
    message = Message()
    for name, value in headers.items():
        message[name] = value

    assert response_date_ms(message) == ms

"""Records of other writers, read as they are."""

from __future__ import annotations

from typing import Any

import pytest

from longwatch.errors import InvalidInput
from longwatch.executions.model import Mode
from longwatch.executions.stores.records import (
    NO_END_TIME,
    STATUS_WORDS,
    is_unreported,
    parse_record,
    to_record,
)
from longwatch.model.summary import Status
from tests.unit.executions.samples import START


def record(**more: Any) -> dict[str, Any]:
    return {"ExecutionId": "x-1", "PlanId": "p-1", "Status": "POLLING", "StartTime": START // 1000, **more}


@pytest.mark.parametrize(
    "start", [START // 1000, START, str(START // 1000), "2026-11-15T10:00:00Z", "2026-11-15T11:00:00+01:00"]
)
def test_a_start_is_read_however_it_was_written(start: object) -> None:
    assert parse_record(record(StartTime=start)).started_at == START


def test_an_invalid_start_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'yesterday'"):
        parse_record(record(StartTime="yesterday"))


@pytest.mark.parametrize(
    ("word", "mode"),
    [("DRILL", Mode.DRILL), ("recovery", Mode.RECOVERY), (None, Mode.DRILL), ("FAILOVER", Mode.RECOVERY)],
)
def test_an_unknown_type_has_the_stricter_rule(word: str | None, mode: Mode) -> None:
    assert parse_record(record(ExecutionType=word)).mode is mode


def test_an_empty_record_has_no_wave_and_no_total() -> None:
    found = parse_record(record())

    assert (found.stages, found.total_stages, found.is_open) == ((), None, True)


@pytest.mark.parametrize("word", [each for each in STATUS_WORDS if each != "POLLING"])
def test_the_status_of_another_writer_is_a_verdict(word: str) -> None:
    found = parse_record(record(Status=word, EndTime=START // 1000 + 5))

    assert found.verdict is not None
    assert (found.status, found.closed, found.verdict.at) == (STATUS_WORDS[word], True, START + 5000)
    assert to_record(found)["Status"] == word


def test_a_status_that_is_ignored_stays_when_the_record_is_written() -> None:
    found = parse_record(record(Status="Initiating"))

    assert (found.closed, found.verdict, to_record(found)["Status"]) == (True, None, "Initiating")


def test_another_writer_s_status_overrides_our_verdict() -> None:
    ours = {"Status": "succeeded", "Time": START // 1000, "Evidence": []}

    found = parse_record(record(Status="CANCELLED", Verdict=ours, Version=3))

    assert found.verdict is not None
    assert (found.status, found.verdict.corrects) == (Status.CANCELLED, Status.SUCCEEDED)
    assert is_unreported(found)
    parsed = parse_record(to_record(found))
    assert parsed.verdict == found.verdict
    assert not is_unreported(parsed)


@pytest.mark.parametrize(
    "wave",
    [
        {"JobId": "j-1", "Servers": ["s-1"]},
        {"Jobs": ["j-1"], "Servers": [{"ServerId": "s-1"}]},
        {"JobIds": ["j-1"], "JobId": "j-1", "Servers": [{"SourceServerID": "s-1"}]},
        {"Jobs": [{"JobId": "j-1", "Status": "LAUNCHING"}], "Servers": [{"SourceServerId": "s-1"}]},
    ],
)
def test_a_wave_is_read_in_each_spelling(wave: dict[str, Any]) -> None:
    found = parse_record(record(Waves=[wave]))

    assert found.stages[0].name == "wave 1"
    assert found.job_ids() == ("j-1",)
    assert found.stages[0].expected_items == ("s-1",)
    assert parse_record(to_record(found)).stages == found.stages


@pytest.mark.parametrize(
    ("more", "at", "is_warned"),
    [
        ({"EndTime": START // 1000 + 60}, START + 60_000, False),
        ({"EndTime": START + 60_000}, START + 60_000, False),
        ({"EndTime": "2026-11-15T10:01:00Z"}, START + 60_000, False),
        ({}, START, True),
        ({"EndTime": None}, START, True),
        ({"EndTime": "soon"}, START, True),
        ({"LastPolledTime": START // 1000 + 30}, START + 30_000, True),
        # the clock of the source counts more than that of a poller, which may be ahead
        ({"LastPolledTime": START // 1000 + 600, "LastAnswerTime": START // 1000 + 20}, START + 20_000, True),
    ],
)
def test_an_execution_that_was_cancelled_without_an_end_time_ended_after_it_was_last_seen(
    more: dict[str, Any], at: int, is_warned: bool
) -> None:
    found = parse_record(record(**{"Status": "CANCELLED", "StartTime": START // 1000, **more}))

    assert found.closed
    assert found.verdict is not None
    assert (found.verdict.status, found.verdict.at) == (Status.CANCELLED, at)
    assert found.verdict.warnings == ((NO_END_TIME,) if is_warned else ())


@pytest.mark.parametrize(
    "attribute", ["LastPolledTime", "LastAnswerTime", "LastChangeTime", "NextPollTime", "Failures", "Version"]
)
def test_an_unknown_status_does_not_close_what_was_polled_even_if_a_program_drops_attributes(
    attribute: str,
) -> None:
    found = parse_record(record(Status="CANCELLING", **{attribute: START // 1000}))

    assert (found.closed, found.other_status) == (False, "CANCELLING")
    assert to_record(found)["PollState"] == "OPEN"


@pytest.mark.parametrize("status", ["CANCELLED", "PAUSED"])
def test_a_verdict_of_a_later_version_does_not_keep_a_record_from_being_read_and_written(status: str) -> None:
    verdict = {"Status": "suspended", "Time": START // 1000, "Evidence": []}

    found = parse_record(record(Status=status, Version=3, Verdict=verdict))

    assert to_record(found)["Status"] == status

"""What the log of a job reveals about its end: every event that DRS can write has a meaning."""

from __future__ import annotations

from typing import Any

import pytest

from longwatch.executions.model import ItemState, Job, JobState, WorkItem
from longwatch.executions.sources.drs_log import (
    LOG_EVENTS,
    LONGEST_REASON,
    READ_FOR_MS,
    LogMeaning,
    apply_log,
    needs_log,
    parse_log,
)
from longwatch.testing.services import service_model

FINISHED, STARTED = JobState.FINISHED, JobState.STARTED


def event(name: str, server_id: str | None = None, at: int = 0, **data: Any) -> dict[str, Any]:
    if server_id is not None:
        data["sourceServerID"] = server_id
    return {"event": name, "eventData": data, "logDateTime": f"2026-11-15T10:00:{at:02}Z"}


def job(*states: ItemState, state: JobState = FINISHED, **more: Any) -> Job:
    servers = tuple(WorkItem(f"s-{n}", each) for n, each in enumerate(states, 1))
    return Job("j-1", state, servers, **more)


def test_every_event_of_the_service_has_a_meaning_and_no_other() -> None:
    assert set(LOG_EVENTS) == set(service_model().shape_for("JobLogEvent").enum)


def test_every_event_that_names_a_failure_is_one() -> None:
    failures = {name for name in LOG_EVENTS if "FAIL" in name}

    assert failures | {"SERVER_SKIPPED"} == {
        name
        for name, (meaning, _) in LOG_EVENTS.items()
        if meaning in (LogMeaning.FAILURE, LogMeaning.LEFTOVER)
    }
    assert [name for name, (meaning, _) in LOG_EVENTS.items() if meaning is LogMeaning.CANCEL] == [
        "JOB_CANCEL"
    ]


def test_the_fields_that_are_read_exist() -> None:
    members = service_model().shape_for("JobLogEventData").members

    assert {"sourceServerID", "rawError", "attemptCount", "maxAttemptsCount"} <= set(members)
    assert {"event", "eventData", "logDateTime"} <= set(service_model().shape_for("JobLog").members)


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([event("LAUNCH_FAILED", "s-1", rawError="no capacity")], "the launch failed: no capacity"),
        ([event("SERVER_SKIPPED", "s-1")], "the server was skipped"),
        (
            [event("CONVERSION_FAIL", "s-1", attemptCount=2, maxAttemptsCount=3, rawError="disk\n full")],
            "the conversion failed (attempt 2 of 3): disk full",
        ),
        ([event("SNAPSHOT_FAIL", "s-1", 1), event("LAUNCH_FAILED", "s-1", 2)], "the launch failed"),
        ([event("LAUNCH_FAILED", "s-1", 2), event("SNAPSHOT_FAIL", "s-1", 1)], "the launch failed"),
        ([event("LAUNCH_FAILED", "s-1", 1), event("CLEANUP_FAIL", "s-1", 2)], "the launch failed"),
        ([event("CLEANUP_FAIL", "s-1")], "cleaning up failed"),
        (
            [event("NETWORK_RECOVERY_FAIL", rawError="no subnet")],
            "the recovery of the network failed: no subnet",
        ),
        ([event("LAUNCH_FAILED", "s-2"), event("CLEANUP_FAIL")], None),
        ([event("LAUNCH_START", "s-1"), event("A_NEW_WORD", "s-1"), {}], None),
    ],
)
def test_the_reason_is_the_last_failure_that_concerns_the_server(
    events: list[dict[str, Any]], reason: str | None
) -> None:
    assert parse_log(events).reason_for("s-1") == reason


def test_a_long_error_is_cut() -> None:
    reason = parse_log([event("LAUNCH_FAILED", "s-1", rawError="x" * 65_536)]).reason_for("s-1")

    assert reason is not None
    assert len(reason) == len("the launch failed: ") + LONGEST_REASON
    assert reason.endswith("…")


def test_a_job_has_the_reasons_of_its_servers_and_whether_it_was_cancelled() -> None:
    log = parse_log([event("LAUNCH_FAILED", "s-2"), event("JOB_CANCEL"), event("LAUNCH_FAILED", "s-1")])

    logged = apply_log(job(ItemState.DONE, ItemState.FAILED), log)

    assert logged.cancelled
    assert [server.reason for server in logged.items] == [None, "the launch failed"]


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        (job(), job(ItemState.FAILED, state=STARTED), False),
        (job(), job(ItemState.DONE), False),
        (job(), job(ItemState.DONE, ItemState.FAILED), True),
        (job(), job(ItemState.PENDING), True),
        (job(), job(), True),
        (job(finished_at=100), job(ItemState.FAILED), True),
        (job(finished_at=99), job(ItemState.FAILED), False),
        (
            Job("j-1", FINISHED, (WorkItem("s-1", ItemState.FAILED, reason="known"),)),
            job(ItemState.FAILED),
            False,
        ),
    ],
)
def test_a_log_is_read_only_of_a_failed_job_and_not_for_ever(before: Job, after: Job, wanted: bool) -> None:
    assert needs_log(before, after, 100 + READ_FOR_MS) is wanted

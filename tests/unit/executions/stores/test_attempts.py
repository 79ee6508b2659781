"""Which job decides about a server, and how a record keeps several that list it."""

from __future__ import annotations

from typing import Any

import pytest

from longwatch.executions.model import Execution, ItemState, Job, JobKind, JobState, WorkItem
from longwatch.executions.responses import apply_response
from longwatch.executions.stores.records import parse_record, to_record
from tests.unit.executions.samples import FAILED, LAUNCHED, MINUTE, START, TERMINATED, response

FIRST = Job(
    "j-1",
    JobState.FINISHED,
    (WorkItem("s-1", FAILED, reason="boom"), WorkItem("s-2", LAUNCHED)),
    created_at=START,
)
RETRY = Job("j-2", JobState.STARTED, (WorkItem("s-1", LAUNCHED),), created_at=START + MINUTE)
CLEANUP = Job(
    "j-3",
    JobState.FINISHED,
    (WorkItem("s-2", TERMINATED),),
    kind=JobKind.TERMINATE,
    created_at=START + 2 * MINUTE,
)


def read(*waves: dict[str, Any]) -> Execution:
    """The execution of a record that another program has written."""
    return parse_record(
        {
            "ExecutionId": "x-1",
            "PlanId": "p-1",
            "Status": "POLLING",
            "StartTime": START // 1000,
            "Waves": list(waves),
        }
    )


def states(execution: Execution) -> dict[str, dict[str, ItemState]]:
    """The states of servers, by job."""
    return {
        job.job_id: {server.item_id: server.state for server in job.items}
        for wave in execution.stages
        for job in wave.jobs
    }


@pytest.mark.parametrize(
    "wave",
    [
        {"JobIds": ["j-1", "j-2", "j-3"]},
        {"JobId": "j-1", "JobIds": ["j-3", "j-2"]},
        {"JobIds": ["j-1"], "Servers": [{"SourceServerId": "s-1", "JobIds": ["j-2", "j-3"]}]},
        {
            "Servers": [
                {"SourceServerId": "s-1", "JobId": "j-1"},
                {"SourceServerId": "s-1", "JobId": "j-2"},
                {"SourceServerId": "s-2", "JobID": "j-3"},
            ]
        },
    ],
)
def test_every_attempt_survives_a_record_and_the_latest_launch_decides(wave: dict[str, Any]) -> None:
    updated = apply_response(read(wave), response(START, FIRST, RETRY, CLEANUP))

    again = parse_record(to_record(updated))

    assert (
        states(again)
        == states(updated)
        == {
            "j-1": {"s-1": FAILED, "s-2": LAUNCHED},
            "j-2": {"s-1": LAUNCHED},
            "j-3": {"s-2": TERMINATED},
        }
    )
    decided = {server_id: job.job_id for server_id, (job, _) in again.stages[0].attempts().items()}
    assert decided == {"s-1": "j-2", "s-2": "j-1"}
    assert parse_record(to_record(again)).stages == again.stages


def test_a_poll_without_news_is_not_a_change_for_a_server_of_two_jobs() -> None:
    once = apply_response(read({"JobIds": ["j-1", "j-2"]}), response(START, FIRST, RETRY))

    twice = apply_response(parse_record(to_record(once)), response(START + MINUTE, FIRST, RETRY))

    assert twice.last_change_at == START


def test_jobs_that_only_servers_name_are_polled_where_the_servers_are() -> None:
    servers = [
        {"SourceServerId": "s-1", "JobId": "j-1", "Region": "eu-west-1"},
        {"SourceServerId": "s-2", "JobId": "j-2", "Region": "eu-central-1", "AccountId": "123"},
        {"SourceServerId": "s-3", "JobId": "j-1"},
        "s-4",
    ]

    (wave,) = read({"WaveName": "one", "Servers": servers}).stages

    assert [(job.job_id, job.region, job.account) for job in wave.jobs] == [
        ("j-1", "eu-west-1", None),
        ("j-2", "eu-central-1", "123"),
    ]
    assert wave.expected_items == ("s-1", "s-2", "s-3", "s-4")


def test_entries_of_a_server_for_each_of_its_jobs_keep_their_own_status() -> None:
    servers = [{"SourceServerId": "s-1", "JobId": "j-1"}, {"SourceServerId": "s-1", "JobId": "j-2"}]
    updated = apply_response(read({"Servers": servers}), response(START, FIRST, RETRY))

    stored = to_record(updated)["Waves"][0]["Servers"]

    assert [(each["JobId"], each["Status"]) for each in stored[:2]] == [
        ("j-1", "FAILED"),
        ("j-2", "LAUNCHED"),
    ]


def test_the_entry_of_a_server_shows_the_attempt_that_decides() -> None:
    wave = {"JobIds": ["j-1", "j-2"], "Servers": [{"SourceServerId": "s-1", "JobId": "j-1"}]}
    updated = apply_response(read(wave), response(START, FIRST, RETRY))

    (stored,) = [
        each for each in to_record(updated)["Waves"][0]["Servers"] if each["SourceServerId"] == "s-1"
    ]

    assert (stored["JobId"], stored["Status"]) == ("j-2", "LAUNCHED")

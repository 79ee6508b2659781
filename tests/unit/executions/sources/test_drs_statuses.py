"""Every status that DRS can return is in our tables: checked against the installed model of the service."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from longwatch.executions.model import ItemState, JobState, StepState, WorkItem
from longwatch.executions.sources.drs import ACTION_STATES, JOB_STATES, SERVER_STATES, parse_job
from longwatch.testing.services import service_model


@pytest.mark.parametrize(
    ("shape", "table"),
    [
        ("JobStatus", JOB_STATES),
        ("LaunchStatus", SERVER_STATES),
        ("LaunchActionRunStatus", ACTION_STATES),
    ],
)
def test_every_status_of_the_service_is_translated_and_no_other(
    shape: str, table: Mapping[str, object]
) -> None:
    assert set(table) == set(service_model().shape_for(shape).enum)


def test_the_fields_that_are_read_exist() -> None:
    model = service_model()

    def members(shape: str) -> set[str]:
        return set(model.shape_for(shape).members)

    assert {"jobID", "status", "participatingServers"} <= members("Job")
    assert {"sourceServerID", "launchStatus", "recoveryInstanceID", "launchActionsStatus"} <= members(
        "ParticipatingServer"
    )
    assert {"action", "runId", "status", "failureReason"} <= members("LaunchActionRun")
    assert {"name", "actionId"} <= members("LaunchAction")
    assert "jobIDs" in members("DescribeJobsRequestFilters")


def test_a_job_with_nothing_but_an_id_is_pending() -> None:
    job = parse_job({"jobID": "drsjob-1"})

    assert (job.state, job.items) == (JobState.PENDING, ())


def test_an_empty_status_is_unknown() -> None:
    run = {"action": {}, "status": ""}
    server = {"sourceServerID": "s-1", "launchStatus": "", "launchActionsStatus": {"runs": [run]}}

    job = parse_job({"jobID": "drsjob-1", "status": "", "participatingServers": [server]})
    odd = parse_job(
        {"jobID": "drsjob-1", "status": "COMPLETED", "type": "", "participatingServers": [server]}
    )

    assert (job.state, job.items[0].state) == (JobState.UNKNOWN, ItemState.UNKNOWN)
    assert job.items[0].steps[0].state is StepState.UNKNOWN
    assert odd.state is JobState.UNKNOWN


def test_unknown_statuses_are_not_an_end() -> None:
    run = {"action": {}, "status": "PAUSED"}
    server = {
        "sourceServerID": "s-1",
        "launchStatus": "MELTING",
        "launchActionsStatus": {"runs": [run]},
    }

    job = parse_job({"jobID": "drsjob-1", "status": "ARCHIVED", "participatingServers": [server, {}]})

    assert (job.state, job.source_status) == (JobState.UNKNOWN, "ARCHIVED")
    (shown,) = job.items
    assert (shown.state, shown.source_status) == (ItemState.UNKNOWN, "MELTING")
    (action,) = shown.steps
    assert (action.state, action.name, action.source_status) == (StepState.UNKNOWN, "action 1", "PAUSED")


def test_a_server_without_a_launch_status_is_pending() -> None:
    job = parse_job({"jobID": "drsjob-1", "participatingServers": [{"sourceServerID": "s-1"}]})

    assert job.items == (WorkItem("s-1"),)

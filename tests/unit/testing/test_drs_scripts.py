"""Scripts define the state of a job at any moment, in statuses that the service could return."""

from __future__ import annotations

from typing import Any

import pytest

from longwatch.testing.drs import ActionScript, JobScript, ServerScript, drill, recovery
from longwatch.testing.drs.scripts import job_id_of, server_id_of
from longwatch.testing.services import ServiceError, parse_request, render_error, render_response

JOB = job_id_of("j")


def at(script: JobScript, seconds: float) -> dict[str, Any]:
    job = script.at(seconds, job_id=JOB, started_at=0)
    assert job is not None
    render_response("DescribeJobs", {"items": [job]})
    return job


def words(script: JobScript, seconds: float) -> list[str]:
    return [server["launchStatus"] for server in at(script, seconds)["participatingServers"]]


def test_a_drill_goes_from_pending_to_launched_as_one_was_observed() -> None:
    script = drill("s-1", "s-2", spread=10)

    assert (at(script, 0)["status"], words(script, 0)) == ("PENDING", ["PENDING", "PENDING"])
    assert (at(script, 808)["status"], words(script, 808)) == ("STARTED", ["IN_PROGRESS", "PENDING"])
    assert words(script, 1184) == ["LAUNCHED", "IN_PROGRESS"]
    assert (at(script, 1194)["status"], words(script, 1194)) == ("COMPLETED", ["LAUNCHED", "LAUNCHED"])
    assert at(script, 9999)["endDateTime"] == "1970-01-01T00:19:54.000Z"


def test_a_recovery_runs_its_launch_actions_one_after_the_other() -> None:
    script = recovery("s-1", pending=10, active=10, actions={"install": 5, "check": 5})

    def runs(seconds: float) -> list[str]:
        (server,) = at(script, seconds)["participatingServers"]
        return [run["status"] for run in server.get("launchActionsStatus", {}).get("runs", ())]

    assert at(script, 0)["initiatedBy"] == "START_RECOVERY"
    assert runs(19) == []
    assert runs(20) == ["IN_PROGRESS", "IN_PROGRESS"]
    assert runs(25) == ["SUCCEEDED", "IN_PROGRESS"]
    assert runs(30) == ["SUCCEEDED", "SUCCEEDED"]


def test_a_server_can_fail_and_the_job_is_completed_all_the_same() -> None:
    script = drill("s-1", "s-2", pending=10, active=10).without("s-2", after=15)

    assert words(script, 12) == ["IN_PROGRESS", "IN_PROGRESS"]
    assert (words(script, 20), at(script, 20)["status"]) == (["LAUNCHED", "FAILED"], "COMPLETED")


def test_a_job_is_forgotten_when_the_script_requires_it() -> None:
    script = JobScript(servers=[], steps=[(0, "COMPLETED")], gone_after=60)

    assert at(script, 59)["participatingServers"] == []
    assert script.at(60, job_id=JOB, started_at=0) is None


def test_servers_can_be_listed_one_by_one() -> None:
    late = ServerScript(server_id="s-1", steps=[(0, "PENDING")], listed_from=5)
    script = JobScript(servers=[late], steps=[(0, "STARTED")])

    assert words(script, 4) == []
    assert words(script, 5) == ["PENDING"]


def test_a_failed_action_has_its_reason() -> None:
    action = ActionScript(name="install", begins=0, ends=1, status="FAILED", reason="no agent")

    assert action.at(1, "r-1") == {
        "action": {"name": "install"},
        "runId": "r-1",
        "status": "FAILED",
        "failureReason": "no agent",
    }


@pytest.mark.parametrize(
    ("job", "mistake"),
    [
        ({}, "jobID is missing"),
        ({"jobID": JOB, "status": "FAILED"}, "not one of PENDING, STARTED, COMPLETED"),
        ({"jobID": "job-1"}, "does not allow"),
        ({"jobID": JOB, "outcome": "fine"}, "outcome is unknown"),
        ({"jobID": JOB, "participatingServers": [{"sourceServerID": 7}]}, "is not a string"),
        ({"jobID": JOB, "participatingServers": ["s-1"]}, "is not a structure"),
    ],
)
def test_a_response_that_the_service_could_never_send_is_refused(job: dict[str, Any], mistake: str) -> None:
    with pytest.raises(AssertionError, match=mistake):
        render_response("DescribeJobs", {"items": [job]})


@pytest.mark.parametrize(
    "body", [b"{", b'{"maxResults": 0}', b'{"filters": {"jobIDs": ["x"]}}', b'{"jobs": []}']
)
def test_a_request_that_the_service_would_refuse_is_refused(body: bytes) -> None:
    with pytest.raises(ServiceError) as caught:
        parse_request("DescribeJobs", body)

    assert caught.value.shape == "ValidationException"
    assert render_error("DescribeJobs", caught.value).status == 400


def test_an_error_that_the_operation_does_not_have_is_a_mistake_of_the_test() -> None:
    with pytest.raises(AssertionError, match="never returns ConflictException"):
        render_error("DescribeJobs", ServiceError("ConflictException", "no"))


def test_short_names_become_ids_of_the_right_shape() -> None:
    assert server_id_of("s-1") == "s-00000000000000001"
    assert server_id_of(server_id_of("s-1")) == server_id_of("s-1")
    assert job_id_of("drsjob-7") == "drsjob-00000000000000007"

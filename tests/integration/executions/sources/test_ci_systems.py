"""GitHub, GitLab and Jenkins on their wire formats, from a real server on this machine."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from typing import Any

import pytest

from longwatch.errors import ExecutionNotFound, InvalidInput
from longwatch.testing import FakeClock
from tests.integration.executions.sources.conftest import Endpoint, Reply
from tests.integration.executions.sources.shell import Shell

GITHUB, GITLAB, JENKINS = "github:octo/shop/42", "gitlab:team/web/shop/7", "jenkins:job/team/job/shop/9"


@pytest.fixture(autouse=True)
def servers(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GH_TOKEN", "GITHUB_TOKEN", "GITLAB_TOKEN", "GITLAB_ACCESS_TOKEN", "GITLAB_HOST"):
        monkeypatch.delenv(name, raising=False)
    for name in ("JENKINS_USER_ID", "JENKINS_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GITHUB_API_URL", endpoint.url)
    monkeypatch.setenv("CI_SERVER_URL", endpoint.url)
    monkeypatch.setenv("JENKINS_URL", f"{endpoint.url}/")


def run(status: str, conclusion: str | None, **more: Any) -> dict[str, Any]:
    """A workflow run as `GET /repos/{owner}/{repo}/actions/runs/{run_id}` returns it."""
    return {
        "id": 42,
        "name": "Build",
        "run_number": 106,
        "run_attempt": 1,
        "status": status,
        "conclusion": conclusion,
        "created_at": "2026-11-15T09:00:00Z",
        "run_started_at": "2026-11-15T09:00:00Z",
        "repository": {"full_name": "octo/shop"},
        **more,
    }


def pipeline(status: str) -> dict[str, Any]:
    """A pipeline as `GET /projects/:id/pipelines/:pipeline_id` returns it."""
    return {
        "id": 7,
        "iid": 3,
        "project_id": 1,
        "status": status,
        "ref": "main",
        "yaml_errors": None,
        "created_at": "2026-11-15T09:00:00.000Z",
        "detailed_status": {"text": status, "group": status},
    }


def build(building: bool, result: str | None) -> dict[str, Any]:
    """A build as `GET …/api/json` returns it."""
    return {
        "_class": "org.jenkinsci.plugins.workflow.job.WorkflowRun",
        "building": building,
        "result": result,
        "timestamp": 1_794_733_200_000,
        "fullDisplayName": "team » shop #9",
    }


@pytest.mark.parametrize(
    ("what", "body", "code"),
    [
        *((GITHUB, run(status, None), 4) for status in ("queued", "in_progress", "waiting", "requested")),
        (GITHUB, run("pending", None), 4),
        (GITHUB, run("completed", None), 4),
        (GITHUB, run("completed", "action_required"), 4),
        (GITHUB, run("completed", "gizmo"), 4),
        (GITHUB, run("gizmo", "success"), 4),
        (GITHUB, run("in_progress", "success"), 4),
        (GITHUB, run("completed", "success"), 0),
        (GITHUB, run("completed", "neutral"), 0),
        *((GITHUB, run("completed", how), 1) for how in ("failure", "timed_out", "startup_failure")),
        *((GITHUB, run("completed", how), 1) for how in ("cancelled", "skipped", "stale")),
        *((GITLAB, pipeline(status), 4) for status in ("created", "waiting_for_resource", "preparing")),
        *((GITLAB, pipeline(status), 4) for status in ("pending", "running", "manual", "scheduled")),
        *((GITLAB, pipeline(status), 4) for status in ("canceling", "waiting_for_callback", "gizmo")),
        (GITLAB, pipeline("success"), 0),
        *((GITLAB, pipeline(status), 1) for status in ("failed", "canceled", "skipped")),
        (JENKINS, build(building=True, result=None), 4),
        (JENKINS, build(building=True, result="FAILURE"), 4),
        (JENKINS, build(building=False, result=None), 4),
        (JENKINS, build(building=False, result="GIZMO"), 4),
        (JENKINS, build(building=False, result="SUCCESS"), 0),
        *((JENKINS, build(building=False, result=how), 1) for how in ("FAILURE", "UNSTABLE", "ABORTED")),
        (JENKINS, build(building=False, result="NOT_BUILT"), 1),
    ],
)
def test_every_status_of_the_system_has_its_outcome(
    shell: Shell, endpoint: Endpoint, what: str, body: dict[str, Any], code: int
) -> None:
    endpoint.returns(body)

    assert shell.watch(what, "--timeout", "1s").return_value == code


@pytest.mark.parametrize(
    ("what", "path"),
    [
        (GITHUB, "/repos/octo/shop/actions/runs/42"),
        (GITLAB, "/api/v4/projects/team%2Fweb%2Fshop/pipelines/7"),
        (JENKINS, "/job/team/job/shop/9/api/json?tree=building,result,timestamp,fullDisplayName,url"),
        ("jenkins:job/shop/job/fix%252Fdisk/9", None),
    ],
)
def test_the_url_is_that_of_the_api(shell: Shell, endpoint: Endpoint, what: str, path: str | None) -> None:
    endpoint.returns({**run("completed", "success"), "building": False, "result": "SUCCESS"} | {"x": 1})

    shell.watch(what, "--timeout", "0s")

    requested = endpoint.requests[0][0]
    assert requested == path or (
        path is None and requested.startswith("/job/shop/job/fix%252Fdisk/9/api/json")
    )


@pytest.mark.parametrize(
    ("what", "variables", "header", "value"),
    [
        (GITHUB, {"GITHUB_TOKEN": "t1"}, "Authorization", "Bearer t1"),
        (GITHUB, {"GITHUB_TOKEN": "t1", "GH_TOKEN": "t2"}, "Authorization", "Bearer t2"),
        (GITHUB, {}, "Authorization", None),
        (GITLAB, {"GITLAB_TOKEN": "t3"}, "PRIVATE-TOKEN", "t3"),
        (GITLAB, {}, "PRIVATE-TOKEN", None),
        (
            JENKINS,
            {"JENKINS_USER_ID": "ann", "JENKINS_API_TOKEN": "t4"},
            "Authorization",
            f"Basic {b64encode(b'ann:t4').decode()}",
        ),
        (JENKINS, {"JENKINS_USER_ID": "ann"}, "Authorization", None),
    ],
)
def test_the_token_is_read_from_where_the_tools_of_the_system_read_it(
    shell: Shell,
    endpoint: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    variables: dict[str, str],
    header: str,
    value: str | None,
) -> None:
    for name, token in variables.items():
        monkeypatch.setenv(name, token)
    endpoint.returns({**run("completed", "success"), "building": False, "result": "SUCCESS"})

    shell.watch(what, "--timeout", "0s")

    sent = {name.casefold(): value for name, value in endpoint.requests[0][1].items()}
    assert sent.get(header.casefold()) == value


def test_a_host_without_a_scheme_means_https(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITLAB_HOST", "127.0.0.1:9")

    watched = shell.watch(GITLAB, "--timeout", "1s")

    assert watched.return_value == 3
    assert "127.0.0.1:9" in watched.stderr


def test_a_run_that_is_started_again_is_another_execution(shell: Shell, endpoint: Endpoint) -> None:
    endpoint.returns(run("completed", "failure"))
    first = shell.watch(GITHUB)
    endpoint.returns(run("completed", "success", run_attempt=2, run_started_at="2026-11-15T09:30:00Z"))

    second = shell.watch(GITHUB)

    assert (first.return_value, second.return_value) == (1, 0)
    listed = json.loads(shell("executions", "list", "-o", "json").stdout)
    assert sorted(each["execution_id"] for each in listed) == [
        f"{GITHUB}@2026-11-15T09:00:00Z",
        f"{GITHUB}@2026-11-15T09:30:00Z",
    ]
    assert {each["plan_id"] for each in listed} == {"octo/shop"}


def test_a_rate_limit_is_waited_out_until_it_is_reset(
    shell: Shell, endpoint: Endpoint, clock: FakeClock
) -> None:
    limit = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{time.time() + 300:.0f}"}
    endpoint.returns(run("in_progress", None), run("in_progress", None), Reply(403, b"{}", limit))
    began = clock.monotonic()

    watched = shell.watch(GITHUB, "--timeout", "4m")

    assert watched.return_value == 3
    assert clock.monotonic() - began <= 241
    assert len(endpoint.requests) <= 4  # and nothing during the pause that it requested


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (GITHUB, "set GH_TOKEN or GITHUB_TOKEN first"),
        (GITLAB, "set GITLAB_TOKEN or GITLAB_ACCESS_TOKEN first"),
        (JENKINS, "set JENKINS_USER_ID and JENKINS_API_TOKEN first"),
    ],
)
def test_a_job_that_is_not_found_without_credentials_may_be_private(
    shell: Shell, what: str, message: str
) -> None:
    with pytest.raises(ExecutionNotFound, match=message):
        shell.watch(what)


def test_credentials_that_are_refused_are_named(shell: Shell, endpoint: Endpoint) -> None:
    endpoint.returns(Reply(401, b'{"message": "Bad credentials"}'))

    with pytest.raises(InvalidInput, match="Set GH_TOKEN or GITHUB_TOKEN to credentials that may read it"):
        shell.watch(GITHUB)


@pytest.mark.parametrize("what", ["github:octo/../../user/1", "jenkins:job/../9", "jenkins:job//9"])
def test_an_id_cannot_leave_its_path(shell: Shell, endpoint: Endpoint, what: str) -> None:
    with pytest.raises(InvalidInput, match="it has an empty part"):
        shell.watch(what)

    assert endpoint.requests == []


def test_a_missing_server_url_names_the_variable(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JENKINS_URL")

    with pytest.raises(InvalidInput, match="The environment variable JENKINS_URL is not set"):
        shell.watch(JENKINS)

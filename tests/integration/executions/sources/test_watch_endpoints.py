"""`longwatch watch` with an address or a watch of the settings, and all sources together, in virtual time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from longwatch.errors import InvalidInput, InvalidSettings
from longwatch.testing import FakeClock
from longwatch.testing.services import AwsService
from tests.integration.executions.sources.conftest import Endpoint, Reply
from tests.integration.executions.sources.shell import BUILD, Shell, build


def test_an_endpoint_is_read_as_the_options_define_and_headers_are_not_stored(
    shell: Shell, endpoint: Endpoint, tmp_path: Path
) -> None:
    endpoint.returns({"job": {"state": "busy"}}, {"job": {"state": "busy"}}, {"job": {"state": "shipped"}})
    url = f"{endpoint.url}/job"

    watched = shell.watch(
        url,
        "--status-path",
        "job.state",
        "--succeeded",
        "shipped",
        "--header",
        "Authorization: Bearer s3cret",
    )

    assert watched.return_value == 0
    assert "unknown status 'busy' from http, treated as running. Map it with --succeeded" in watched.stderr
    assert {headers["Authorization"] for _, headers in endpoint.requests} == {"Bearer s3cret"}
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("watching.db*"))
    assert b"s3cret" not in stored
    assert b"job.state" in stored


@pytest.mark.parametrize(
    ("reply", "named"),
    [
        ({"status": "succeeded", "instance": {"state": "running"}}, "instance.state running"),
        ({"status": "completed", "conclusion": "later"}, "conclusion later"),
    ],
)
def test_a_field_that_leaves_a_job_open_is_named_with_the_remedy(
    shell: Shell, endpoint: Endpoint, reply: dict[str, object], named: str
) -> None:
    endpoint.returns(reply)

    watched = shell.watch(endpoint.url, "--timeout", "1s")
    alone = shell.watch(f"{endpoint.url}/again", "--outcome-path", "status", "--succeeded", "completed")

    assert watched.return_value == 4
    assert f"http reports '{reply['status']}', but also {named}: treated as running" in watched.stderr
    assert "--outcome-path status" in watched.stderr
    assert alone.return_value == 0


def test_the_watched_id_names_its_run_and_every_line(shell: Shell, endpoint: Endpoint) -> None:
    endpoint.returns({"status": "queued"})
    url = f"{endpoint.url}/job"

    shell.watch(url, "--timeout", "1s")

    listed = json.loads(shell("executions", "list", "-o", "json").stdout)[0]
    assert listed["run_id"] == listed["execution_id"]
    assert listed["run_id"].startswith(f"{url}@")
    assert shell("executions", "explain", listed["execution_id"]).stdout.startswith(f"● {url}@")


@pytest.mark.parametrize(
    ("reply", "options", "code"),
    [
        ({"status": "completed", "conclusion": "failure"}, (), 1),
        ({"status": "completed", "conclusion": "success"}, (), 0),
        ({"status": "completed", "conclusion": "later"}, (), 4),
        ({"status": "done", "exit_code": 3}, (), 1),
        ({"status": "done", "note": "fine", "how": "KO"}, ("--outcome-path", "how", "--failed", "ko"), 1),
        (Reply(200, b"<html>"), ("--accept-status-code",), 0),
    ],
)
def test_the_exit_code_follows_the_field_that_qualifies_the_status(
    shell: Shell, endpoint: Endpoint, reply: Any, options: Sequence[str], code: int
) -> None:
    endpoint.returns(reply)

    watched = shell.watch(f"{endpoint.url}/job", "--timeout", "5s", *options)

    assert watched.return_value == code


def test_a_page_without_a_status_is_refused_with_the_option_that_accepts_it(
    shell: Shell, endpoint: Endpoint
) -> None:
    endpoint.returns(Reply(200, b"<html>"))

    with pytest.raises(InvalidInput, match="pass --accept-status-code"):
        shell.watch(f"{endpoint.url}/job")


def test_a_url_that_is_watched_again_after_its_end_is_a_new_run(
    shell: Shell, endpoint: Endpoint, clock: FakeClock
) -> None:
    endpoint.returns({"status": "done"})
    shell.watch(f"{endpoint.url}/job")
    clock.advance(60)
    endpoint.returns({"status": "failed"})

    again = shell.watch(f"{endpoint.url}/job")

    assert again.return_value == 1
    assert len(json.loads(shell("executions", "list", "-o", "json").stdout)) == 2


def test_the_id_of_an_ended_run_is_not_a_target_and_later_responses_correct_nothing(
    shell: Shell, endpoint: Endpoint
) -> None:
    endpoint.returns({"status": "done"})
    shell.watch(f"{endpoint.url}/job")
    (listed,) = json.loads(shell("executions", "list", "-o", "json").stdout)
    endpoint.returns({"status": "failed"})

    again = shell.watch(listed["execution_id"])

    assert again.return_value == 0
    assert "a later one at the same URL" in again.stderr
    assert len(json.loads(shell("executions", "list", "-o", "json").stdout)) == 1


def test_a_server_that_requests_a_long_pause_gets_only_the_remaining_time(
    shell: Shell, endpoint: Endpoint, clock: FakeClock
) -> None:
    endpoint.returns(Reply(503, headers={"Retry-After": "3600"}))
    began = clock.monotonic()

    watched = shell.watch(f"{endpoint.url}/job", "--wait", "--timeout", "10s")

    assert watched.return_value == 3
    assert clock.monotonic() - began <= 11


def test_the_watch_of_an_open_url_is_resumed(shell: Shell, endpoint: Endpoint, clock: FakeClock) -> None:
    endpoint.returns({"status": "running"})
    shell.watch(f"{endpoint.url}/job", "--timeout", "1s")
    clock.advance(60)
    endpoint.returns({"status": "done"})

    again = shell.watch(f"{endpoint.url}/job")

    assert again.return_value == 0
    assert len(json.loads(shell("executions", "list", "-o", "json").stdout)) == 1


def test_a_job_that_its_source_forgets_stays_open(shell: Shell, endpoint: Endpoint) -> None:
    endpoint.returns({"status": "running"}, {"status": "running"}, Reply(404))

    watched = shell.watch(f"{endpoint.url}/job", "--timeout", "1m")

    assert watched.return_value == 4
    assert "http no longer has it" in watched.stderr


def test_options_for_urls_are_refused_elsewhere(shell: Shell) -> None:
    with pytest.raises(InvalidInput, match="are for an https:// URL only"):
        shell.watch(BUILD, "--status-path", "x")
    with pytest.raises(InvalidInput, match="without a name and a colon"):
        shell.watch("http://127.0.0.1:9/", "--header", "nonsense")


def test_a_status_can_not_have_two_meanings(shell: Shell) -> None:
    with pytest.raises(InvalidInput, match="Status 'In Progress' is given for both"):
        shell.watch("http://127.0.0.1:9/", "--succeeded", "in_progress", "--failed", "In Progress")


def test_an_invalid_header_is_reported_without_its_value(shell: Shell) -> None:
    with pytest.raises(InvalidInput) as raised:
        shell.watch("http://127.0.0.1:9/", "--header", "Authorization s3cret")

    assert "s3cret" not in str(raised.value)


def test_the_polling_interval_can_be_set(shell: Shell, endpoint: Endpoint, clock: FakeClock) -> None:
    endpoint.returns({"status": "running"})

    shell.watch(f"{endpoint.url}/job", "--every", "2s", "--timeout", "9s")

    assert len(endpoint.requests) == 7  # to begin, then at 0, 2, 4, 6, 8 and 9 s


def test_a_watch_of_the_settings_has_a_name(shell: Shell, endpoint: Endpoint) -> None:
    Path("longwatch.toml").write_text(
        f'[watches.deploys]\nurl = "{endpoint.url}/{{id}}"\nstatus = "state"\nsucceeded = "live"\n'
        'failed = "broken"\nreason = "why"\nevery = "3s"\nabout = "A deploy of the shop"\n'
    )
    endpoint.returns({"state": "rolling"}, {"state": "rolling"}, {"state": "broken", "why": "no disk"})

    watched = shell.watch("deploys:42")
    sources = shell.watch("--sources")

    assert watched.return_value == 1
    assert "run deploys:42 failed: 42: no disk" in watched.stderr
    assert "A deploy of the shop" in sources.stdout


def test_an_invalid_watch_is_reported_with_its_key(shell: Shell) -> None:
    Path("longwatch.toml").write_text('[watches.deploys]\nurl = "https://x.example/{id}"\nevry = "3s"\n')

    with pytest.raises(InvalidSettings, match=r"longwatch.toml: watches.deploys.evry is unknown"):
        shell.watch("deploys:42")


def test_executions_of_every_source_are_watched_together(
    shell: Shell, codebuild: AwsService, endpoint: Endpoint
) -> None:
    codebuild.answer("BatchGetBuilds", build("IN_PROGRESS"))
    endpoint.returns({"status": "running"})
    shell.watch(BUILD, "--timeout", "0s")
    shell.watch(f"{endpoint.url}/job", "--timeout", "0s")
    shell(
        "executions", "add", "--plan", "p", "--id", "x-1", "--source", "http", "--wave", f"a={endpoint.url}/1"
    )
    codebuild.answer("BatchGetBuilds", build("SUCCEEDED"))
    endpoint.returns({"status": "done"})

    watched = shell("executions", "watch")

    assert watched.return_value == 0
    listed = json.loads(shell("executions", "list", "-o", "json").stdout)
    assert [(each["status"], each["mode"]) for each in listed] == [("succeeded", "JOB")] * 3


def test_an_execution_of_an_unknown_source_is_not_added(shell: Shell) -> None:
    with pytest.raises(InvalidInput, match=r"No source 'nobody'. Use one of drs, step-functions"):
        shell("executions", "add", "--plan", "p", "--source", "nobody")

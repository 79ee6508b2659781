"""Any HTTP endpoint as a source, against a real server."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from longwatch.executions.model import Execution, ItemState, JobState
from longwatch.executions.responses import SourceResponse
from longwatch.executions.sources.base import SourceProblem
from longwatch.executions.sources.declaration_parser import parse_declaration
from longwatch.executions.sources.declared import DeclaredSource
from longwatch.executions.sources.http import HttpCaller
from longwatch.executions.sources.http_url import url_with_options
from longwatch.executions.sources.shipped import HTTP
from longwatch.storage import http as http_client
from longwatch.storage.http import MAX_BYTES
from longwatch.testing import FakeClock
from tests.integration.executions.sources.conftest import Endpoint, Reply


def source_of(declared: Mapping[str, Any] | None = None, **headers: str) -> DeclaredSource:
    declaration = parse_declaration("jobs", declared, where="here") if declared else HTTP
    return DeclaredSource(declaration, HttpCaller(declaration, headers), clock=FakeClock())


def begun(source: DeclaredSource, what: str) -> Execution:
    found = source.begin(what)
    assert isinstance(found, Execution), found
    return found


def poll_once(source: DeclaredSource, execution: Execution) -> SourceResponse:
    result = source.poll([execution])[execution.key]
    assert isinstance(result, SourceResponse), result
    return result


def state(source: DeclaredSource, url: str) -> tuple[str | None, ItemState]:
    (job,) = poll_once(source, begun(source, url)).jobs.values()
    return job.source_status, job.items[0].state


@pytest.mark.parametrize(
    ("reply", "word", "expected"),
    [
        ({"status": "In Progress"}, "In Progress", ItemState.IN_PROGRESS),
        ({"state": "queued"}, "queued", ItemState.PENDING),
        ({"status": "COMPLETED"}, "COMPLETED", ItemState.DONE),
        ({"status": "errored"}, "errored", ItemState.FAILED),
        ({"status": "canceled"}, "canceled", ItemState.CANCELLED),
        ({"status": "frobnicating"}, "frobnicating", ItemState.UNKNOWN),
        (Reply(202), "HTTP 202", ItemState.IN_PROGRESS),
        ({"Status": "COMPLETED", "exitCode": 0}, "COMPLETED, exitCode 0", ItemState.DONE),
        (
            {"status": "completed", "conclusion": "failure"},
            "completed, conclusion failure",
            ItemState.FAILED,
        ),
        ({"status": "completed", "conclusion": "odd"}, "completed, conclusion odd", ItemState.UNKNOWN),
        ({"status": "completed", "conclusion": None}, "completed, conclusion null", ItemState.UNKNOWN),
        ({"status": 7, "other": 1}, "7", ItemState.UNKNOWN),
        ({"status": False}, "false", ItemState.UNKNOWN),
        ({"status": None, "state": "running"}, "running", ItemState.IN_PROGRESS),
        ({"status": "\ud800"}, "?", ItemState.UNKNOWN),
        ({"status": "x" * 1000}, "x" * 200, ItemState.UNKNOWN),
        (Reply(200, b"running\n"), "running", ItemState.IN_PROGRESS),
        (Reply(200, b'"in progress"'), "in progress", ItemState.IN_PROGRESS),
        (Reply(200, b"false"), "false", ItemState.UNKNOWN),
        (Reply(202, b'{"job": 1}'), "HTTP 202", ItemState.IN_PROGRESS),
    ],
)
def test_the_status_is_in_the_json_or_the_only_word_of_the_response(
    endpoint: Endpoint, reply: Any, word: str, expected: ItemState
) -> None:
    endpoint.returns(reply)

    assert state(source_of(), f"{endpoint.url}/job") == (word, expected)


@pytest.mark.parametrize(
    ("options", "reply", "expected"),
    [
        ({"status": "job.state"}, {"status": "done", "job": {"state": "running"}}, ItemState.IN_PROGRESS),
        ({"status": "done"}, {"done": True}, ItemState.UNKNOWN),
        ({"status": "done", "statuses": {"succeeded": ["true"]}}, {"done": True}, ItemState.DONE),
        ({"status": None, "statuses": {"failed": ["kaputt"]}}, {"status": "Kaputt"}, ItemState.FAILED),
        ({"status": None, "statuses": {"failed": ["HTTP 204"]}}, Reply(204), ItemState.FAILED),
        ({"accept_status_code": True}, Reply(200, b"<html>"), ItemState.DONE),
        ({"accept_status_code": True}, Reply(204), ItemState.DONE),
        ({"accept_status_code": True}, {"version": 3}, ItemState.DONE),
        ({"accept_status_code": True}, {"status": "failed"}, ItemState.FAILED),
        ({"accept_status_code": True}, {"success": False}, ItemState.FAILED),
        ({"outcome": ["how"]}, {"status": "done", "how": "badly"}, ItemState.UNKNOWN),
        ({"outcome": ["status"]}, {"status": "done", "result": "3 rows"}, ItemState.DONE),
        ({"status": "job.state"}, {"job": {"state": "done", "exit_code": 1}}, ItemState.FAILED),
    ],
)
def test_the_fragment_of_the_url_decides_how_the_response_is_read(
    endpoint: Endpoint, options: dict[str, Any], reply: Any, expected: ItemState
) -> None:
    endpoint.returns(reply)

    url = url_with_options(f"{endpoint.url}/job", **options)

    assert state(source_of(), url)[1] is expected
    assert endpoint.requests[0][0] == "/job"


def test_an_unrelated_fragment_is_left_out(endpoint: Endpoint) -> None:
    endpoint.returns({"status": "done"})

    assert state(source_of(), f"{endpoint.url}/job#section")[1] is ItemState.DONE


def test_each_watch_of_a_url_is_a_run_of_its_own(endpoint: Endpoint) -> None:
    endpoint.returns({"status": "running"})

    execution = begun(source_of(), f"{endpoint.url}/job")

    assert execution.execution_id == f"{endpoint.url}/job@2026-11-15T10:00:00Z"


def test_a_path_without_a_value_is_reported_with_the_fields_of_the_response(endpoint: Endpoint) -> None:
    endpoint.returns({"id": 1, "phase": "x"})
    source = source_of()

    found = source.begin(f"{endpoint.url}/job#status=state")

    assert isinstance(found, SourceProblem)
    assert found.lasting
    assert "has no status at state; it has id, phase" in found.message


def test_a_response_that_is_not_json_has_no_path(endpoint: Endpoint) -> None:
    endpoint.returns(Reply(200, b"<html>"))

    found = source_of().begin(f"{endpoint.url}/job#status=state")

    assert isinstance(found, SourceProblem)
    assert "returned 200 without JSON, so without state (no type, b'<html>')" in found.message


@pytest.mark.parametrize("code", [404, 410])
def test_a_job_that_is_not_found_is_missing(endpoint: Endpoint, code: int) -> None:
    endpoint.returns(Reply(code))

    assert source_of().begin(f"{endpoint.url}/job") is None


@pytest.mark.parametrize(
    ("reply", "lasting", "throttled", "pause"),
    [
        (Reply(429, headers={"Retry-After": "17"}), False, True, 17.0),
        (Reply(503, headers={"Retry-After": "nonsense"}), False, False, None),
        (Reply(500), False, False, None),
        (Reply(401), True, False, None),
        (Reply(403), True, False, None),
        (Reply(400), True, False, None),
        (Reply(302, headers={"Location": "ftp://x.example/"}), True, False, None),
        (Reply(lost=True), False, False, None),
        (Reply(200, b"x" * (MAX_BYTES + 1)), True, False, None),
    ],
)
def test_a_problem_states_whether_a_retry_helps(
    endpoint: Endpoint, reply: Reply, lasting: bool, throttled: bool, pause: float | None
) -> None:
    endpoint.returns(reply)

    found = source_of().begin(f"{endpoint.url}/job")

    assert isinstance(found, SourceProblem)
    assert (found.lasting, found.throttled, found.retry_after_seconds) == (lasting, throttled, pause)


def test_a_server_may_request_a_time_of_day(endpoint: Endpoint) -> None:
    later = datetime.now(UTC) + timedelta(minutes=5)
    endpoint.returns(Reply(503, headers={"Retry-After": format_datetime(later, usegmt=True)}))

    found = source_of().begin(f"{endpoint.url}/job")

    assert isinstance(found, SourceProblem)
    assert 290 < (found.retry_after_seconds or 0) <= 300


def test_a_requested_pause_is_honoured(endpoint: Endpoint) -> None:
    endpoint.returns(Reply(202, headers={"Retry-After": "120"}))
    source = source_of()

    response = poll_once(source, begun(source, f"{endpoint.url}/job"))

    assert response.next_at == response.at + 120_000


def test_the_polling_interval_is_the_declared_one(endpoint: Endpoint) -> None:
    endpoint.returns({"status": "queued"}, {"status": "queued"}, {"status": "running"})
    source = source_of()
    execution = begun(source, f"{endpoint.url}/job")

    waits, runs = poll_once(source, execution), poll_once(source, execution)

    assert waits.next_at == waits.at + 15_000
    assert runs.next_at == runs.at + 10_000


def test_a_redirect_is_followed_without_headers_to_another_host(
    endpoint: Endpoint, elsewhere: Endpoint
) -> None:
    endpoint.returns(
        Reply(302, headers={"Location": "/there"}), Reply(302, headers={"Location": f"{elsewhere.url}/far"})
    )
    elsewhere.returns({"status": "done"})

    assert isinstance(source_of(Authorization="secret").begin(f"{endpoint.url}/job"), Execution)

    assert [headers.get("Authorization") for _, headers in endpoint.requests] == ["secret", "secret"]
    assert [headers.get("Authorization") for _, headers in elsewhere.requests] == [None]


def test_a_chain_of_redirects_has_an_end(endpoint: Endpoint) -> None:
    endpoint.returns(*(Reply(302, headers={"Location": f"/{number}"}) for number in range(9)))

    found = source_of().begin(f"{endpoint.url}/job")

    assert isinstance(found, SourceProblem)
    assert len(endpoint.requests) == 6


def test_an_unchanged_response_is_not_sent_again(endpoint: Endpoint) -> None:
    endpoint.returns(
        Reply(200, b'{"status": "running"}', {"ETag": '"v1"'}),
        Reply(304),
        Reply(200, b'{"status": "done"}', {"ETag": '"v2"'}),
    )
    source = source_of()
    execution = begun(source, f"{endpoint.url}/job")

    same, new = poll_once(source, execution), poll_once(source, execution)

    assert [job.state for job in same.jobs.values()] == [JobState.STARTED]
    assert [job.state for job in new.jobs.values()] == [JobState.FINISHED]
    assert [headers.get("If-None-Match") for _, headers in endpoint.requests] == [None, '"v1"', '"v1"']


def test_a_declared_endpoint_puts_the_id_into_its_url_and_secrets_into_headers(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "t0p")
    endpoint.returns(
        {"deploy": {"state": "rolling", "since": 1, "steps": [{"name": "copy", "status": "live"}]}}
    )
    source = source_of(
        {
            "url": f"{endpoint.url}/{{1}}/runs/{{2}}",
            "divider": "/",
            "status": "deploy.state",
            "succeeded": "live",
            "items": "deploy.steps",
            "headers": {"Authorization": "Bearer ${DEPLOY_TOKEN}"},
        }
    )

    execution = begun(source, "my app/4 2")
    (job,) = poll_once(source, execution).jobs.values()

    assert execution.execution_id == "jobs:my app/4 2"
    assert endpoint.requests[0][0] == "/my%20app/runs/4%202"
    assert endpoint.requests[0][1]["Authorization"] == "Bearer t0p"
    assert [(each.name, each.state.value) for each in job.items[0].steps] == [("copy", "succeeded")]


def test_a_missing_secret_is_reported(endpoint: Endpoint) -> None:
    source = source_of({"url": f"{endpoint.url}/{{id}}", "headers": {"X-Key": "${NO_SUCH_VARIABLE}"}})

    found = source.begin("1")

    assert isinstance(found, SourceProblem)
    assert "NO_SUCH_VARIABLE is not set" in found.message
    assert endpoint.requests == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http:///nowhere", "Use http:// or https:// and a host"),
        ("http://me:pw@127.0.0.1/", "contains a password"),
        ("http://[::1/", "Invalid IPv6 URL"),
        ("http://127.0.0.1:9/#status=a..b", "Invalid path 'a..b'"),
    ],
)
def test_an_invalid_url_is_refused(url: str, message: str) -> None:
    found = source_of().begin(url)

    assert isinstance(found, SourceProblem)
    assert found.lasting
    assert message in found.message


def test_a_refused_connection_is_a_retryable_problem() -> None:
    found = source_of().begin("http://127.0.0.1:9/job")

    assert isinstance(found, SourceProblem)
    assert not found.lasting
    assert "127.0.0.1:9 is unreachable" in found.message


def test_a_response_that_does_not_arrive_is_given_up_at_the_timeout(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "TIMEOUT_SECONDS", 0.2)
    endpoint.returns(Reply(late=True))

    found = source_of().begin(f"{endpoint.url}/job")

    assert isinstance(found, SourceProblem)
    assert not found.lasting
    assert "timed out" in found.message


def test_an_endpoint_that_hangs_holds_up_no_other(
    endpoint: Endpoint, elsewhere: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "TIMEOUT_SECONDS", 0.5)
    endpoint.returns({"status": "running"})
    elsewhere.returns({"status": "running"})
    source = source_of()
    hanging, responding = begun(source, f"{endpoint.url}/1"), begun(source, f"{elsewhere.url}/2")
    endpoint.returns(Reply(late=True))

    results = source.poll([hanging, responding])

    assert isinstance(results[hanging.key], SourceProblem)
    assert isinstance(results[responding.key], SourceResponse)

"""The first response of a source: an outage is waited out, and what is surely wrong is reported at once."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from longwatch.errors import ExecutionNotFound, InvalidInput
from longwatch.testing import FakeClock
from longwatch.testing.services import AwsService
from tests.integration.executions.sources.conftest import Endpoint, Reply
from tests.integration.executions.sources.shell import BUILD, Shell, build


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsService]:
    with AwsService("codebuild") as service:
        monkeypatch.setenv("AWS_ENDPOINT_URL_CODEBUILD", service.url)
        yield service


@pytest.mark.parametrize(
    "reply",
    [
        Reply(503),
        Reply(500, b"<html>"),
        Reply(429),
        Reply(408),
        Reply(lost=True),
        Reply(200, b'{"status": "runn', {"Content-Type": "application/json"}),
    ],
    ids=lambda reply: f"{reply.code} {reply.body[:4]!r} {reply.lost}",
)
def test_an_outage_on_the_first_response_is_waited_out(
    shell: Shell, endpoint: Endpoint, reply: Reply
) -> None:
    endpoint.returns(reply, reply, {"status": "running"}, {"status": "done"})

    watched = shell.watch(f"{endpoint.url}/job")

    assert watched.return_value == 0
    assert watched.stderr.count("waiting for") == 1


def test_a_server_that_is_not_up_yet_is_waited_for_with_growing_delays(
    shell: Shell, clock: FakeClock
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    watched = shell.watch(f"http://127.0.0.1:{port}/job", "--timeout", "1m")

    assert watched.return_value == 3
    assert watched.stderr.count("is unreachable") == 2  # once while it waits, and at the end
    assert "is not known: 127.0.0.1" in watched.stderr


def test_waiting_for_a_first_response_ends_at_the_silence_limit(shell: Shell, endpoint: Endpoint) -> None:
    endpoint.returns(Reply(503))

    watched = shell.watch(f"{endpoint.url}/job", "--silent-after", "1m")

    assert watched.return_value == 3
    assert "stopped watching run" in watched.stderr


def test_time_spent_on_the_first_response_counts(shell: Shell, endpoint: Endpoint, clock: FakeClock) -> None:
    endpoint.returns(Reply(503, headers={"Retry-After": "40"}), {"status": "running"})
    began = clock.monotonic()

    watched = shell.watch(f"{endpoint.url}/job", "--timeout", "1m")

    assert watched.return_value == 4
    assert clock.monotonic() - began <= 61


def test_an_aws_service_that_is_unavailable_at_first_is_retried(shell: Shell, builds: AwsService) -> None:
    builds.answer("BatchGetBuilds", build("SUCCEEDED"))
    builds.lose_answers(4)

    watched = shell.watch(BUILD)

    assert watched.return_value == 0
    assert watched.stderr.count("waiting for") == 1


@pytest.mark.parametrize(
    ("reply", "error", "message"),
    [
        (Reply(404), ExecutionNotFound, "http has no .*Use --wait to wait for it"),
        (Reply(410), ExecutionNotFound, "http has no "),
        (Reply(401), InvalidInput, "returned 401. Pass the credentials with --header"),
        (Reply(403), InvalidInput, "returned 403. Pass the credentials with --header"),
        (Reply(400), InvalidInput, "returned 400"),
    ],
)
def test_a_permanent_problem_is_reported_at_once(
    shell: Shell, endpoint: Endpoint, reply: Reply, error: type[Exception], message: str
) -> None:
    endpoint.returns(reply)

    with pytest.raises(error, match=message):
        shell.watch(f"{endpoint.url}/job")

    assert len(endpoint.requests) == 1
    assert json.loads(shell("executions", "list", "-o", "json").stdout) == []


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [
        (socket.EAI_NONAME, InvalidInput, "Host name 'jobs.example' does not resolve"),
        (socket.EAI_AGAIN, None, ""),
    ],
)
def test_an_unknown_host_is_an_error_and_an_unavailable_resolver_is_an_outage(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, code: int, error: type[Exception] | None, message: str
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(code, "by the test")

    monkeypatch.setattr(socket, "getaddrinfo", fail)

    if error is not None:
        with pytest.raises(error, match=message):
            shell.watch("https://jobs.example/1")
    else:
        assert shell.watch("https://jobs.example/1", "--timeout", "9s").return_value == 3


def test_the_first_response_of_an_endpoint_sets_the_next_poll(
    shell: Shell, endpoint: Endpoint, clock: FakeClock
) -> None:
    endpoint.returns(Reply(202, headers={"Retry-After": "120"}), {"status": "done"})
    began = clock.monotonic()

    watched = shell.watch(f"{endpoint.url}/job")

    assert watched.return_value == 0
    assert len(endpoint.requests) == 2
    assert clock.monotonic() - began >= 120


def test_the_first_refusal_of_an_endpoint_sets_the_next_poll(
    shell: Shell, endpoint: Endpoint, clock: FakeClock
) -> None:
    endpoint.returns(Reply(429, headers={"Retry-After": "90"}), {"status": "done"})
    began = clock.monotonic()

    watched = shell.watch(f"{endpoint.url}/job")

    assert watched.return_value == 0
    assert clock.monotonic() - began >= 90


def test_a_timeout_while_the_service_requests_a_pause_sends_no_further_request(
    shell: Shell, endpoint: Endpoint
) -> None:
    endpoint.returns({"status": "running"}, Reply(503, headers={"Retry-After": "3600"}))

    watched = shell.watch(f"{endpoint.url}/job", "--timeout", "60s")

    assert watched.return_value == 3
    assert len(endpoint.requests) == 2


def test_a_build_is_not_polled_before_the_service_allows_it(
    shell: Shell, builds: AwsService, clock: FakeClock
) -> None:
    builds.answer("BatchGetBuilds", build("SUCCEEDED"))
    builds.fail("ThrottlingException", "Rate exceeded", headers={"Retry-After": "600"})
    began = clock.monotonic()

    watched = shell.watch(BUILD)

    assert watched.return_value == 0
    assert clock.monotonic() - began >= 600

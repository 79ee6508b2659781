"""Faults of an HTTP endpoint, on a real server: none of them is an end, and no secret is revealed."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from longwatch.executions.model import Execution
from longwatch.executions.sources.base import SourceProblem
from longwatch.executions.sources.declaration_parser import parse_declaration
from longwatch.executions.sources.declared import DeclaredSource
from longwatch.executions.sources.http import HttpCaller
from longwatch.executions.sources.shipped import HTTP
from longwatch.storage import http as http_client
from longwatch.testing import FakeClock
from tests.integration.executions.sources.conftest import Endpoint, Reply


def source_of(declared: Mapping[str, Any] | None = None, **headers: str) -> DeclaredSource:
    declaration = parse_declaration("jobs", declared, where="here") if declared else HTTP
    return DeclaredSource(declaration, HttpCaller(declaration, headers), clock=FakeClock())


@contextmanager
def spoken(parts: Iterable[bytes]) -> Iterator[str]:
    """A server that sends these bytes and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def response() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.recv(65_536)
                for part in parts:
                    connection.sendall(part)

        thread = threading.Thread(target=response, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/job"
        thread.join()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"job": {"state": "running"}}', "has no status; it has job. Pass the path"),
        (b'{"status": {"phase": "Running"}}', "has no status; it has status"),
        (b'{"status": null}', "has no status"),
        (b"{}", "it has nothing"),
        (b"[]", "it has a list"),
        (b'{"status": "runn', "with invalid JSON"),
        (b"[" * 200_000, "with invalid JSON"),
    ],
)
def test_json_without_a_status_is_never_a_success(endpoint: Endpoint, body: bytes, message: str) -> None:
    endpoint.returns(Reply(200, body))

    found = source_of().begin(f"{endpoint.url}/job")

    assert isinstance(found, SourceProblem)
    assert message in found.message


def test_a_page_behind_a_redirect_is_never_a_success(endpoint: Endpoint) -> None:
    endpoint.returns(Reply(302, headers={"Location": "/login?next=job"}), Reply(200, b"<html>Log in"))

    found = source_of().begin(f"{endpoint.url}/job")

    assert isinstance(found, SourceProblem)
    assert "it may be a login page" in found.message


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, b"<html>Log in</html>", {"Content-Type": "text/html"}),
        Reply(200, b"<status>success</status>", {"Content-Type": "application/xml"}),
        Reply(200, b"all is well", {"Content-Type": "text/plain"}),
        Reply(200, b"OK\n", {"Content-Type": "text/plain"}),
        Reply(200, b'"ok"', {"Content-Type": "application/json"}),
        Reply(200),
        Reply(201, b"created it"),
        Reply(204),
    ],
    ids=lambda reply: f"{reply.code} {reply.body[:8]!r}",
)
def test_a_response_without_a_status_is_a_problem(endpoint: Endpoint, reply: Reply) -> None:
    endpoint.returns(reply)

    found = source_of().begin(f"{endpoint.url}/job")

    assert isinstance(found, SourceProblem)
    assert "without a status" in found.message
    assert "--accept-status-code" in found.message


def test_a_login_page_in_the_middle_of_a_watch_leaves_the_job_open(endpoint: Endpoint) -> None:
    endpoint.returns({"status": "running"}, Reply(200, b"<html>Log in", {"Content-Type": "text/html"}))
    source = source_of()
    execution = source.begin(f"{endpoint.url}/job")
    assert isinstance(execution, Execution)

    results = source.poll([execution])

    assert [type(each) for each in results.values()] == [SourceProblem]


def test_a_redirect_to_a_login_page_is_not_a_success_even_where_the_code_is_accepted(
    endpoint: Endpoint,
) -> None:
    endpoint.returns(Reply(302, headers={"Location": "/login?next=job"}), Reply(200, b"<html>Log in"))

    found = source_of().begin(f"{endpoint.url}/job#accept=status-code")

    assert isinstance(found, SourceProblem)
    assert "it may be a login page" in found.message


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nwell, so f",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/pl",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nwell",
    ],
)
def test_a_response_that_was_cut_off_is_a_problem(raw: bytes) -> None:
    with spoken([raw]) as url:
        found = source_of().begin(url)

    assert isinstance(found, SourceProblem)
    assert not found.lasting


def test_slow_headers_have_the_timeout_of_a_whole_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_client, "TOTAL_SECONDS", 0.3)

    with spoken(itertools.chain([b"HTTP/1.1 200 OK\r\n"], _dripping())) as url:
        found = source_of().begin(url)

    assert isinstance(found, SourceProblem)
    assert not found.lasting


def _dripping() -> Iterator[bytes]:
    while True:
        threading.Event().wait(0.02)
        yield b"X"


def test_the_body_of_a_redirect_is_not_read(endpoint: Endpoint) -> None:
    endpoint.returns({"status": "done"})
    moved = f"HTTP/1.1 302 Found\r\nLocation: {endpoint.url}/job\r\n\r\n".encode()

    with spoken(itertools.chain([moved], itertools.repeat(b"x" * 65_536))) as url:
        found = source_of().begin(url)

    assert isinstance(found, Execution)


@pytest.mark.parametrize("value", ["Bearer s3cret\r\nX: y", "s3cret\x00", "s3cret \u20ac"])
def test_an_invalid_header_is_reported_without_its_value(endpoint: Endpoint, value: str) -> None:
    found = source_of(Authorization=value).begin(f"{endpoint.url}/job")

    assert isinstance(found, SourceProblem)
    assert "'Authorization'" in found.message
    assert "s3cret" not in found.message
    assert endpoint.requests == []


def test_a_line_break_after_a_secret_of_the_environment_is_left_out(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "t0p\n")
    endpoint.returns({"status": "done"})

    source_of(Authorization="Bearer ${DEPLOY_TOKEN}").begin(f"{endpoint.url}/job")

    assert endpoint.requests[0][1]["Authorization"] == "Bearer t0p"


def test_the_query_of_a_declared_url_is_in_no_message(endpoint: Endpoint) -> None:
    endpoint.returns(Reply(503))

    found = source_of({"url": f"{endpoint.url}/{{id}}?key=s3cret"}).begin("1")

    assert isinstance(found, SourceProblem)
    assert found.message == f"{endpoint.url}/1 returned 503"


def test_a_secret_of_the_environment_is_put_into_a_declared_url_and_into_no_message(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "s3 cret\n")
    endpoint.returns(Reply(503))

    found = source_of({"url": f"{endpoint.url}/${{DEPLOY_TOKEN}}/{{id}}"}).begin("1")

    assert isinstance(found, SourceProblem)
    assert found.message == f"{endpoint.url}/${{DEPLOY_TOKEN}}/1 returned 503"
    assert endpoint.requests[0][0] == "/s3%20cret/1"


@pytest.mark.parametrize("name", ["token", "api_key", "X-Amz-Signature", "sig", "client-secret"])
def test_a_url_with_a_secret_in_it_is_refused_before_it_is_requested_or_stored(
    endpoint: Endpoint, name: str
) -> None:
    found = source_of().begin(f"{endpoint.url}/job?page=1&{name}=s3cret#status=state")

    assert isinstance(found, SourceProblem)
    assert found.lasting
    assert name in found.message
    assert "s3cret" not in found.message
    assert endpoint.requests == []


def test_a_parameter_that_is_not_a_secret_is_accepted(endpoint: Endpoint) -> None:
    endpoint.returns({"status": "done"})

    assert isinstance(source_of().begin(f"{endpoint.url}/job?key=7&tokens=3"), Execution)

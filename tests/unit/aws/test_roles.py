"""Polling DRS in other accounts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import pytest

from longwatch.aws.roles import SESSION_NAME, account_clients
from longwatch.executions.model import Execution, ExecutionKey, Job, Stage
from longwatch.executions.responses import SourceResponse
from longwatch.executions.sources.aws import ATTEMPTS
from longwatch.executions.sources.base import SourceProblem
from longwatch.executions.sources.drs import DrsSource
from longwatch.testing.drs import DrsSimulator, drill

OWN, OTHER = "111111111111", "222222222222"
ASSUMED = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>ASIAOTHER</AccessKeyId><SecretAccessKey>secret</SecretAccessKey><SessionToken>token</SessionToken>
<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""


class Sts:
    """Hands out credentials, and remembers for which role."""

    def __init__(self) -> None:
        self.requests: list[dict[str, list[str]]] = []
        self.status = 200
        sts = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                sts.requests.append(parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode()))
                self.send_response(sts.status)
                self.send_header("Content-Length", str(len(ASSUMED)))
                self.end_headers()
                self.wfile.write(ASSUMED.encode())

            def log_message(self, format: str, *args: object) -> None:
                """Nothing to close."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def sts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sts]:
    served = Sts()
    thread = threading.Thread(target=served.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", served.url)
    yield served
    served.server.shutdown()
    thread.join()
    served.server.server_close()


@pytest.fixture
def drs(monkeypatch: pytest.MonkeyPatch) -> Iterator[DrsSimulator]:
    with DrsSimulator() as simulator:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DRS", simulator.url)
        yield simulator


KEY = ExecutionKey("p-1", "x-1")


def watching(job_id: str, account: str | None) -> Execution:
    jobs = (Job(job_id, region="eu-west-1", account=account),)
    return Execution(execution_id="x-1", plan_id="p-1", started_at=0, stages=(Stage("one", jobs),))


@pytest.mark.parametrize("account", [None, OWN])
def test_jobs_of_the_own_account_need_no_role(drs: DrsSimulator, sts: Sts, account: str | None) -> None:
    source = DrsSource(partial(account_clients("watcher", OWN), "drs"))

    result = source.poll([watching(drs.play(drill("s-1")), account)])[KEY]

    assert isinstance(result, SourceResponse)
    assert not result.missing
    assert sts.requests == []
    source.close()


def test_jobs_of_another_account_are_polled_with_its_role(drs: DrsSimulator, sts: Sts) -> None:
    source = DrsSource(partial(account_clients("watcher", OWN), "drs"))
    execution = watching(drs.play(drill("s-1")), OTHER)

    responses = [source.poll([execution])[KEY] for _ in range(2)]

    assert all(isinstance(result, SourceResponse) for result in responses)
    (request,) = sts.requests  # the credentials are cached
    assert request["RoleArn"] == [f"arn:aws:iam::{OTHER}:role/watcher"]
    assert request["RoleSessionName"] == [SESSION_NAME]
    source.close()


def test_an_sts_that_does_not_work_is_a_problem_soon(drs: DrsSimulator, sts: Sts) -> None:
    source = DrsSource(partial(account_clients("watcher", OWN), "drs"))
    sts.status = 500

    result = source.poll([watching(drs.play(drill("s-1")), OTHER)])[KEY]

    assert isinstance(result, SourceProblem)
    assert len(sts.requests) == ATTEMPTS  # as often as any source, and not as boto3 would by itself
    assert drs.calls == {}
    source.close()


def test_without_a_role_another_account_is_a_problem_and_no_job_is_missing(drs: DrsSimulator) -> None:
    source = DrsSource(partial(account_clients(None, OWN), "drs"))

    result = source.poll([watching(drs.play(drill("s-1")), OTHER)])[KEY]

    assert isinstance(result, SourceProblem)
    assert "AssumeRoleName" in result.message
    assert drs.calls == {}
    source.close()

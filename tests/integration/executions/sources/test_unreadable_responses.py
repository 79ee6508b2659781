"""An unreadable response of an AWS service is a problem: nothing is concluded from it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from longwatch.executions.model import Execution, Job, Stage
from longwatch.executions.responses import SourceResponse
from longwatch.executions.sources.aws import AwsCaller
from longwatch.executions.sources.base import SourceProblem, SourceResult
from longwatch.executions.sources.declarations import Declaration
from longwatch.executions.sources.declared import DeclaredSource
from longwatch.executions.sources.drs import DrsSource
from longwatch.executions.sources.shipped import BATCH, CLOUDFORMATION, CODEBUILD, GLUE, STEP_FUNCTIONS
from longwatch.testing import FakeClock
from longwatch.testing.services import AwsService

JOB = "drsjob-00000000000000001"
UNREADABLE = [
    b"",
    b'{"items": [{"jobID"',
    b"<html><body>Sign in</body></html>",
    b"null",
    b"[]",
    b'"ok"',
    b"5",
    b"\xff\xfe",
]
MALFORMED = [
    b"{}",
    b'{"message": "Sign in"}',
    b'{"items": null}',
    b'{"items": {"jobID": "x"}}',
    b'{"items": [null]}',
    b'{"items": [{"status": "COMPLETED"}]}',
    b'{"items": [{"jobID": "%s", "participatingServers": "none"}]}' % JOB.encode(),
]
FINISHED = b'{"items": [{"jobID": "%s", "status": "COMPLETED"}]}' % JOB.encode()


@pytest.fixture(autouse=True)
def region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")


@pytest.fixture
def drs(monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsService]:
    with AwsService("drs") as service:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DRS", service.url)
        yield service


@pytest.mark.parametrize("body", [*UNREADABLE, *MALFORMED], ids=repr)
def test_drs_loses_no_job_by_an_unreadable_response(drs: AwsService, clock: FakeClock, body: bytes) -> None:
    drs.send(body)

    problem = poll_once(clock)

    assert isinstance(problem, SourceProblem)
    assert not problem.lasting


@pytest.mark.parametrize(
    ("service", "declaration", "what"),
    [
        ("codebuild", CODEBUILD, "demo:1"),
        ("batch", BATCH, "job-1"),
        ("glue", GLUE, "load/jr_1"),
        ("stepfunctions", STEP_FUNCTIONS, "arn:aws:states:eu-west-1:1:execution:m:1"),
        ("cloudformation", CLOUDFORMATION, "shop"),
    ],
)
@pytest.mark.parametrize("body", UNREADABLE[:4], ids=repr)
def test_a_declared_service_loses_no_job_by_an_unreadable_first_response(
    monkeypatch: pytest.MonkeyPatch, service: str, declaration: Declaration, what: str, body: bytes
) -> None:
    with AwsService(service) as away:
        variable = "SFN" if service == "stepfunctions" else service.upper()
        monkeypatch.setenv(f"AWS_ENDPOINT_URL_{variable}", away.url)
        away.send(body, times=4)

        problem = DeclaredSource(declaration, AwsCaller(declaration)).begin(what)

    assert isinstance(problem, SourceProblem)
    assert not problem.lasting


def test_an_error_whose_body_is_not_an_object_is_still_an_error(drs: AwsService, clock: FakeClock) -> None:
    drs.send(b"[]", status=503, headers={"Retry-After": "9"})

    problem = poll_once(clock)

    assert isinstance(problem, SourceProblem)
    assert (problem.retry_after_seconds, problem.lasting) == (9.0, False)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("Mon, 15 Nov 2060 10:00:00 GMT", 86_400.0), ("2.5", 3.0), ("soon", None)],
)
def test_retry_after_is_read_where_the_model_has_a_whole_number(
    drs: AwsService, clock: FakeClock, header: str, seconds: float | None
) -> None:
    headers = {"Retry-After": header, "x-amzn-ErrorType": "InternalServerException"}
    drs.send(b"{}", status=500, headers=headers)

    problem = poll_once(clock)

    assert isinstance(problem, SourceProblem)
    assert (problem.retry_after_seconds, problem.lasting) == (seconds, False)


def test_retry_after_of_a_jobs_log_is_honoured_with_the_response(drs: AwsService, clock: FakeClock) -> None:
    source = DrsSource(clock=clock)
    drs.send(FINISHED)
    drs.send(b"{}", status=429, headers={"x-amzn-ErrorType": "ThrottlingException", "Retry-After": "300"})

    (response,) = source.poll([one()]).values()

    source.close()
    assert isinstance(response, SourceResponse)
    assert response.warnings == (
        f"the log of {JOB} was not read: drs:DescribeJobLogItems returned ThrottlingException",
    )
    assert (response.retry_after_seconds, response.next_at) == (300.0, clock.now_ms() + 300_000)


@pytest.mark.parametrize("body", [*UNREADABLE, b"{}", b'{"items": null}', b'{"items": [null]}'], ids=repr)
def test_an_unreadable_log_costs_only_the_reasons(drs: AwsService, clock: FakeClock, body: bytes) -> None:
    drs.send(FINISHED)
    drs.send(body)

    assert isinstance(poll_once(clock), SourceResponse)


def poll_once(clock: FakeClock) -> SourceResult:
    source = DrsSource(clock=clock)
    (result,) = source.poll([one()]).values()
    source.close()
    return result


def one() -> Execution:
    return Execution(
        execution_id="x-1", plan_id="p-1", started_at=0, stages=(Stage("only", (Job(JOB),)),), total_stages=1
    )

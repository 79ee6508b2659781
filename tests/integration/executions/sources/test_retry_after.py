"""The pause that a service requests is honoured from its first response, also by clients of boto3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from longwatch.executions.model import Execution, Job, Mode, Stage
from longwatch.executions.sources.aws import AwsCaller, response_retry_after
from longwatch.executions.sources.base import SourceProblem
from longwatch.executions.sources.dates import parse_retry_after
from longwatch.executions.sources.declared import DeclaredSource
from longwatch.executions.sources.drs import DrsSource
from longwatch.executions.sources.shipped import CODEBUILD
from longwatch.testing import FakeClock
from longwatch.testing.drs import DrsSimulator, drill
from longwatch.testing.services import AwsService
from tests.integration.executions.sources.shell import build

DATE = "Sun, 15 Nov 2026 10:00:00 GMT"
LATER = "Sun, 15 Nov 2026 10:01:30 GMT"


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsService]:
    """CodeBuild for a client that boto3 itself would let retry."""
    with AwsService("codebuild") as service:
        monkeypatch.setenv("AWS_ENDPOINT_URL_CODEBUILD", service.url)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
        yield service


def test_a_throttled_response_is_not_hidden_by_a_retry_of_the_sdk(builds: AwsService) -> None:
    builds.answer("BatchGetBuilds", build("SUCCEEDED"))
    builds.fail("ThrottlingException", "Rate exceeded", headers={"Retry-After": "600"})

    found = DeclaredSource(CODEBUILD, AwsCaller(CODEBUILD)).begin("demo:1")

    assert isinstance(found, SourceProblem)
    assert (found.throttled, found.retry_after_seconds) == (True, 600.0)
    assert len(builds.calls) == 1


def test_an_error_of_the_service_is_left_to_the_poller_too(builds: AwsService) -> None:
    builds.answer("BatchGetBuilds", build("SUCCEEDED"))
    builds.fail("ServiceUnavailable", status=503, headers={"Retry-After": "9"})

    found = DeclaredSource(CODEBUILD, AwsCaller(CODEBUILD)).begin("demo:1")

    assert isinstance(found, SourceProblem)
    assert (found.throttled, found.retry_after_seconds) == (False, 9.0)
    assert len(builds.calls) == 1


def test_a_request_without_a_response_is_tried_once_more_at_once(builds: AwsService) -> None:
    builds.answer("BatchGetBuilds", build("SUCCEEDED"))
    builds.lose_answers(1)

    found = DeclaredSource(CODEBUILD, AwsCaller(CODEBUILD)).begin("demo:1")

    assert isinstance(found, Execution)
    assert len(builds.calls) == 2


def test_drs_is_left_alone_as_long_as_it_requests(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    with DrsSimulator(clock=clock) as drs:
        monkeypatch.setenv("AWS_ENDPOINT_URL_DRS", drs.url)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
        job = drs.play(drill("s-1"))
        drs.throttle(retry_after=45)
        source = DrsSource(clock=clock)

        results = source.poll([one(job)])

        source.close()
    (problem,) = results.values()
    assert isinstance(problem, SourceProblem)
    assert (problem.throttled, problem.retry_after_seconds) == (True, 45.0)


def one(job: str) -> Execution:
    return Execution(
        execution_id="x-1",
        plan_id="p-1",
        source="drs",
        mode=Mode.DRILL,
        started_at=0,
        stages=(Stage("only", (Job(job),)),),
        total_stages=1,
    )


@pytest.mark.parametrize(
    ("headers", "modelled", "seconds"),
    [
        ({"retry-after": "7"}, None, 7.0),
        ({"retry-after": LATER, "date": DATE}, None, 90.0),
        ({"x-amz-retry-after": "1500"}, None, 1.5),
        ({"retry-after": "7"}, 30, 30.0),
        ({"retry-after": "1000000"}, None, 86_400.0),
        ({"retry-after": "soon"}, None, None),
        ({"retry-after": "-3"}, None, None),
        ({"retry-after": "nan"}, None, None),
        ({}, None, None),
    ],
)
def test_an_aws_service_requests_a_pause_in_several_ways(
    headers: Mapping[str, str], modelled: int | None, seconds: float | None
) -> None:
    response = {"ResponseMetadata": {"HTTPHeaders": headers}, "retryAfterSeconds": modelled}

    assert response_retry_after(response) == seconds


def test_a_date_is_compared_with_the_clock_of_the_server() -> None:
    assert parse_retry_after(LATER, date=DATE) == 90.0
    assert parse_retry_after(DATE, date=LATER) is None

"""The AWS SDK may be configured wrongly: that is reported once, and does not crash."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from longwatch.errors import MissingExtra
from longwatch.executions.model import Job, Stage
from longwatch.executions.sources.aws import LONGEST_MESSAGE, AwsCaller, service_problem
from longwatch.executions.sources.base import SourceProblem
from longwatch.executions.sources.declared import DeclaredSource
from longwatch.executions.sources.drs import DrsSource
from longwatch.executions.sources.shipped import AWS, CODEBUILD
from tests.unit.executions.samples import execution

pytest.importorskip("boto3")


def problem(source: DeclaredSource, *, region: str = "eu-west-1") -> SourceProblem:
    found = source.begin("demo:1", region=region)
    assert isinstance(found, SourceProblem)
    return found


def test_an_invalid_endpoint_is_reported_with_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "nonsense")

    found = problem(DeclaredSource(CODEBUILD, AwsCaller(CODEBUILD)))

    assert found.lasting
    assert "AWS_ENDPOINT_URL" in found.message


def test_an_invalid_region_is_reported_and_not_retried() -> None:
    found = problem(DeclaredSource(CODEBUILD, AwsCaller(CODEBUILD)), region="no such")

    assert found.lasting
    assert found.message == "Invalid region 'no such'. Pass another with --region"


@pytest.mark.parametrize("name", sorted(AWS))
def test_an_extra_that_is_missing_is_a_problem_and_not_raised(name: str) -> None:
    def connect(service: str, region: str | None, account: str | None) -> Any:
        raise MissingExtra(f"Asking {service}", "aws")

    found = AwsCaller(AWS[name], connect).call(("eu-west-1", None), ["demo/1"])["demo/1"]

    assert isinstance(found, SourceProblem)
    assert found.lasting
    assert "aws" in found.message


@pytest.mark.parametrize("source", [DeclaredSource(CODEBUILD, AwsCaller(CODEBUILD)), DrsSource()])
def test_an_extra_that_is_missing_is_found_by_a_check_and_by_a_poll(
    source: DeclaredSource | DrsSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("boto3", "botocore", "botocore.exceptions", "botocore.parsers"):
        monkeypatch.setitem(sys.modules, name, None)
    watched = execution(Stage("only", (Job("demo:1"),)))

    checked, (polled,) = source.check(), source.poll([watched]).values()

    assert checked is not None
    assert isinstance(polled, SourceProblem)
    assert ".[aws]" in checked.message
    assert ".[aws]" in polled.message


def test_the_error_page_of_a_proxy_is_shortened() -> None:
    response = {"Error": {"Code": "502", "Message": "<html>\n" + "x \n" * 1000}}

    found = service_problem(response, AWS["batch"].call, "eu-west-1")  # type: ignore[arg-type]

    assert "\n" not in found.message
    assert len(found.message) < LONGEST_MESSAGE + 100

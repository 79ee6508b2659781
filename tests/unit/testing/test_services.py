"""The stand-in for AWS services returns nothing that the service could not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from longwatch.testing.services import AwsService


@pytest.fixture
def batch() -> Iterator[AwsService]:
    with AwsService("batch") as service:
        yield service


@pytest.fixture
def client(batch: AwsService) -> Iterator[Any]:
    session: Any = boto3.Session()
    client = session.client("batch", endpoint_url=batch.url)
    yield client
    client.close()


@pytest.mark.parametrize(
    ("response", "message"),
    [
        ({"jobs": [{"jobId": "j-1"}]}, "jobName is missing"),
        ({"work": []}, ".work is unknown"),
    ],
)
def test_a_response_that_the_model_does_not_have_is_refused(
    batch: AwsService, response: dict[str, Any], message: str
) -> None:
    with pytest.raises(AssertionError, match=message):
        batch.answer("DescribeJobs", response)


def test_requests_are_recorded(batch: AwsService, client: Any) -> None:
    batch.answer("DescribeJobs", {"jobs": []})

    client.describe_jobs(jobs=["j-1"])

    assert batch.calls == [("DescribeJobs", {"jobs": ["j-1"]})]


def test_a_request_without_a_script_is_an_error(batch: AwsService, client: Any) -> None:
    with pytest.raises(ClientError, match="DescribeJobs is not simulated"):
        client.describe_jobs(jobs=["j-1"])


def test_a_protocol_that_it_does_not_speak_is_refused() -> None:
    with pytest.raises(ValueError, match="s3 uses rest-xml"):
        AwsService("s3")

"""Deploys templates through CloudFormation on a local engine, with the code `longwatch package` builds."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from longwatch.aws.packaging import code, machine, upload
from tests.patience import PATIENCE_SECONDS

REGION = "eu-west-1"
POLL_SECONDS = 0.05


def client(service: str, url: str) -> Any:
    """A client of a service on the engine at this address."""
    return boto3.client(
        service,  # type: ignore[call-overload]  # by name, which the stubs do not know
        endpoint_url=url,
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"mode": "standard", "total_max_attempts": 3}),
    )


def uploaded(url: str, bucket: str) -> dict[str, str]:
    """The parameters that name the code in a bucket of the engine, after putting it there."""
    s3 = client("s3", url)
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    return {
        "CodeBucket": bucket,
        "CodeKey": upload(s3, code(), bucket, "code"),
        "DefinitionKey": upload(s3, machine(), bucket, "code"),
    }


def deploy(url: str, template: Path, name: str, parameters: dict[str, str]) -> dict[str, str]:
    """Create the stack, and return its outputs."""
    cloudformation = client("cloudformation", url)
    cloudformation.create_stack(
        StackName=name,
        TemplateBody=template.read_text(),
        Capabilities=["CAPABILITY_IAM"],
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
    )
    stack = settled(cloudformation, name)
    assert stack["StackStatus"] == "CREATE_COMPLETE", stack.get("StackStatusReason")
    return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}


def settled(cloudformation: Any, name: str) -> dict[str, Any]:
    """The stack, once nothing happens to it any more."""
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while True:
        stack: dict[str, Any] = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
        if not stack["StackStatus"].endswith("_IN_PROGRESS"):
            return stack
        assert time.monotonic() < give_up_at, f"stack {name} is still {stack['StackStatus']}"
        time.sleep(POLL_SECONDS)


def ended(sfn: Any, execution: str) -> dict[str, Any]:
    """The execution, once it has ended."""
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while True:
        found: dict[str, Any] = sfn.describe_execution(executionArn=execution)
        if found["status"] != "RUNNING":
            return found
        assert time.monotonic() < give_up_at, f"{execution} is still running"
        time.sleep(POLL_SECONDS)


def configure(url: str, **settings: object) -> None:
    """Change how the engine's Step Functions behaves."""
    body = json.dumps({f"stepfunctions.{name}": value for name, value in settings.items()}).encode()
    request = urllib.request.Request(f"{url}/_ministack/config", data=body, method="POST")
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as response:
        assert set(json.load(response)["applied"]) == {f"stepfunctions.{name}" for name in settings}

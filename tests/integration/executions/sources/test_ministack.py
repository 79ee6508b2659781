"""Sources against a local engine of AWS: what is watched ends as it did there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import boto3
import pytest
from click.testing import CliRunner, Result

from longwatch.cli.main import cli
from longwatch.errors import ExecutionNotFound

pytestmark = pytest.mark.needs_ministack
ROLE = "arn:aws:iam::000000000000:role/any"


@pytest.fixture
def name() -> str:
    return f"watched-{uuid4().hex[:8]}"


@pytest.fixture
def client(ministack_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes clients of the engine; the command is led to it as well."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", ministack_url)
    made: list[Any] = []

    def make(service: str) -> Any:
        session: Any = boto3.Session()
        made.append(session.client(service, endpoint_url=ministack_url))
        return made[-1]

    yield make
    for each in made:
        each.close()


def watch(target: str, *arguments: str) -> Result:
    return CliRunner().invoke(
        cli,
        ["--journal", "sqlite:///watching.db", "watch", target, "--every", "1s", *arguments],
        catch_exceptions=False,
        standalone_mode=False,
    )


def machine(client: Any, name: str, state: dict[str, Any]) -> tuple[Any, str]:
    """Step Functions, and the ARN of a machine of one state."""
    states = client("stepfunctions")
    definition = {"StartAt": "Only", "States": {"Only": state}}
    arn = states.create_state_machine(name=name, definition=json.dumps(definition), roleArn=ROLE)
    return states, arn["stateMachineArn"]


def worked(client: Any, name: str) -> dict[str, Any]:
    """A state that continues until a worker reports that it is done: waits take no time on this engine."""
    activity = client("stepfunctions").create_activity(name=name)["activityArn"]
    return {"Type": "Task", "Resource": activity, "End": True}


def test_a_run_of_a_state_machine_is_watched_to_its_end(client: Any, name: str) -> None:
    work = worked(client, name)
    states, arn = machine(client, name, work)
    run = states.start_execution(stateMachineArn=arn)["executionArn"]
    first = watch(f"aws:step-functions:{run}", "--timeout", "1s")
    task = states.get_activity_task(activityArn=work["Resource"])
    states.send_task_success(taskToken=task["taskToken"], output="{}")

    second = watch(f"aws:step-functions:{run}", "--timeout", "30s")

    assert (first.return_value, second.return_value) == (4, 0)
    assert "in_progress (RUNNING)" in first.stdout
    assert "done (SUCCEEDED)" in second.stdout


def test_a_failed_run_has_its_error(client: Any, name: str) -> None:
    states, arn = machine(client, name, {"Type": "Fail", "Error": "NoStock", "Cause": "all sold"})
    run = states.start_execution(stateMachineArn=arn)["executionArn"]

    watched = watch(f"aws:step-functions:{run}", "--timeout", "30s")

    assert watched.return_value == 1
    assert "NoStock: all sold" in watched.stderr


def test_a_run_that_is_stopped_was_cancelled(client: Any, name: str) -> None:
    states, arn = machine(client, name, worked(client, name))
    run = states.start_execution(stateMachineArn=arn)["executionArn"]
    first = watch(f"aws:step-functions:{run}", "--timeout", "1s")
    states.stop_execution(executionArn=run)

    second = watch(f"aws:step-functions:{run}", "--timeout", "30s")

    assert (first.return_value, second.return_value) == (4, 1)
    assert "was cancelled" in second.stderr


def test_a_stack_is_watched_through_its_life(client: Any, name: str) -> None:
    stacks = client("cloudformation")
    topic = {"Topic": {"Type": "AWS::SNS::Topic"}}
    stacks.create_stack(StackName=name, TemplateBody=json.dumps({"Resources": topic}))
    created = watch(f"aws:cloudformation:{name}", "--timeout", "60s")
    queue = {"Queue": {"Type": "AWS::SQS::Queue"}}
    stacks.update_stack(StackName=name, TemplateBody=json.dumps({"Resources": topic | queue}))

    updated = watch(f"aws:cloudformation:{name}", "--timeout", "60s")
    stacks.delete_stack(StackName=name)
    again = CliRunner().invoke(
        cli, ["--journal", "sqlite:///watching.db", "executions", "list", "-o", "json"], standalone_mode=False
    )

    assert (created.return_value, updated.return_value) == (0, 0)
    assert "succeeded Topic" in created.stdout
    assert "succeeded Queue" in updated.stdout
    ids = [each["execution_id"] for each in json.loads(again.stdout)]
    assert [each.partition("@")[2].partition("-")[0] for each in ids] == ["update", "create"]


def test_a_run_of_a_glue_job_and_a_build_are_watched(client: Any, name: str) -> None:
    glue, builds = client("glue"), client("codebuild")
    glue.create_job(Name=name, Role=ROLE, Command={"Name": "glueetl", "ScriptLocation": "s3://none/none"})
    run = glue.start_job_run(JobName=name)["JobRunId"]
    builds.create_project(
        name=name,
        source={"type": "NO_SOURCE", "buildspec": "version: 0.2"},
        artifacts={"type": "NO_ARTIFACTS"},
        environment={"type": "LINUX_CONTAINER", "image": "any", "computeType": "BUILD_GENERAL1_SMALL"},
        serviceRole=ROLE,
    )
    build = builds.start_build(projectName=name)["build"]["id"]

    loaded = watch(f"aws:glue:{name}/{run}", "--timeout", "60s")
    built = watch(f"aws:codebuild:{build}", "--timeout", "60s")

    assert (loaded.return_value, built.return_value) == (0, 0)
    assert "succeeded BUILD" in built.stdout


@pytest.mark.parametrize(
    "target",
    [
        "aws:codebuild:demo:1",
        "aws:batch:j-1",
        "aws:glue:load/jr_1",
        "aws:cloudformation:no-such-stack",
        "aws:step-functions:arn:aws:states:eu-west-1:000000000000:execution:m:r",
    ],
)
def test_a_missing_job_is_reported(client: Any, target: str) -> None:
    with pytest.raises(ExecutionNotFound, match="has no "):
        watch(target)

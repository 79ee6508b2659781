"""infrastructure/executions.yaml on a local engine that checks every right, with a simulated DRS behind."""

from __future__ import annotations

import io
import json
import time
import uuid
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from longwatch.aws.packaging import code
from longwatch.executions.model import Execution, Job, Mode, Stage
from longwatch.executions.stores.base import ExecutionStore
from longwatch.executions.stores.dynamodb import TEMPLATE
from longwatch.executions.stores.factory import open_executions
from longwatch.journal.base import Journal
from longwatch.journal.factory import open_journal
from longwatch.model.event import Event
from longwatch.testing.drs import DrsSimulator, JobScript
from tests.engines.start import MiniStack
from tests.stack.deployment import REGION, client, deploy, ended, settled, uploaded
from tests.stack.templates import ROOT, TABLE_TEMPLATE

POLL_SECONDS = 0.25

T = TypeVar("T")


class GuardedMiniStack(MiniStack):
    """A MiniStack in which functions have the rights of their roles, and no others."""

    def environment(self) -> dict[str, str]:
        return super().environment() | {"AUTH": "true"}


@dataclass
class Deployed:
    """One stack of the template, and everything around it."""

    url: str
    name: str
    outputs: dict[str, str]
    parameters: dict[str, str]
    store: ExecutionStore
    journal: Journal
    drs: DrsSimulator

    def client(self, service: str) -> Any:
        return client(service, self.url)

    def start(self, *scripts: JobScript, mode: Mode = Mode.DRILL) -> str:
        """Begin jobs at DRS, a wave for each, and add the execution that they are."""
        return self.add(*(self.drs.play(script) for script in scripts), mode=mode)

    def add(self, *job_ids: str, mode: Mode = Mode.DRILL, source: str = "drs") -> str:
        """Add an execution with a wave for each job."""
        fresh = Execution(
            execution_id=f"x-{uuid.uuid4().hex[:8]}",
            plan_id="plan",
            source=source,
            mode=mode,
            started_at=int(time.time()) * 1000,
            stages=tuple(
                Stage(f"wave {number}", (Job(job_id, region=REGION),))
                for number, job_id in enumerate(job_ids, 1)
            ),
            total_stages=len(job_ids),
        )
        return self.store.add(fresh).execution_id

    def find(self) -> None:
        """Call the finder as the rule does."""
        self.client("lambda").invoke(FunctionName=self.outputs["FinderFunctionName"], InvocationType="Event")

    def poll(self, execution_id: str) -> dict[str, Any]:
        """Call the poller, and wait for its response."""
        response = self.client("lambda").invoke(
            FunctionName=self.outputs["PollerFunctionName"],
            Payload=json.dumps({"execution_id": execution_id, "plan_id": "plan"}).encode(),
        )
        result: dict[str, Any] = json.loads(response["Payload"].read())
        assert "FunctionError" not in response, result
        return result

    def get(self, execution_id: str) -> Execution:
        found = self.store.get(execution_id)
        assert found is not None
        return found

    def closed(self, execution_id: str, *, within: float) -> Execution:
        """The execution, once it is over."""
        return self.once(execution_id, lambda found: found.closed, within=within)

    def once(self, execution_id: str, holds: Callable[[Execution], bool], *, within: float) -> Execution:
        """The execution, once this is true of it."""

        def found() -> Execution | None:
            execution = self.get(execution_id)
            return execution if holds(execution) else None

        return until(found, within=within, what=f"{execution_id} is as it should be")

    def events(self, execution_id: str) -> list[Event]:
        return list(self.journal.read(self.get(execution_id).run_id).events)

    def metrics(self, function: str) -> list[dict[str, Any]]:
        """The documents with metrics in the log of a function, oldest first."""
        pages = self.client("logs").get_paginator("filter_log_events")
        lines = [
            event["message"]
            for page in pages.paginate(logGroupName=f"/aws/lambda/{self.outputs[function]}")
            for event in page["events"]
        ]
        found = [json.loads(line) for line in lines if line.startswith('{"_aws"')]
        return sorted(found, key=lambda each: each["_aws"]["Timestamp"])

    def polls(self, execution_id: str) -> list[dict[str, Any]]:
        return [each for each in self.metrics("PollerFunctionName") if each["ExecutionId"] == execution_id]

    def update(self, **changed: str) -> None:
        """Deploy again with these parameters changed."""
        self.parameters |= changed
        cloudformation = self.client("cloudformation")
        cloudformation.update_stack(
            StackName=self.name,
            UsePreviousTemplate=True,
            Capabilities=["CAPABILITY_IAM"],
            Parameters=[
                {"ParameterKey": key, "ParameterValue": value} for key, value in self.parameters.items()
            ],
        )
        assert settled(cloudformation, self.name)["StackStatus"] == "UPDATE_COMPLETE"


@contextmanager
def deployed(url: str, drs: DrsSimulator, **parameters: str) -> Iterator[Deployed]:
    """A stack of the template, with a journal's table beside it."""
    name = f"watch-{uuid.uuid4().hex[:8]}"
    journal_table = f"{name}-journal"
    uploads = uploaded(url, f"{name}-code")
    given = {
        "Environment": "test",
        "TableName": name,
        "JournalTableName": journal_table,
        "CodeBucket": uploads["CodeBucket"],
        "CodeKey": uploads["CodeKey"],
        "DrsEndpoint": drs.url,
    } | parameters
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")  # who is allowed everything there
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        deploy(url, TABLE_TEMPLATE, journal_table, {"TableName": journal_table})
        outputs = deploy(url, ROOT / TEMPLATE, name, given)
        where = f"region={REGION}&endpoint={url}"
        store = open_executions(f"dynamodb://{outputs['TableName']}?{where}")
        journal = open_journal(f"dynamodb://{journal_table}?{where}&layout=workflow")
        yield Deployed(url, name, outputs, given, store, journal, drs)
        store.close()
        journal.close()


def until(ask: Callable[[], T | None], *, within: float, what: str) -> T:
    """The requested value, once it is there."""
    give_up_at = time.monotonic() + within
    while (found := ask()) is None:
        assert time.monotonic() < give_up_at, f"after {within:.0f} s it is still not so that {what}"
        time.sleep(POLL_SECONDS)
    return found


def wait_until(moment: float) -> None:
    """Let real time pass, to this second of the monotonic clock."""
    time.sleep(max(0.0, moment - time.monotonic()))


def code_digests(stack: Deployed) -> set[str]:
    """What identifies the code of the functions."""
    functions = stack.client("lambda")
    return {
        functions.get_function_configuration(FunctionName=stack.outputs[name])["CodeSha256"]
        for name in ("FinderFunctionName", "PollerFunctionName")
    }


def changed_code() -> bytes:
    """The code of another release."""
    archive = io.BytesIO(code().content)
    with zipfile.ZipFile(archive, "a") as opened:
        opened.writestr("longwatch/newer.py", "")
    return archive.getvalue()


def succeeded_execution(stack: Deployed) -> str:
    """The ARN of an execution of Step Functions that has ended."""
    sfn, name = stack.client("stepfunctions"), f"machine-{uuid.uuid4().hex[:8]}"
    definition = {"StartAt": "Done", "States": {"Done": {"Type": "Succeed"}}}
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "states.amazonaws.com"},
                "Action": "sts:AssumeRole",
            }
        ],
    }
    role = stack.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))
    machine = sfn.create_state_machine(
        name=name, definition=json.dumps(definition), roleArn=role["Role"]["Arn"]
    )["stateMachineArn"]
    arn: str = sfn.start_execution(stateMachineArn=machine)["executionArn"]
    ended(sfn, arn)
    return arn

"""Declared AWS sources against services that speak their own wire protocol, through the real boto3."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.config import Config

from longwatch.executions.model import Execution, Job, JobState, Mode, Stage
from longwatch.executions.poller import Poller, Result
from longwatch.executions.responses import SourceResponse
from longwatch.executions.sources.aws import AwsCaller, aws_client
from longwatch.executions.sources.base import SourceProblem
from longwatch.executions.sources.declarations import AwsCall
from longwatch.executions.sources.declared import DeclaredSource
from longwatch.executions.sources.shipped import AWS
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.model.event import Event
from longwatch.model.summary import Status
from longwatch.testing import FakeClock, MemoryJournal
from longwatch.testing.services import AwsService

WHEN = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)
MACHINE = "arn:aws:states:eu-west-1:123456789012:stateMachine:orders"
RUN = "arn:aws:states:eu-west-1:123456789012:execution:orders:run-1"
QUIET = ("execution_started", "execution_asked")
STACK = "arn:aws:cloudformation:eu-west-1:123456789012:stack/shop/7c2d"


def build(id_: str, status: str, **more: Any) -> dict[str, Any]:
    return {"id": id_, "projectName": "demo", "buildStatus": status, "startTime": WHEN, **more}


def batch_job(id_: str, status: str) -> dict[str, Any]:
    return {
        "jobId": id_,
        "jobName": "load",
        "jobQueue": "q",
        "jobDefinition": "load:3",
        "status": status,
        "startedAt": 1_794_733_200_000,
    }


def run(status: str, **more: Any) -> dict[str, Any]:
    return {"executionArn": RUN, "stateMachineArn": MACHINE, "status": status, "startDate": WHEN, **more}


def stack(status: str, **more: Any) -> dict[str, Any]:
    fields = {"StackId": STACK, "StackName": "shop", "StackStatus": status, "CreationTime": WHEN, **more}
    return {"Stacks": [fields]}


def resources(*listed: tuple[str, str], more: bool = False) -> dict[str, Any]:
    summaries = [
        {
            "LogicalResourceId": name,
            "ResourceType": "AWS::SNS::Topic",
            "LastUpdatedTimestamp": WHEN,
            "ResourceStatus": status,
        }
        for name, status in listed
    ]
    return {"StackResourceSummaries": summaries, **({"NextToken": "2"} if more else {})}


class World:
    """Services on this machine, and sources that poll them with clients that do not retry."""

    def __init__(self, stack: ExitStack, clock: FakeClock) -> None:
        self._stack = stack
        self._clock = clock
        self.places: list[tuple[str | None, str | None]] = []

    def make(self, name: str) -> tuple[AwsService, DeclaredSource]:
        declaration = AWS[name]
        assert isinstance(declaration.call, AwsCall)
        service = self._stack.enter_context(AwsService(declaration.call.service))

        def connect(service_name: str, region: str | None, account: str | None) -> Any:
            self.places.append((region, account))
            session: Any = boto3.Session()
            return session.client(
                service_name,
                region_name=region,
                endpoint_url=service.url,
                config=Config(retries={"mode": "standard", "total_max_attempts": 1}),
            )

        source = DeclaredSource(declaration, AwsCaller(declaration, connect), clock=self._clock)
        self._stack.callback(source.close)
        return service, source


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def world(clock: FakeClock) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(stack, clock)


def begun(source: DeclaredSource, what: str) -> Execution:
    execution = source.begin(what)
    assert isinstance(execution, Execution)
    return execution


def problem(source: DeclaredSource, what: str) -> SourceProblem:
    found = source.begin(what)
    assert isinstance(found, SourceProblem)
    return found


def watched(source: DeclaredSource, execution: Execution, clock: FakeClock) -> tuple[Execution, list[str]]:
    """Poll it to its end, and return what the journal holds."""
    store, journal = MemoryExecutionStore(), MemoryJournal()
    store.add(execution)
    poller = Poller(store, journal, {source.name: source}, clock=clock)
    for _ in range(20):
        polled = poller.poll(execution.execution_id, execution.plan_id)
        if polled.result is Result.ENDED:
            events = journal.read(execution.run_id).events
            return polled.execution, [_line_of(each) for each in events if each.type not in QUIET]
        clock.advance(60)
    raise AssertionError("it did not end")


def test_a_build_is_watched_from_its_queue_to_its_failed_phase(world: World, clock: FakeClock) -> None:
    service, source = world.make("codebuild")
    done = [
        {"phaseType": "QUEUED", "phaseStatus": "SUCCEEDED"},
        {"phaseType": "BUILD", "phaseStatus": "FAILED", "contexts": [{"message": "exit status 2"}]},
    ]
    queued = {
        "builds": [build("demo:1", "IN_PROGRESS", currentPhase="QUEUED", phases=[{"phaseType": "QUEUED"}])]
    }
    service.answer(
        "BatchGetBuilds",
        queued,
        queued,
        {
            "builds": [
                build("demo:1", "IN_PROGRESS", currentPhase="BUILD", phases=[done[0], {"phaseType": "BUILD"}])
            ]
        },
        {"builds": [build("demo:1", "FAILED", phases=done)]},
    )

    execution, lines = watched(source, begun(source, "demo:1"), clock)

    assert execution.verdict is not None
    assert (execution.status, execution.verdict.message) == (
        Status.FAILED,
        "demo:1: BUILD: exit status 2",
    )
    assert (execution.execution_id, execution.plan_id) == ("aws:codebuild:demo:1", "demo")
    assert execution.started_at == round(WHEN.timestamp() * 1000)
    assert sorted(lines) == sorted(
        [
            "pending",  # the job
            "pending",  # its server
            "QUEUED in_progress",
            "started",
            "in_progress",
            "QUEUED succeeded",
            "BUILD in_progress",
            "finished",
            "failed",
            "BUILD failed",
            "failed",  # the verdict
        ]
    )


def test_many_builds_are_polled_in_one_call_and_each_has_its_own_response(world: World) -> None:
    service, source = world.make("codebuild")
    service.answer(
        "BatchGetBuilds", {"builds": [build("demo:2", "SUCCEEDED"), build("demo:1", "IN_PROGRESS")]}
    )
    executions = [execution_of("codebuild", f"demo:{number}") for number in (1, 2, 3)]

    results = source.poll(executions)

    states = {key.execution_id: _state(response) for key, response in results.items()}
    assert states == {"x-demo:1": JobState.STARTED, "x-demo:2": JobState.FINISHED, "x-demo:3": None}
    assert [request["ids"] for _, request in service.calls] == [["demo:1", "demo:2", "demo:3"]]


def test_a_refused_id_affects_none_of_the_others(world: World) -> None:
    service, source = world.make("batch")
    service.answer(
        "DescribeJobs", lambda request: {"jobs": [batch_job(each, "RUNNING") for each in request["jobs"]]}
    )
    service.fail("ClientException", "bad id")  # for both
    service.fail("ClientException", "bad id")  # for the first alone

    refused, other = execution_of("batch", "j-1"), execution_of("batch", "j-2")

    results = source.poll([refused, other])

    first = results[refused.key]
    assert isinstance(first, SourceProblem)
    assert first.lasting
    assert _state(results[other.key]) is JobState.STARTED


def test_a_state_machines_run_fails_with_its_error_and_cause(world: World, clock: FakeClock) -> None:
    service, source = world.make("step-functions")
    service.answer(
        "DescribeExecution", run("RUNNING"), run("RUNNING"), run("FAILED", error="E", cause="no stock")
    )

    execution, _ = watched(source, begun(source, RUN), clock)

    assert execution.verdict is not None
    assert execution.verdict.message == "orders:run-1: E: no stock"
    assert execution.plan_id == MACHINE
    assert world.places == [("eu-west-1", None)]


def test_a_run_of_a_glue_job_has_an_id_of_two_parts(world: World, clock: FakeClock) -> None:
    service, source = world.make("glue")
    service.answer("GetJobRun", {"JobRun": {"JobName": "nightly/load", "JobRunState": "SUCCEEDED"}})

    execution, _ = watched(source, begun(source, "nightly/load/jr_1"), clock)

    assert execution.status is Status.SUCCEEDED
    assert service.calls[0] == ("GetJobRun", {"JobName": "nightly/load", "RunId": "jr_1"})
    assert "Use FIRST/SECOND" in problem(source, "nightly").message


def test_a_stack_is_watched_with_its_resources_over_all_pages(world: World, clock: FakeClock) -> None:
    service, source = world.make("cloudformation")
    service.answer(
        "DescribeStacks", stack("CREATE_IN_PROGRESS"), stack("CREATE_IN_PROGRESS"), stack("CREATE_COMPLETE")
    )
    service.answer(
        "ListStackResources",
        resources(("Topic", "CREATE_IN_PROGRESS")),
        resources(("Topic", "CREATE_COMPLETE"), more=True),
        resources(("Queue", "CREATE_IN_PROGRESS")),
        resources(("Topic", "CREATE_COMPLETE"), ("Queue", "CREATE_COMPLETE")),
    )

    execution, lines = watched(source, begun(source, "shop"), clock)

    assert execution.status is Status.SUCCEEDED
    assert [each for each in lines if each.startswith(("Topic", "Queue"))] == [
        "Topic succeeded",
        "Queue in_progress",
        "Queue succeeded",
    ]
    names = [request["StackName"] for operation, request in service.calls if operation == "DescribeStacks"]
    assert names == ["shop", STACK, STACK]


def test_a_stack_whose_resources_may_not_be_listed_is_watched_without_them(world: World) -> None:
    service, source = world.make("cloudformation")
    service.answer("DescribeStacks", stack("CREATE_IN_PROGRESS"))

    execution = begun(source, "shop")  # ListStackResources is refused, as nothing plays it

    assert _state(source.poll([execution])[execution.key]) is JobState.STARTED


@pytest.mark.parametrize(
    ("name", "what", "code", "message"),
    [
        ("step-functions", RUN, "ExecutionDoesNotExist", "Execution Does Not Exist"),
        ("glue", "load/jr_1", "EntityNotFoundException", "Job Run Not Found"),
        ("cloudformation", "shop", "ValidationError", "Stack with id shop does not exist"),
    ],
)
def test_an_id_that_the_service_does_not_know_is_missing(
    world: World, name: str, what: str, code: str, message: str
) -> None:
    service, source = world.make(name)
    service.fail(code, message)

    assert source.begin(what) is None


@pytest.mark.parametrize(
    ("name", "operation", "empty"),
    [
        ("codebuild", "BatchGetBuilds", {"builds": [], "buildsNotFound": ["x:1"]}),
        ("batch", "DescribeJobs", {"jobs": []}),
        ("cloudformation", "DescribeStacks", {"Stacks": []}),
    ],
)
def test_a_response_without_the_job_means_that_it_is_missing(
    world: World, name: str, operation: str, empty: dict[str, Any]
) -> None:
    service, source = world.make(name)
    service.answer(operation, empty)

    assert source.begin("x:1") is None


@pytest.mark.parametrize("name", sorted(AWS))
def test_throttling_is_waited_out_and_missing_permissions_are_reported(world: World, name: str) -> None:
    service, source = world.make(name)
    service.fail("ThrottlingException", "Rate exceeded", headers={"Retry-After": "7"})
    service.fail("AccessDeniedException", "not authorized")
    service.fail("ExpiredTokenException", "expired")
    service.fail("InternalFailure", "sorry", status=500)

    throttled, denied, expired, broken = (problem(source, "a/b") for _ in range(4))

    assert (throttled.throttled, throttled.lasting, throttled.retry_after_seconds) == (True, False, 7.0)
    assert denied.lasting
    assert f"Allow {AWS[name].call.name}" in denied.message
    assert (expired.lasting, "Renew the AWS credentials" in expired.message) == (True, True)
    assert (broken.lasting, broken.throttled) == (False, False)


def test_a_wrong_clock_is_distinguished_from_wrong_credentials(world: World) -> None:
    service, source = world.make("batch")
    service.fail("InvalidSignatureException", "Signature expired: 20261118T1300Z is now earlier than …")

    reported = problem(source, "a/b")

    assert reported.lasting
    assert reported.message.endswith("Set the clock of this machine")


def test_a_lost_response_is_a_retryable_problem(world: World) -> None:
    service, source = world.make("batch")
    service.lose_answers()

    found = problem(source, "j-1")

    assert not found.lasting
    assert "is unreachable" in found.message


def test_without_a_region_or_credentials_the_problem_names_the_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = DeclaredSource(AWS["batch"], AwsCaller(AWS["batch"]))
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    no_region = problem(source, "j-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_BATCH", "http://127.0.0.1:9")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

    no_credentials = problem(source, "j-1")
    source.close()

    assert "Pass --region, or set AWS_DEFAULT_REGION" in no_region.message
    assert "No AWS credentials to poll batch with" in no_credentials.message
    assert no_region.lasting
    assert no_credentials.lasting


def test_an_operation_that_does_not_exist_is_reported() -> None:
    call = AwsCall(service="batch", operation="DescribeEverything", parameters={"id": "{id}"})
    wrong = replace(AWS["batch"], call=call)
    source = DeclaredSource(wrong, AwsCaller(wrong))

    assert problem(source, "j-1").message == "batch has no operation DescribeEverything"
    source.close()


def test_a_job_of_another_account_is_polled_there(world: World) -> None:
    service, source = world.make("batch")
    service.answer("DescribeJobs", {"jobs": [batch_job("j-1", "RUNNING")]})

    source.begin("j-1", region="us-east-1", account="210987654321")

    assert world.places == [("us-east-1", "210987654321")]


def test_a_client_has_our_timeouts() -> None:
    client = aws_client("batch", "eu-west-1")

    assert (client.meta.config.connect_timeout, client.meta.config.read_timeout) == (2, 10)
    client.close()


def _line_of(event: Event) -> str:
    payload = event.payload
    return f"{payload.get('action', '')} {payload.get('to', payload.get('status', ''))}".strip()


def execution_of(source: str, job_id: str) -> Execution:
    return Execution(
        execution_id=f"x-{job_id}",
        plan_id="p-1",
        source=source,
        mode=Mode.JOB,
        started_at=0,
        stages=(Stage("only", (Job(job_id),)),),
        total_stages=1,
    )


def _state(result: object) -> JobState | None:
    """The state of its only job; None if it is missing."""
    assert isinstance(result, SourceResponse), result
    return next((job.state for job in result.jobs.values()), None)

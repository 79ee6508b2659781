"""infrastructure/executions.yaml, deployed: rule, finder, pollers and DRS, to each of the ends.

Rules, functions and polls run in real time; in DRS, which is the simulator, time passes on demand.
The engine gives each function the rights of its role and no others. It makes no metrics from logs, so they
are read there.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from longwatch.executions.model import Evidence, Execution, Mode, StepState, Verdict
from longwatch.executions.stores.dynamodb import INDEX, POLL_INDEX
from longwatch.model.summary import Status
from longwatch.testing import FakeClock
from longwatch.testing.drs import DrsSimulator, drill, recovery
from tests.engines.start import EngineMissing
from tests.patience import PATIENCE_SECONDS
from tests.stack.executions import (
    Deployed,
    GuardedMiniStack,
    changed_code,
    code_digests,
    deployed,
    succeeded_execution,
    until,
    wait_until,
)

PAUSE_SECONDS = 120.0


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    engine = GuardedMiniStack()
    try:
        engine.start()
    except EngineMissing as error:
        pytest.skip(str(error))
    yield engine.url
    engine.stop()


@pytest.fixture(scope="module")
def clock() -> FakeClock:
    """The time in DRS."""
    return FakeClock(int(time.time() * 1000))


@pytest.fixture(scope="module")
def drs(clock: FakeClock) -> Iterator[DrsSimulator]:
    with DrsSimulator(clock=clock) as simulator:
        yield simulator


@pytest.fixture(scope="module")
def stack(engine: str, drs: DrsSimulator) -> Iterator[Deployed]:
    with deployed(engine, drs) as it:
        yield it


@pytest.fixture(scope="module")
def other(engine: str, drs: DrsSimulator) -> Iterator[Deployed]:
    """A second stack, whose rule is disabled and whose code is changed."""
    with deployed(engine, drs) as it:
        yield it


@pytest.fixture(scope="module")
def interrupted(other: Deployed, clock: FakeClock) -> tuple[str, float]:
    """A drill that was polled once, ran on without the rule, and when the rule was disabled.

    It is disabled first: a finder that it calls while something is open stays, and polls for a minute more.
    """
    other.client("events").disable_rule(Name=other.outputs["RuleName"])
    since = time.monotonic()
    execution_id = other.start(drill("s-1", "s-2", pending=0, active=5))
    other.poll(execution_id)
    clock.advance(5)
    return execution_id, since


@pytest.fixture(scope="module")
def left_alone(engine: str, drs: DrsSimulator) -> Iterator[tuple[Deployed, str, str]]:
    """A stack whose finder only the rule calls, with an execution, and one that was cancelled.

    Its pollers learn, so they read the list of runs with the rights of their role.
    """
    with deployed(engine, drs, OtherSources="true", LearnedCadence="true") as stack:
        cancelled = stack.start(drill("s-1", pending=0, active=600))
        stack.poll(cancelled)
        cancel(stack, cancelled)
        yield stack, stack.start(drill("s-1", pending=0, active=0)), cancelled


@pytest.fixture(scope="module")
def shown(stack: Deployed, clock: FakeClock) -> Mapping[str, Execution]:
    """Four executions at once, watched by two finders at once, to their ends."""
    started = {
        "drill": stack.start(drill("s-1", "s-2", pending=0, active=10)),
        "recovery": stack.start(
            recovery("s-1", "s-2", pending=0, active=10, actions={"install": 60}), mode=Mode.RECOVERY
        ),
        "waves": stack.start(*(drill("s-1", "s-2", pending=0, active=active) for active in (8, 9, 10))),
        "partial": stack.start(drill("s-1", "s-2", pending=0, active=10).without("s-2", after=9)),
    }
    stack.find()
    stack.find()
    for each in started.values():
        first = stack.once(each, lambda found: found.last_answer_at is not None, within=PATIENCE_SECONDS)
        stack.once(each, partial(is_polled_again, first), within=PATIENCE_SECONDS)
    clock.advance(10)  # all are launched, or have failed
    stack.once(started["recovery"], has_actions, within=PATIENCE_SECONDS)
    clock.advance(60)  # the actions of the recovery have ended
    return {name: stack.closed(each, within=PATIENCE_SECONDS) for name, each in started.items()}


def is_polled_again(before: Execution, after: Execution) -> bool:
    return after.last_polled_at != before.last_polled_at  # responses bear the time of DRS, which stands still


def has_actions(execution: Execution) -> bool:
    return any(server.steps for _, server in execution.items())


def test_the_stacks_are_there_and_their_rules_run(
    stack: Deployed, other: Deployed, left_alone: tuple[Deployed, str, str]
) -> None:
    for each in (stack, other, left_alone[0]):
        assert {
            "FinderFunctionName",
            "PollerFunctionName",
            "TableName",
            "Environment",
            "DeadLetterQueueName",
        } <= set(each.outputs)
        rule = each.client("events").describe_rule(Name=each.outputs["RuleName"])
        assert (rule["State"], rule["ScheduleExpression"]) == ("ENABLED", "rate(1 minute)")


def test_an_idle_finder_polls_once_and_ends(stack: Deployed) -> None:
    response = stack.client("lambda").invoke(FunctionName=stack.outputs["FinderFunctionName"])

    assert json.loads(response["Payload"].read()) == {"looks": 1, "open": 0, "handed_out": 0, "failed": 0}
    (document,) = stack.metrics("FinderFunctionName")
    assert (document["Environment"], document["ActivePollingExecutions"], document["OldestOpenSeconds"]) == (
        "test",
        0,
        0,
    )


def test_a_poll_that_fails_goes_to_the_dead_letters(stack: Deployed) -> None:
    payload = {"execution_id": "x-nobody-knows", "plan_id": "plan"}
    stack.client("lambda").invoke(
        FunctionName=stack.outputs["PollerFunctionName"],
        InvocationType="Event",
        Payload=json.dumps(payload).encode(),
    )

    def letter() -> dict[str, Any] | None:
        response = stack.client("sqs").receive_message(QueueUrl=stack.outputs["DeadLetterQueueUrl"])
        messages = response.get("Messages", [])
        return json.loads(messages[0]["Body"]) if messages else None

    assert until(letter, within=PATIENCE_SECONDS, what="there is a letter")["requestPayload"] == payload
    (document,) = stack.polls("x-nobody-knows")
    assert (document["Result"], document["PollErrors"], document["Polls"]) == ("failed", 1, 1)
    assert document["Problem"].startswith("ExecutionNotFound")


def test_a_table_and_a_record_of_an_earlier_phase_are_adopted(engine: str, drs: DrsSimulator) -> None:
    with deployed(engine, drs) as theirs:  # its table stands for one that was there before
        table = theirs.outputs["TableName"]
        theirs.client("dynamodb").put_item(
            TableName=table,
            Item={
                "ExecutionId": {"S": "x-old"},
                "PlanId": {"S": "plan"},
                "Status": {"S": "POLLING"},
                "StartTime": {"N": str(int(time.time()))},
                "ExecutionType": {"S": "DRILL"},
                "Waves": {"L": [{"M": {"JobId": {"S": drs.play(drill("s-1", pending=0, active=0))}}}]},
            },
        )
        with deployed(
            engine, drs, ExistingTableName=table, JournalTableName=theirs.parameters["JournalTableName"]
        ) as stack:
            stack.find()
            found = theirs.closed("x-old", within=PATIENCE_SECONDS)

            assert stack.outputs["TableName"] == table
            assert "TableArn" not in stack.outputs
            assert found.status is Status.SUCCEEDED
            assert theirs.events("x-old")[-1].type == "execution_ended"


def test_a_throttled_source_leaves_the_execution_open_and_is_polled_again(stack: Deployed) -> None:
    stack.drs.throttle(1, retry_after=1)
    execution_id = stack.start(drill("s-1", pending=0, active=0))

    stack.find()
    found = stack.closed(execution_id, within=PATIENCE_SECONDS)

    assert found.status is Status.SUCCEEDED
    first, last = stack.polls(execution_id)
    assert (first["Result"], first["PollErrors"], first["Throttled"]) == ("unanswered", 1, True)
    assert (last["Result"], last["PollErrors"], last["ExecutionsEnded"]) == ("ended", 0, 1)


def test_an_execution_under_a_status_of_another_writer_is_found_and_polled(stack: Deployed) -> None:
    execution_id = stack.start(drill("s-1", pending=0, active=600))
    stack.poll(execution_id)
    first = stack.get(execution_id)
    set_status(stack, execution_id, "Held by the change board")

    stack.find()
    found = stack.once(execution_id, partial(is_polled_again, first), within=PATIENCE_SECONDS)

    assert (found.other_status, found.closed) == ("Held by the change board", False)
    cancel(stack, execution_id)


def test_a_verdict_that_assumes_a_fact_is_found_and_corrected(stack: Deployed) -> None:
    execution_id = stack.start(drill("s-1", pending=0, active=0))
    started = stack.get(execution_id)
    now = int(time.time() * 1000)
    evidence = (Evidence("drs:DescribeJobs", now),)
    given = Verdict(Status.FAILED, now, evidence, assumed=("s-1 has ended, last reported as PENDING",))
    stack.store.update(replace(started, verdict=given, closed=True, recheck_at=now))

    stack.find()
    found = stack.once(execution_id, lambda each: each.status is Status.SUCCEEDED, within=PATIENCE_SECONDS)

    assert (found.closed, found.recheck_at) == (True, None)
    assert stack.events(execution_id)[-1].type == "execution_corrected"
    # On a loaded machine a second poll is dispatched before the first ends; it finds the execution closed.
    assert [poll["Result"] for poll in stack.polls(execution_id)].count("corrected") == 1


def test_another_service_is_polled_where_that_was_allowed(
    stack: Deployed, left_alone: tuple[Deployed, str, str]
) -> None:
    results = [
        each.poll(each.add(succeeded_execution(each), mode=Mode.JOB, source="step-functions"))
        for each in (left_alone[0], stack)
    ]

    assert [(each["result"], each["status"]) for each in results] == [
        ("ended", "succeeded"),
        ("unanswered", "running"),
    ]
    assert "AccessDenied" in results[1]["problem"]


def test_a_disabled_rule_is_all_that_changes(other: Deployed, interrupted: tuple[str, float]) -> None:
    execution_id, _ = interrupted

    rule = other.client("events").describe_rule(Name=other.outputs["RuleName"])

    assert rule["State"] == "DISABLED"
    assert not other.get(execution_id).closed


def test_a_drill_is_seen_from_its_start_to_its_end(stack: Deployed, shown: Mapping[str, Execution]) -> None:
    found = shown["drill"]

    assert found.status is Status.SUCCEEDED
    assert found.verdict is not None
    assert [each.call for each in found.verdict.evidence] == ["drs:DescribeJobs"]
    assert transitions(stack, found) == {
        (None, "in_progress"): 2,
        ("in_progress", "launched"): 2,
    }
    types = [event.type for event in stack.events(found.execution_id)]
    assert (types[0], types[-1]) == ("execution_started", "execution_ended")


def test_a_recovery_ends_with_its_launch_actions(stack: Deployed, shown: Mapping[str, Execution]) -> None:
    found = shown["recovery"]

    assert found.status is Status.SUCCEEDED
    assert [action.state for _, server in found.items() for action in server.steps] == [
        StepState.SUCCEEDED
    ] * 2
    actions = [each for each in stack.events(found.execution_id) if each.type == "action_transition"]
    assert Counter(each.payload["to"] for each in actions) == {"in_progress": 2, "succeeded": 2}


def test_three_parallel_waves_end_together(stack: Deployed, shown: Mapping[str, Execution]) -> None:
    found = shown["waves"]

    assert found.status is Status.SUCCEEDED
    assert len(found.stages) == 3
    assert transitions(stack, found)["in_progress", "launched"] == 6
    assert {
        event.payload["wave"] for event in stack.events(found.execution_id) if "wave" in event.payload
    } == {
        "wave 1",
        "wave 2",
        "wave 3",
    }


def test_a_server_that_fails_makes_it_partial(stack: Deployed, shown: Mapping[str, Execution]) -> None:
    found = shown["partial"]

    assert found.status is Status.PARTIAL
    assert transitions(stack, found)["in_progress", "failed"] == 1
    (last,) = [each for each in stack.polls(found.execution_id) if each["Result"] == "ended"]
    assert last["Status"] == "partial"


def test_fifteen_seconds_are_fifteen_seconds(stack: Deployed, shown: Mapping[str, Execution]) -> None:
    gaps = [
        began(after) - began(before)
        for name in ("drill", "waves", "partial")
        for before, after in pairwise(drs_polls(stack, shown[name]))
    ]

    assert all(gap >= 14_000 for gap in gaps)
    assert min(gaps) < 30_000  # the next slower cadence; a busy machine starts functions slowly


def test_two_finders_at_once_report_nothing_twice(stack: Deployed, shown: Mapping[str, Execution]) -> None:
    for found in shown.values():
        counts = Counter(event.event_id for event in stack.events(found.execution_id))

        assert set(counts.values()) == {1}


def test_the_rule_alone_starts_the_polling(left_alone: tuple[Deployed, str, str]) -> None:
    stack, execution_id, cancelled = left_alone

    found = stack.closed(execution_id, within=PATIENCE_SECONDS)
    end = until(
        lambda: next((each for each in stack.events(cancelled) if each.type == "execution_ended"), None),
        within=PATIENCE_SECONDS,
        what="the end of the one that an orchestrator cancelled is reported",
    )

    assert found.status is Status.SUCCEEDED
    assert end.payload["status"] == "cancelled"


def test_after_two_minutes_without_the_rule_nothing_is_lost(
    other: Deployed, interrupted: tuple[str, float]
) -> None:
    execution_id, since = interrupted
    wait_until(since + PAUSE_SECONDS)
    before = other.get(execution_id)

    other.client("events").enable_rule(Name=other.outputs["RuleName"])
    found = other.closed(execution_id, within=PATIENCE_SECONDS)

    assert len(drs_polls(other, before)) == 2  # none while the rule was disabled
    assert found.status is Status.SUCCEEDED
    assert transitions(other, found) == {(None, "in_progress"): 2, ("in_progress", "launched"): 2}


def test_a_rollback_brings_back_the_code_and_leaves_the_index(other: Deployed) -> None:
    older, digest = other.parameters["CodeKey"], code_digests(other)
    other.client("s3").put_object(
        Bucket=other.parameters["CodeBucket"], Key="code/newer.zip", Body=changed_code()
    )
    other.update(CodeKey="code/newer.zip")
    newer_digest = code_digests(other)

    other.update(ScheduleState="DISABLED", CodeKey=older)

    assert newer_digest.isdisjoint(digest)
    assert code_digests(other) == digest
    assert other.client("events").describe_rule(Name=other.outputs["RuleName"])["State"] == "DISABLED"
    table = other.client("dynamodb").describe_table(TableName=other.outputs["TableName"])["Table"]
    assert [each["IndexName"] for each in table["GlobalSecondaryIndexes"]] == [INDEX, POLL_INDEX]
    execution_id = other.start(drill("s-1", pending=0, active=0))
    assert other.poll(execution_id)["result"] == "ended"


def test_a_function_without_its_permissions_is_refused(other: Deployed) -> None:
    iam, name = other.client("iam"), other.outputs["FinderFunctionName"]
    role = other.client("lambda").get_function_configuration(FunctionName=name)["Role"].rsplit("/", 1)[1]
    iam.delete_role_policy(RoleName=role, PolicyName="executions")

    response = other.client("lambda").invoke(FunctionName=name)

    assert response["FunctionError"]
    assert "is not authorized for table" in json.loads(response["Payload"].read())["errorMessage"]


def transitions(stack: Deployed, execution: Execution) -> Counter[tuple[object, object]]:
    """How often servers went from one state to another."""
    return Counter(
        (event.payload.get("from"), event.payload["to"])
        for event in stack.events(execution.execution_id)
        if event.type == "server_transition"
    )


def drs_polls(stack: Deployed, execution: Execution) -> list[dict[str, Any]]:
    """The polls in which DRS was called: others found another poller, or were not due."""
    return [each for each in stack.polls(execution.execution_id) if "PollingDuration" in each]


def began(poll: dict[str, Any]) -> float:
    """When a poll began, in epoch ms: its line is written when it has ended."""
    return float(poll["_aws"]["Timestamp"] - poll["PollingDuration"])


def cancel(stack: Deployed, execution_id: str) -> None:
    set_status(stack, execution_id, "CANCELLED")


def set_status(stack: Deployed, execution_id: str, word: str) -> None:
    """As an orchestrator does that knows nothing of longwatch."""
    stack.client("dynamodb").update_item(
        TableName=stack.outputs["TableName"],
        Key={"ExecutionId": {"S": execution_id}, "PlanId": {"S": "plan"}},
        UpdateExpression="SET #status = :word",
        ExpressionAttributeNames={"#status": "Status"},
        ExpressionAttributeValues={":word": {"S": word}},
    )

"""infrastructure/session-journal.yaml, deployed: executions with real Lambda code, to each of their ends."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from longwatch.journal.factory import open_journal
from longwatch.model.event import Event
from longwatch.recording.sessions import SessionRecorder
from tests.patience import PATIENCE_SECONDS
from tests.stack.agent import ScriptedAgent
from tests.stack.deployment import REGION, configure, deploy, ended, uploaded
from tests.stack.session_stack import Deployed, new_session
from tests.stack.templates import ROOT

TEMPLATE = ROOT / "infrastructure" / "session-journal.yaml"
MAX_POLLS = 8


def moment(zone: str, seconds_ago: int) -> str:
    """A time some seconds ago, as a clock of this zone writes it."""
    hours, minutes = int(zone[1:3] or 0), int(zone[-2:]) if len(zone) > 3 else 0
    offset = timedelta() if zone == "Z" else timedelta(hours=hours, minutes=minutes)
    local = datetime.now(UTC) - timedelta(seconds=seconds_ago) + (-offset if zone[0] == "-" else offset)
    return local.strftime("%Y-%m-%dT%H:%M:%S.%f") + zone


def types(events: list[Event]) -> list[str]:
    return [event.type for event in events]


@pytest.fixture(scope="module")
def deployed(ministack_url: str) -> Iterator[Deployed]:
    name = f"sessions-{uuid.uuid4().hex[:8]}"
    table = f"{name}-journal"
    endpoint = f"dynamodb://{table}?region={REGION}&layout=session&endpoint={ministack_url}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        journal = open_journal(endpoint)
        agent = ScriptedAgent(journal)
        parameters = {
            **uploaded(ministack_url, f"{name}-code"),
            "AgentUrl": agent.url,
            "TableName": table,
            "MaxLooks": str(MAX_POLLS),
            "GraceLooks": "3",
        }
        outputs = deploy(ministack_url, TEMPLATE, name, parameters)
        yield Deployed(ministack_url, name, outputs, journal, agent)
        agent.close()
        journal.close()


def test_a_session_runs_to_its_end_and_is_journaled_in_order(deployed: Deployed) -> None:
    execution, events = deployed.play("complete")

    assert execution["status"] == "SUCCEEDED"
    assert set(types(events)) == {
        "SESSION_INITIATED",
        "AGENT_INVOCATION_STARTED",
        "AGENT_ENTRYPOINT_STARTED",
        "AGENT_INVOCATION_SUCCEEDED",
        "AGENT_BACKGROUND_TASK_STARTED",
        "AGENT_BACKGROUND_TASK_COMPLETED",
        "SESSION_SUCCEEDED",
    }
    assert types(events)[:3] == ["SESSION_INITIATED", "AGENT_INVOCATION_STARTED", "AGENT_ENTRYPOINT_STARTED"]
    assert types(events)[-1] == "SESSION_SUCCEEDED"
    assert {event.payload["execution"] for event in events} == {execution["executionArn"]}


@pytest.mark.xfail(strict=True, reason="MiniStack 1.5.33 leaves out the Output of a JSONata Succeed state")
def test_the_output_names_the_session(deployed: Deployed) -> None:
    execution, events = deployed.play("complete")

    assert json.loads(execution["output"])["session_id"] == events[0].run_id


def test_the_agent_gets_its_session_in_payload_and_environment(deployed: Deployed) -> None:
    _, events = deployed.play("complete")

    request = deployed.agent.requests[-1]
    assert request["session_id"] == events[0].run_id
    assert request["environment"]["LONGWATCH_SESSION_ID"] == events[0].run_id
    assert request["environment"]["LONGWATCH_TABLE_NAME"] == deployed.outputs["TableName"]
    assert request["environment"]["LONGWATCH_REGION"] == REGION


def test_a_failed_task_fails_the_session_with_its_message(deployed: Deployed) -> None:
    execution, events = deployed.play("fail")

    assert (execution["status"], execution["error"]) == ("FAILED", "SessionFailed")
    assert execution["cause"] == "RuntimeError: out of luck"
    assert types(events)[-1] == "SESSION_FAILED"
    assert events[-1].payload["error_message"] == "RuntimeError: out of luck"


def test_a_failed_entrypoint_fails_the_session_at_once(deployed: Deployed) -> None:
    execution, events = deployed.play("break")

    assert execution["cause"] == "ValueError: the question is missing"
    assert "AGENT_ENTRYPOINT_FAILED" in types(events)
    assert types(events)[-1] == "SESSION_FAILED"


def test_an_invocation_that_fails_decides_when_the_agent_wrote_nothing(deployed: Deployed) -> None:
    execution, events = deployed.play("refuse")

    assert execution["status"] == "FAILED"
    assert "not today" in execution["cause"]
    assert types(events) == [
        "SESSION_INITIATED",
        "AGENT_INVOCATION_STARTED",
        "AGENT_INVOCATION_FAILED",
        "SESSION_FAILED",
    ]


def test_an_agent_that_completes_beats_its_failed_invocation(deployed: Deployed) -> None:
    execution, events = deployed.play("complete_then_break")

    assert execution["status"] == "SUCCEEDED"
    assert {"AGENT_INVOCATION_FAILED", "AGENT_BACKGROUND_TASK_COMPLETED"} <= set(types(events))
    assert types(events)[-1] == "SESSION_SUCCEEDED"


def test_an_agent_that_dies_silently_is_unconfirmed_not_failed(deployed: Deployed) -> None:
    execution, events = deployed.play("die")

    assert (execution["status"], execution["error"]) == ("FAILED", "SessionUnconfirmed")
    assert types(events)[-1] == "SESSION_UNCONFIRMED"
    assert f"after {MAX_POLLS} polls" in str(events[-1].payload["error_message"])


def test_a_late_completion_is_found(deployed: Deployed) -> None:
    session_id = new_session()
    deployed.agent.gate.clear()
    configure(deployed.url, _SFN_WAIT_SCALE=0.02)  # 5 s take 0.1 s
    try:
        execution = deployed.start(session_id, "late")
        recorder = SessionRecorder(deployed.journal, session_id, execution=execution)
        recorder.record("TASK_thinking_STARTED")

        deployed.agent.gate.set()
        found = ended(deployed.sfn, execution)
    finally:
        configure(deployed.url, _SFN_WAIT_SCALE=0)

    assert found["status"] == "SUCCEEDED"


def test_a_reused_session_id_does_not_find_the_old_end(deployed: Deployed) -> None:
    session_id = new_session()
    first = ended(deployed.sfn, deployed.start(session_id, "complete"))

    second = ended(deployed.sfn, deployed.start(session_id, "die"))

    assert (first["status"], second["status"]) == ("SUCCEEDED", "FAILED")
    assert second["error"] == "SessionUnconfirmed"


def test_an_end_beyond_the_first_page_is_found(deployed: Deployed) -> None:
    session_id = new_session()
    recorder = SessionRecorder(deployed.journal, session_id)
    for _ in range(4):  # a page ends at 1 MB
        recorder.record("TASK_reading_COMPLETED", notes="x" * 340_000)

    execution = deployed.start(session_id, "complete")
    found = ended(deployed.sfn, execution)

    assert found["status"] == "SUCCEEDED"
    history = deployed.sfn.get_execution_history(executionArn=execution, maxResults=1000)["events"]
    entered = [event.get("stateEnteredEventDetails", {}).get("name") for event in history]
    assert entered.count("Look") > entered.count("Decide")


def test_an_agent_that_does_not_name_its_execution_is_matched_by_its_times(deployed: Deployed) -> None:
    session_id = new_session()
    configure(deployed.url, _SFN_WAIT_SCALE=0.02)
    try:
        execution = deployed.start(session_id, "foreign")
        SessionRecorder(deployed.journal, session_id).record("AGENT_BACKGROUND_TASK_COMPLETED")
        found = ended(deployed.sfn, execution)
    finally:
        configure(deployed.url, _SFN_WAIT_SCALE=0)

    assert found["status"] == "SUCCEEDED"


@pytest.mark.parametrize(
    ("zone", "skew_seconds"),
    [("Z", 50), ("+05:30", 0), ("-0800", 50), ("+14:00", 0), ("-11", 0)],
)
def test_a_completion_counts_in_any_offset_and_with_a_clock_that_is_late(
    deployed: Deployed, zone: str, skew_seconds: int
) -> None:
    session_id = new_session()
    configure(deployed.url, _SFN_WAIT_SCALE=0.02)
    try:
        execution = deployed.start(session_id, "foreign")
        deployed.put_foreign(session_id, moment(zone, skew_seconds))
        found = ended(deployed.sfn, execution)
    finally:
        configure(deployed.url, _SFN_WAIT_SCALE=0)

    assert found["status"] == "SUCCEEDED"


def test_a_completion_from_long_before_the_start_does_not_count(deployed: Deployed) -> None:
    session_id = new_session()
    deployed.put_foreign(session_id, moment("+05:30", 90))

    found = ended(deployed.sfn, deployed.start(session_id, "foreign"))

    assert found["error"] == "SessionUnconfirmed"


def test_the_completion_of_an_earlier_execution_does_not_count_for_the_next(deployed: Deployed) -> None:
    session_id = new_session()
    configure(deployed.url, _SFN_WAIT_SCALE=0.02)
    try:
        execution = deployed.start(session_id, "foreign")
        deployed.put_foreign(session_id, moment("Z", 0))
        first = ended(deployed.sfn, execution)
    finally:
        configure(deployed.url, _SFN_WAIT_SCALE=0)

    second = ended(deployed.sfn, deployed.start(session_id, "foreign"))

    assert (first["status"], second["error"]) == ("SUCCEEDED", "SessionUnconfirmed")


def test_the_limit_without_an_ending_can_be_set_in_minutes(deployed: Deployed) -> None:
    name = f"minutes-{uuid.uuid4().hex[:8]}"
    parameters = {
        **uploaded(deployed.url, f"{name}-code"),
        "AgentUrl": deployed.agent.url,
        "TableName": f"{name}-journal",
        "MaxMinutes": "3",
    }
    outputs = deploy(deployed.url, TEMPLATE, name, parameters)

    execution = ended(
        deployed.sfn, deployed.start(new_session(), "refuse", machine=outputs["StateMachineArn"])
    )
    silent = ended(deployed.sfn, deployed.start(new_session(), "foreign", machine=outputs["StateMachineArn"]))

    assert execution["error"] == "SessionFailed"
    assert silent["error"] == "SessionUnconfirmed"
    assert "after 9 polls in 3 minutes" in silent["cause"]


def test_an_execution_without_a_session_id_is_journaled_under_its_own_name(deployed: Deployed) -> None:
    name = f"nameless-{uuid.uuid4()}"
    execution = deployed.sfn.start_execution(
        stateMachineArn=deployed.outputs["StateMachineArn"],
        name=name,
        input=json.dumps({"payload": {"act": "complete"}}),
    )["executionArn"]

    found = ended(deployed.sfn, execution)

    assert found["status"] == "SUCCEEDED"
    assert types(list(deployed.journal.read(name).events))[0] == "SESSION_INITIATED"


def test_a_throttled_query_delays_and_does_not_decide(deployed: Deployed) -> None:
    # The engine throws for a whole visit to the state, its retries included: what a long throttling does.
    found, _ = deployed.play_with(
        "complete", "Look", "0-3", "DynamoDb.ProvisionedThroughputExceededException"
    )

    assert found["status"] == "SUCCEEDED"


def test_a_journal_that_refuses_the_start_fails_the_session(deployed: Deployed) -> None:
    found, events = deployed.play_with("complete", "Record", "0", "DynamoDB.ResourceNotFoundException")

    assert found["status"] == "FAILED"
    assert "SESSION_INITIATED could not be written" in found["cause"]
    assert types(events) == ["SESSION_FAILED"]


def test_an_end_that_can_not_be_journaled_stays_what_it_is(deployed: Deployed) -> None:
    found, events = deployed.play_with("complete", "Record", "1", "DynamoDB.ResourceNotFoundException")

    assert found["status"] == "SUCCEEDED"
    assert "SESSION_SUCCEEDED" not in types(events)


def test_a_first_try_that_won_unnoticed_is_recognised(deployed: Deployed) -> None:
    session_id = new_session()
    arn = f"{deployed.outputs['StateMachineArn'].replace(':stateMachine:', ':execution:')}:{session_id}"
    existing = {"Status": {"S": "SESSION_INITIATED"}, "Payload": {"M": {"execution": {"S": arn}}}}

    found, events = deployed.play_with(
        "complete",
        "Record",
        "0",
        "DynamoDB.ConditionalCheckFailedException",
        session_id=session_id,
        returns={"WhoseIsIt": {"Items": [existing]}},
    )

    assert found["status"] == "SUCCEEDED"
    assert "SESSION_INITIATED" not in types(events)  # not written again


def test_a_sort_key_in_use_moves_the_start_to_the_next_one(deployed: Deployed) -> None:
    found, events = deployed.play_with("complete", "Record", "0", "DynamoDB.ConditionalCheckFailedException")

    assert found["status"] == "SUCCEEDED"
    assert types(events)[0] == "SESSION_INITIATED"


def test_thirty_sessions_at_once_all_end(deployed: Deployed) -> None:
    sessions = {new_session(): act for act in ("complete", "fail", "break") for _ in range(10)}

    executions = {session: deployed.start(session, act) for session, act in sessions.items()}
    ends = {session: ended(deployed.sfn, execution)["status"] for session, execution in executions.items()}

    assert ends == {
        session: "SUCCEEDED" if act == "complete" else "FAILED" for session, act in sessions.items()
    }


def test_the_command_line_shows_the_session(deployed: Deployed) -> None:
    _, events = deployed.play("complete")

    shown = longwatch(deployed, "show", events[0].run_id)

    assert shown.returncode == 0, shown.stderr
    assert "succeeded" in shown.stdout
    assert "session" in shown.stdout


@pytest.mark.parametrize(("act", "status"), [("refuse", "failed"), ("die", "unknown")])
def test_the_list_shows_the_end_that_only_the_machine_wrote(
    deployed: Deployed, act: str, status: str
) -> None:
    _, events = deployed.play(act)

    listed = {run.run_id: run.status for run in deployed.journal.find_runs(limit=200).runs}

    assert listed[events[0].run_id] == status


def test_a_session_whose_function_never_started_is_listed_with_its_reason(deployed: Deployed) -> None:
    found, events = deployed.play_with("complete", "Invoke", "0", "Lambda.ResourceNotFoundException")

    assert found["status"] == "FAILED"
    assert types(events) == ["SESSION_INITIATED", "SESSION_FAILED"]
    listed = {run.run_id: run for run in deployed.journal.find_runs(limit=200).runs}[events[0].run_id]
    assert (listed.kind, listed.status, listed.events) == ("session", "failed", 2)
    assert "as the test asked" in str(listed.error)


def test_the_list_counts_every_event_and_has_each_session_once(deployed: Deployed) -> None:
    _, events = deployed.play("complete")
    _, again = deployed.play_with("complete", "List", "0", "DynamoDb.InternalServerErrorException")

    runs = deployed.journal.find_runs(limit=200).runs

    counts = {run.run_id: run.events for run in runs}
    assert len(counts) == len(runs)
    assert counts[events[0].run_id] == len(events)
    assert counts[again[0].run_id] == len(again)  # its invoker listed it


@pytest.mark.parametrize(("act", "code"), [("complete", 0), ("fail", 1)])
def test_a_watch_follows_the_machine_and_leaves_with_its_verdict(
    deployed: Deployed, act: str, code: int
) -> None:
    session_id = new_session()
    watching = subprocess.Popen(
        [command("longwatch"), "--journal", deployed.journal_url, "watch", session_id, "--wait"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    ended(deployed.sfn, deployed.start(session_id, act))
    stdout, problems = watching.communicate(timeout=PATIENCE_SECONDS)

    assert watching.returncode == code, problems
    assert "AGENT_BACKGROUND_TASK" in stdout


def longwatch(deployed: Deployed, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [command("longwatch"), "--journal", deployed.journal_url, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


def command(name: str) -> str:
    return str(Path(sys.executable).with_name(name))

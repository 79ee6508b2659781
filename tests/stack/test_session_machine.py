"""The content of the session journal's template and state machine, before anything is deployed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name

from longwatch.recording.sessions import SessionStatus
from tests.engines.start import ENGINES
from tests.stack.policies import statements
from tests.stack.templates import ROOT, load_template

MACHINE = ROOT / "infrastructure" / "session-journal.asl.json"
TEMPLATE = ROOT / "infrastructure" / "session-journal.yaml"
OPTIMISED = {"putItem", "getItem", "updateItem", "deleteItem"}  # DynamoDB's own; a query is none of them
MOST_HISTORY_EVENTS = 25_000
EVENTS_PER_POLL = 11  # a task is five, a choice and a wait two each
DAY_SECONDS = 24 * 60 * 60

COMPLETED = "AGENT_BACKGROUND_TASK_COMPLETED"
EVALUATE = """
const jsonata = require("jsonata");
const { expression, bindings, pages } = JSON.parse(require("fs").readFileSync(0));
(async () => {
  let journal = { found: [], agentError: "", invocationError: "", previousEnd: 0 };
  for (const Items of pages)
    journal = await jsonata(expression).evaluate({}, { ...bindings, journal, states: { result: { Items } } });
  console.log(JSON.stringify(journal));
})();
"""


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return load_template(TEMPLATE)


@pytest.fixture(scope="module")
def machine() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(MACHINE.read_text())
    return loaded


def tasks(machine: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((name, state) for name, state in machine["States"].items() if state["Type"] == "Task")


def filled(template: dict[str, Any]) -> str:
    """The definition as it is deployed with the defaults."""
    text = MACHINE.read_text()
    for name in substitutions(template):
        default = template["Parameters"].get(name, {}).get("Default", "stand-in")
        text = text.replace(f"${{{name}}}", str(default))
    return text


def substitutions(template: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = template["Resources"]["SessionMachine"]["Properties"]["DefinitionSubstitutions"]
    return found


def test_cfn_lint_finds_nothing() -> None:
    result = subprocess.run(
        [Path(sys.executable).with_name("cfn-lint"), TEMPLATE], capture_output=True, text=True
    )

    assert (result.returncode, result.stdout) == (0, "")


def test_statelint_finds_nothing() -> None:
    result = subprocess.run(
        [sys.executable, ROOT / "scripts" / "check-machines", MACHINE], capture_output=True, text=True
    )

    assert (result.returncode, result.stdout) == (0, "")


def test_asl_validator_finds_nothing(template: dict[str, Any], tmp_path: Path) -> None:
    checker = ENGINES / "node_modules" / ".bin" / "asl-validator"
    if shutil.which("node") is None or not checker.exists():
        pytest.skip("asl-validator is not installed; run `make engines`, which needs npm")
    (tmp_path / "machine.json").write_text(filled(template))

    result = subprocess.run(
        [checker, "--json-path", tmp_path / "machine.json"], capture_output=True, text=True
    )

    assert result.returncode == 0, result.stdout + result.stderr


def test_every_substitution_is_given_and_used(template: dict[str, Any]) -> None:
    used = set(re.findall(r"\$\{(\w+)\}", MACHINE.read_text()))

    assert used == set(substitutions(template))


def test_nothing_is_null() -> None:
    assert "null" not in MACHINE.read_text()  # CloudFormation would refuse it


def test_every_action_is_one_that_the_service_has(machine: dict[str, Any]) -> None:
    session = botocore.session.get_session()
    for name, state in tasks(machine):
        integration = state["Resource"].removeprefix("arn:aws:states:::")
        if integration.startswith("aws-sdk:"):
            _, service, action = integration.split(":")
            operations = {
                xform_name(operation) for operation in session.get_service_model(service).operation_names
            }
            assert xform_name(action[0].upper() + action[1:]) in operations, name
        elif integration.startswith("dynamodb:"):
            assert integration.removeprefix("dynamodb:") in OPTIMISED, name
        else:
            assert integration == "lambda:invoke", name


def test_every_task_has_a_retry_policy_a_timeout_and_a_way_out(machine: dict[str, Any]) -> None:
    for name, state in tasks(machine):
        assert state["Retry"], name
        assert state["TimeoutSeconds"], name
        assert state["Catch"][-1]["ErrorEquals"] == ["States.ALL"], name


def test_the_agent_is_not_invoked_twice_unless_it_was_certainly_not_reached(machine: dict[str, Any]) -> None:
    (policy,) = machine["States"]["Invoke"]["Retry"]

    assert policy["ErrorEquals"] == ["Lambda.TooManyRequestsException"]


def test_every_write_is_conditional(machine: dict[str, Any]) -> None:
    arguments = {state["Resource"].rpartition(":")[2]: state["Arguments"] for _, state in tasks(machine)}
    writes = [
        arguments["putItem"],
        *(each["Put"] for each in arguments["transactWriteItems"]["TransactItems"]),
    ]

    assert len(writes) == 3
    assert all(write["ConditionExpression"] == "attribute_not_exists(PK)" for write in writes)


def test_every_status_that_the_machine_names_is_one_of_ours() -> None:
    named = set(re.findall(r"\b(?:SESSION|AGENT)_[A-Z_]+\b", MACHINE.read_text()))

    assert named <= set(SessionStatus)


def test_a_run_of_a_day_stays_far_from_the_limit_of_history_events(template: dict[str, Any]) -> None:
    defaults = {name: about.get("Default") for name, about in template["Parameters"].items()}
    wait, passed, polls = float(defaults["FirstWaitSeconds"]), 0.0, 0
    while polls < defaults["MaxLooks"]:
        polls += 1
        passed += wait
        wait = min(wait * 1.5, defaults["MaxWaitSeconds"])

    assert passed >= DAY_SECONDS
    assert polls * EVENTS_PER_POLL < MOST_HISTORY_EVENTS / 5
    assert template["Parameters"]["MaxLooks"]["MaxValue"] * EVENTS_PER_POLL < MOST_HISTORY_EVENTS


def test_waits_of_a_limit_in_minutes_end_at_the_limit_and_fit_into_the_history(
    template: dict[str, Any], machine: dict[str, Any]
) -> None:
    defaults = {name: about.get("Default") for name, about in template["Parameters"].items()}
    most_minutes = template["Parameters"]["MaxMinutes"]["MaxValue"]
    decide = str(machine["States"]["Decide"]["Choices"])

    assert "$waitedSeconds >= ${MaxMinutes} * 60" in decide
    for minutes in (1, 60, 1440, 10_080, most_minutes):
        longest = max(defaults["MaxWaitSeconds"], minutes * 60 / 1000)  # as WaitForMore has it
        waited, wait, polls = 0.0, float(defaults["FirstWaitSeconds"]), 1
        while waited < minutes * 60:
            waited += min(wait, minutes * 60 - waited)
            wait = min(wait * 1.5, longest)
            polls += 1
        assert waited == minutes * 60
        assert polls * EVENTS_PER_POLL < MOST_HISTORY_EVENTS


def found_in(machine: dict[str, Any], *pages: list[dict[str, Any]]) -> dict[str, Any]:
    """What the machine makes of these pages, by the reference implementation of JSONata."""
    if shutil.which("node") is None or not (ENGINES / "node_modules" / "jsonata").exists():
        pytest.skip("jsonata is not installed; run `make engines`, which needs npm")
    request = {
        "expression": machine["States"]["Look"]["Assign"]["journal"][2:-2],
        "bindings": {"execution": "e-2", "startedMs": 1_794_736_800_000},  # 2026-11-15T10:00:00Z
        "pages": pages,
    }
    result = subprocess.run(
        ["node", "-e", EVALUATE], input=json.dumps(request), capture_output=True, text=True, cwd=ENGINES
    )
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def record(status: str, at: str, *, execution: str | None = None, error: str | None = None) -> dict[str, Any]:
    item: dict[str, Any] = {"Status": {"S": status}, "Timestamp": {"S": at}}
    if execution is not None:
        item["Payload"] = {"M": {"execution": {"S": execution}}}
    if error is not None:
        item["ErrorMessage"] = {"S": error}
    return item


@pytest.mark.parametrize(
    ("at", "counts"),
    [
        ("2026-11-15T10:00:05Z", True),
        ("2026-11-15T10:00:05.123456+00:00", True),
        ("2026-11-15T15:30:05+05:30", True),
        ("2026-11-15T15:30:05+0530", True),
        ("2026-11-15T05:00:05-05", True),
        ("2026-11-15T05:00:05,25-05:00", True),
        ("2026-11-14T22:00:05-12:00", True),
        ("2026-11-16T00:00:05+14:00", True),
        ("2026-11-15T10:00:05", True),  # without an offset it is UTC
        ("2026-11-15 10:00:05z", True),
        ("2026-11-15T09:59:00.000Z", True),  # a clock that is 60 s late
        ("2026-11-15T11:59:00.000+02:00", True),
        ("2026-11-15T09:58:59.999Z", False),
        ("2026-11-15T10:30:00+05:30", False),  # 05:00 UTC, although its text is later than the start
        ("2026-11-15T10:00:05-00:61x", False),
        ("2026-02-30T10:00:00Z", False),
        ("2026-11-15", False),
        ("soon", False),
    ],
)
def test_a_record_without_an_execution_counts_by_its_time_in_any_offset(
    machine: dict[str, Any], at: str, counts: bool
) -> None:
    assert found_in(machine, [record(COMPLETED, at)])["found"] == ([COMPLETED] if counts else [])


def test_a_record_of_this_execution_counts_whatever_its_clock_showed(machine: dict[str, Any]) -> None:
    records = [record(COMPLETED, "2020-01-01T00:00:00Z", execution="e-2")]

    assert found_in(machine, records)["found"] == [COMPLETED]


def test_a_record_before_the_end_of_the_execution_before_belongs_to_that_one(machine: dict[str, Any]) -> None:
    before = [
        record(COMPLETED, "2026-11-15T09:59:30.100Z"),
        record("SESSION_SUCCEEDED", "2026-11-15T09:59:30.200Z", execution="e-1"),
    ]

    assert found_in(machine, before)["found"] == []
    assert found_in(machine, before, [record(COMPLETED, "2026-11-15T09:59:45Z")])["found"] == [COMPLETED]


def test_the_error_of_the_agent_is_cut_to_the_size_of_a_record(machine: dict[str, Any]) -> None:
    failed = record("AGENT_BACKGROUND_TASK_FAILED", "2026-11-15T10:00:05Z", error="x" * 10_000)

    assert found_in(machine, [failed])["agentError"] == "x" * 4_096


TABLE, OTHER_TABLE = "JournalTable", "arn:aws:dynamodb:eu-west-1:000000000000:table/other"


@pytest.mark.parametrize(
    ("who", "action", "resource", "allowed"),
    [
        ("MachineRole", "dynamodb:PutItem", TABLE, True),
        ("MachineRole", "dynamodb:Query", TABLE, True),
        ("MachineRole", "lambda:InvokeFunction", "InvokerFunction", True),
        ("MachineRole", "dynamodb:GetItem", TABLE, False),
        ("MachineRole", "dynamodb:UpdateItem", TABLE, False),
        ("MachineRole", "dynamodb:DeleteItem", TABLE, False),
        ("MachineRole", "dynamodb:Scan", TABLE, False),
        ("MachineRole", "dynamodb:PutItem", OTHER_TABLE, False),
        ("MachineRole", "dynamodb:Query", OTHER_TABLE, False),
        ("MachineRole", "lambda:InvokeFunction", "AnotherFunction", False),
        ("InvokerRole", "dynamodb:PutItem", TABLE, True),
        ("InvokerRole", "bedrock-agentcore:InvokeAgentRuntime", "AgentRuntimeArn", True),
        ("InvokerRole", "logs:PutLogEvents", "InvokerLogs", True),
        ("InvokerRole", "dynamodb:Query", TABLE, False),
        ("InvokerRole", "dynamodb:UpdateItem", TABLE, False),
        ("InvokerRole", "dynamodb:PutItem", OTHER_TABLE, False),
        ("InvokerRole", "bedrock-agentcore:InvokeAgentRuntime", "AnotherRuntime", False),
        ("InvokerRole", "logs:PutLogEvents", "MachineLogs", False),
        ("AgentJournalPolicy", "dynamodb:PutItem", TABLE, True),
        ("AgentJournalPolicy", "dynamodb:Query", TABLE, False),
        ("AgentJournalPolicy", "dynamodb:PutItem", OTHER_TABLE, False),
    ],
)
def test_a_role_may_do_what_it_needs_and_nothing_else(
    template: dict[str, Any], who: str, action: str, resource: str, allowed: bool
) -> None:
    granted = any(statement.allows(action, resource) for statement in statements(template, who))

    assert granted is allowed


@pytest.mark.parametrize("who", ["MachineRole", "InvokerRole", "AgentJournalPolicy"])
def test_no_statement_on_tables_reaches_beyond_the_journal(template: dict[str, Any], who: str) -> None:
    on_tables = [
        statement
        for statement in statements(template, who)
        if any(action.startswith("dynamodb:") for action in statement.actions)
    ]

    assert on_tables
    assert all(statement.resources == (TABLE,) for statement in on_tables)
    assert not [action for each in on_tables for action in each.actions if "*" in action]

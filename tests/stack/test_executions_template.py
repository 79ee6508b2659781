"""The content of infrastructure/executions.yaml, before anything is deployed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import botocore.session
import pytest

from longwatch.aws.finder import LAST_PASS_SECONDS, RUN_SECONDS
from longwatch.executions.poller import LEASE_MS
from longwatch.executions.sources.declarations import AwsCall
from longwatch.executions.sources.shipped import AWS
from longwatch.executions.stores.dynamodb import TEMPLATE
from longwatch.notifications.channels.registry import CHANNELS
from longwatch.notifications.rules import parse_rules
from tests.stack.policies import Statement, statements
from tests.stack.templates import ROOT, load_template

INDEX = "ExecutionTable.Arn/index/StatusIndex"
POLL_INDEX = "ExecutionTable.Arn/index/PollStateIndex"
JOURNAL = "arn:AWS::Partition:dynamodb:AWS::Region:AWS::AccountId:table/JournalTableName"
TOPIC = "arn:aws:sns:eu-west-1:123456789012:alerts"
LOGS = ("logs:CreateLogStream", "logs:PutLogEvents")


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return load_template(ROOT / TEMPLATE)


def properties(template: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = template["Resources"][name]["Properties"]
    return found


def test_cfn_lint_finds_nothing() -> None:
    result = subprocess.run(
        [Path(sys.executable).with_name("cfn-lint"), ROOT / TEMPLATE], capture_output=True, text=True
    )

    assert (result.returncode, result.stdout) == (0, "")


def test_the_finder_may_read_the_records_and_invoke_the_poller_and_nothing_else(
    template: dict[str, Any],
) -> None:
    assert statements(template, "ExecutionFinderRole") == [
        Statement(("dynamodb:Query",), (INDEX,)),
        Statement(("dynamodb:Query",), (POLL_INDEX,)),
        Statement(("dynamodb:GetItem",), ("ExecutionTable",)),
        Statement(("lambda:InvokeFunction",), ("ExecutionPollerFunction",)),
        Statement(LOGS, ("ExecutionFinderLogs",)),
    ]


def test_the_poller_may_write_records_and_transitions_and_read_from_drs_and_nothing_else(
    template: dict[str, Any],
) -> None:
    assert statements(template, "ExecutionPollerRole") == [
        Statement(("dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem"), ("ExecutionTable",)),
        Statement(("dynamodb:PutItem", "dynamodb:Query"), (JOURNAL,)),
        Statement(("drs:DescribeJobLogItems", "drs:DescribeJobs"), ("*",)),
        Statement(("sqs:SendMessage",), ("DeadLetterQueue",)),
        Statement(LOGS, ("ExecutionPollerLogs",)),
        Statement(declared_actions(), ("*",)),
        Statement(("sts:AssumeRole",), ("arn:AWS::Partition:iam::*:role/AssumeRoleName",)),
    ]


def declared_actions() -> tuple[str, ...]:
    """The rights that the declared sources need, by the names that IAM has for their services."""
    session = botocore.session.get_session()
    calls = [
        call
        for declaration in AWS.values()
        for call in (declaration.call, declaration.items.call if declaration.items else None)
        if isinstance(call, AwsCall)
    ]
    return tuple(
        sorted({f"{session.get_service_model(call.service).signing_name}:{call.operation}" for call in calls})
    )


@pytest.mark.parametrize("who", ["ExecutionFinderRole", "ExecutionPollerRole"])
@pytest.mark.parametrize(
    "action", ["drs:StartRecovery", "drs:TerminateRecoveryInstances", "dynamodb:DeleteItem", "dynamodb:Scan"]
)
def test_no_role_may_start_stop_or_delete(template: dict[str, Any], who: str, action: str) -> None:
    for resource in ("*", "ExecutionTable", JOURNAL):
        assert not any(each.allows(action, resource) for each in statements(template, who))


def test_permissions_beyond_drs_in_this_account_are_granted_only_on_demand(template: dict[str, Any]) -> None:
    assert template["Resources"]["AssumeRolePolicy"]["Condition"] == "AsksOtherAccounts"
    assert template["Resources"]["OtherSourcesPolicy"]["Condition"] == "AsksOtherSources"
    assert template["Parameters"]["AssumeRoleName"]["Default"] == ""
    assert template["Parameters"]["OtherSources"]["Default"] == "false"


def test_the_notifier_may_read_write_its_table_and_publish_to_one_topic(template: dict[str, Any]) -> None:
    assert statements(template, "ExecutionNotifierRole") == [
        Statement(("dynamodb:Query",), (INDEX,)),
        Statement(("dynamodb:Query",), (POLL_INDEX,)),
        Statement(("dynamodb:GetItem",), ("ExecutionTable",)),
        Statement(
            ("dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"), (JOURNAL,)
        ),
        Statement(LOGS, ("ExecutionNotifierLogs",)),
        Statement(("sns:Publish",), ("NotifyTopicArn",)),
    ]
    assert template["Resources"]["NotifyTopicPolicy"]["Condition"] == "NotifiesTopic"


def test_a_topic_without_rules_gets_messages_about_executions(template: dict[str, Any]) -> None:
    variables = properties(template, "ExecutionNotifierFunction")["Environment"]["Variables"]
    _, _, default = variables["LONGWATCH_NOTIFY"]["Fn::If"]

    rules, mistakes = parse_rules(
        json.loads(default["Fn::Sub"].replace("${NotifyTopicArn}", TOPIC)), CHANNELS
    )

    assert mistakes == []
    assert [each.options for each in rules] == [{"topic": TOPIC}]


def test_the_rule_fires_as_often_as_a_rule_can(template: dict[str, Any]) -> None:
    rule = properties(template, "ExecutionPollerSchedule")

    assert rule["ScheduleExpression"] == "rate(1 minute)"
    assert rule["State"] == {"Ref": "ScheduleState"}


def test_only_the_rule_may_invoke_the_finder_and_write_to_the_queue(template: dict[str, Any]) -> None:
    arn = {"Fn::GetAtt": ["ExecutionPollerSchedule", "Arn"]}
    (statement,) = properties(template, "DeadLetterQueuePolicy")["PolicyDocument"]["Statement"]

    assert properties(template, "ExecutionFinderInvokePermission")["SourceArn"] == arn
    assert statement["Principal"] == {"Service": "events.amazonaws.com"}
    assert statement["Condition"] == {"ArnEquals": {"aws:SourceArn": arn}}


def test_the_finder_has_time_for_a_minute_and_its_last_poll(template: dict[str, Any]) -> None:
    timeout = properties(template, "ExecutionFinderFunction")["Timeout"]

    assert timeout >= RUN_SECONDS + LAST_PASS_SECONDS


def test_a_poller_ends_before_its_lease_does(template: dict[str, Any]) -> None:
    assert properties(template, "ExecutionPollerFunction")["Timeout"] * 1000 < LEASE_MS


@pytest.mark.parametrize("name", ["ExecutionFinderInvocations", "ExecutionPollerInvocations"])
def test_work_that_the_next_poll_repeats_is_not_retried(template: dict[str, Any], name: str) -> None:
    about = properties(template, name)

    assert (about["MaximumRetryAttempts"], about["MaximumEventAgeInSeconds"]) == (0, 60)


def test_failed_invocations_go_to_the_queue(template: dict[str, Any]) -> None:
    queue = {"Fn::GetAtt": ["DeadLetterQueue", "Arn"]}
    (target,) = properties(template, "ExecutionPollerSchedule")["Targets"]

    assert target["DeadLetterConfig"] == {"Arn": queue}
    about = properties(template, "ExecutionPollerInvocations")
    assert about["DestinationConfig"] == {"OnFailure": {"Destination": queue}}


def test_without_code_there_is_only_the_table(template: dict[str, Any]) -> None:
    conditions = {name: about.get("Condition") for name, about in template["Resources"].items()}

    assert conditions.pop("ExecutionTable") == "CreatesTable"
    assert set(conditions.values()) == {
        "Watches",
        "AsksOtherAccounts",
        "AsksOtherSources",
        "Notifies",
        "NotifiesTopic",
    }


def test_the_resources_have_the_required_names(template: dict[str, Any]) -> None:
    assert {
        "ExecutionFinderFunction",
        "ExecutionPollerFunction",
        "ExecutionPollerSchedule",
        "ExecutionFinderInvokePermission",
        "ExecutionFinderRole",
        "ExecutionPollerRole",
    } <= set(template["Resources"])


def test_both_functions_run_the_handlers_of_the_package(template: dict[str, Any]) -> None:
    for name in ("finder", "poller"):
        about = properties(template, f"Execution{name.title()}Function")

        assert about["Handler"] == f"longwatch.aws.{name}.handler"
        assert callable(__import__(f"longwatch.aws.{name}", fromlist=["handler"]).handler)

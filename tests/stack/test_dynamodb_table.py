"""infrastructure/dynamodb-table.yaml: its content, and the table after it is deployed."""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from longwatch.journal.factory import open_journal
from longwatch.model.event import Event, new_event_id
from longwatch.settings import DEFAULT_TABLE, MAX_PAYLOAD_BYTES
from longwatch.storage.dynamodb.table_check import check_table
from longwatch.storage.urls import TableAddress
from tests.stack.templates import TABLE_TEMPLATE, create_tables, load_template

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

REGION = "eu-west-1"
NOW_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return load_template(TABLE_TEMPLATE)


@pytest.fixture(scope="module")
def table(template: dict[str, Any]) -> dict[str, Any]:
    (resource,) = template["Resources"].values()
    assert resource["Type"] == "AWS::DynamoDB::Table"
    properties: dict[str, Any] = resource["Properties"]
    return properties


class TestTheTemplate:
    def test_it_has_no_mistake_that_cfn_lint_knows(self) -> None:
        command = Path(sys.executable).with_name("cfn-lint")

        result = subprocess.run([command, TABLE_TEMPLATE], capture_output=True, text=True)

        assert (result.returncode, result.stdout) == (0, "")

    def test_the_table_s_name_is_a_parameter_whose_default_is_longwatch_s_own(
        self, template: dict[str, Any], table: dict[str, Any]
    ) -> None:
        assert table["TableName"] == {"Ref": "TableName"}
        assert template["Parameters"]["TableName"]["Default"] == DEFAULT_TABLE == "agentify-workflow-events"

    @pytest.mark.parametrize(
        ("name", "accepted"),
        [
            ("agentify-workflow-events", True),
            ("dev.alice_events", True),
            ("a" * 255, True),
            ("ab", False),
            ("a" * 256, False),
            ("with space", False),
            ("events/prod", False),
        ],
    )
    def test_the_parameter_accepts_the_names_that_dynamodb_accepts(
        self, template: dict[str, Any], name: str, accepted: bool
    ) -> None:
        rule = template["Parameters"]["TableName"]

        fits = bool(re.fullmatch(rule["AllowedPattern"], name))

        assert (fits and rule["MinLength"] <= len(name) <= rule["MaxLength"]) is accepted
        assert "3 to 255 characters" in rule["ConstraintDescription"]

    def test_events_are_keyed_by_workflow_and_time(self, table: dict[str, Any]) -> None:
        assert table["KeySchema"] == [
            {"AttributeName": "workflow_id", "KeyType": "HASH"},
            {"AttributeName": "timestamp", "KeyType": "RANGE"},
        ]
        assert table["AttributeDefinitions"] == [
            {"AttributeName": "workflow_id", "AttributeType": "S"},
            {"AttributeName": "timestamp", "AttributeType": "N"},
        ]

    def test_it_is_billed_on_demand_and_expires_items_by_ttl(self, table: dict[str, Any]) -> None:
        assert table["BillingMode"] == "PAY_PER_REQUEST"
        assert table["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}

    def test_it_creates_the_table_and_nothing_that_was_left_out_on_purpose(
        self, table: dict[str, Any]
    ) -> None:
        left_out = {
            "GlobalSecondaryIndexes",
            "LocalSecondaryIndexes",
            "PointInTimeRecoverySpecification",
            "ProvisionedThroughput",
            "SSESpecification",
            "StreamSpecification",
        }

        assert left_out.isdisjoint(table)

    def test_its_comments_state_the_payload_limit_and_two_ways_to_deploy(self) -> None:
        comments = " ".join(
            line.strip().removeprefix("#").strip()
            for line in TABLE_TEMPLATE.read_text(encoding="utf-8").splitlines()
            if line.strip().startswith("#")
        )

        assert f"{MAX_PAYLOAD_BYTES // 1024} KB" in comments
        assert "50 KB are headroom" in comments
        assert "aws cloudformation deploy" in comments
        assert "--region" in comments
        assert "AWS Console" in comments

    def test_its_description_states_what_it_creates_and_what_that_costs(
        self, template: dict[str, Any]
    ) -> None:
        assert "One DynamoDB table" in template["Description"]
        assert "Billed on demand" in template["Description"]
        assert template["Parameters"]["TableName"]["Description"]


@dataclass(frozen=True)
class Deployed:
    """A table made by CloudFormation."""

    endpoint: str
    name: str
    outputs: dict[str, str]
    client: DynamoDBClient


@pytest.fixture(scope="module")
def deployed(ministack_url: str) -> Deployed:
    name = f"events-{uuid.uuid4().hex[:8]}"
    stacks = boto3.client("cloudformation", region_name=REGION, endpoint_url=ministack_url)
    stacks.create_stack(
        StackName=name,
        TemplateBody=TABLE_TEMPLATE.read_text(encoding="utf-8"),
        Parameters=[{"ParameterKey": "TableName", "ParameterValue": name}],
    )
    stacks.get_waiter("stack_create_complete").wait(
        StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 30}
    )
    (stack,) = stacks.describe_stacks(StackName=name)["Stacks"]
    outputs = {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}
    client = boto3.client("dynamodb", region_name=REGION, endpoint_url=ministack_url)
    return Deployed(ministack_url, name, outputs, client)


@pytest.mark.needs_ministack
class TestDeployedByCloudFormation:
    def test_the_outputs_are_those_that_longwatch_s_settings_require(self, deployed: Deployed) -> None:
        assert deployed.outputs["TableName"] == deployed.name
        assert deployed.outputs["Region"] == REGION
        assert deployed.outputs["TableArn"].endswith(f":table/{deployed.name}")

    def test_the_table_passes_the_check_that_longwatch_makes_at_start(self, deployed: Deployed) -> None:
        report = check_table(TableAddress(table=deployed.name, region=REGION, endpoint=deployed.endpoint))

        assert (report.status, report.billing) == ("ACTIVE", "PAY_PER_REQUEST")

    def test_events_are_appended_and_read_through_the_product(self, deployed: Deployed) -> None:
        appends_and_reads(deployed.name, deployed.endpoint)

    @pytest.mark.xfail(
        strict=True,
        raises=AssertionError,
        reason="MiniStack 1.5.33 leaves TimeToLiveSpecification of a template out; DynamoDB Local shows it",
    )
    def test_expiry_is_on(self, deployed: Deployed) -> None:
        expiry = deployed.client.describe_time_to_live(TableName=deployed.name)["TimeToLiveDescription"]

        assert expiry == {"TimeToLiveStatus": "ENABLED", "AttributeName": "ttl"}


@pytest.fixture(scope="module")
def local_table(dynamodb_local_url: str, template: dict[str, Any]) -> str:
    client = boto3.client("dynamodb", region_name=REGION, endpoint_url=dynamodb_local_url)
    (name,) = create_tables(client, template, TableName=f"events-{uuid.uuid4().hex[:8]}")
    return name


@pytest.mark.needs_java
class TestOnAmazonsOwnEngine:
    def test_expiry_is_on(self, dynamodb_local_url: str, local_table: str) -> None:
        client = boto3.client("dynamodb", region_name=REGION, endpoint_url=dynamodb_local_url)

        expiry = client.describe_time_to_live(TableName=local_table)["TimeToLiveDescription"]

        assert expiry == {"TimeToLiveStatus": "ENABLED", "AttributeName": "ttl"}

    def test_the_check_finds_nothing_to_warn_of(self, dynamodb_local_url: str, local_table: str) -> None:
        report = check_table(TableAddress(table=local_table, region=REGION, endpoint=dynamodb_local_url))

        assert (report.status, report.billing, report.ttl) == ("ACTIVE", "PAY_PER_REQUEST", "ENABLED")
        assert report.warnings == ()

    def test_events_are_appended_and_read_through_the_product(
        self, dynamodb_local_url: str, local_table: str
    ) -> None:
        appends_and_reads(local_table, dynamodb_local_url)


def appends_and_reads(table: str, endpoint: str) -> None:
    events = [
        Event(
            run_id="wf-0a1b2c3d",
            event_id=new_event_id(NOW_MS + at),
            type=kind,
            occurred_at=NOW_MS + at,
            agent_name="planner",
            payload={"step": at, "note": "größer"},
        )
        for at, kind in enumerate(["agent_start", "tool_call", "agent_end"])
    ]

    with open_journal(f"dynamodb://{table}?region={REGION}&endpoint={endpoint}") as journal:
        journal.append(events)
        page = journal.read("wf-0a1b2c3d")

    assert [event.event_id for event in page.events] == [event.event_id for event in events]
    assert [event.payload for event in page.events] == [event.payload for event in events]

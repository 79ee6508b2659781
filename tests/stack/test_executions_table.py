"""infrastructure/executions.yaml: its content, and the product on the table that it deploys."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from longwatch.executions.stores.dynamodb import INDEX, POLL_INDEX, TEMPLATE
from longwatch.executions.stores.factory import DEFAULT_TABLE, open_executions
from longwatch.executions.stores.records import POLL_STATE
from tests.contract.executions import new_execution
from tests.stack.deployment import REGION, client, deploy, settled, uploaded
from tests.stack.templates import ROOT, load_template


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    properties: dict[str, Any] = load_template(ROOT / TEMPLATE)["Resources"]["ExecutionTable"]["Properties"]
    return properties


def test_the_table_has_the_default_name_of_the_product() -> None:
    assert load_template(ROOT / TEMPLATE)["Parameters"]["TableName"]["Default"] == DEFAULT_TABLE


def test_executions_are_found_by_status_and_start(table: dict[str, Any]) -> None:
    index, _ = table["GlobalSecondaryIndexes"]

    assert index == {
        "IndexName": INDEX,
        "KeySchema": [
            {"AttributeName": "Status", "KeyType": "HASH"},
            {"AttributeName": "StartTime", "KeyType": "RANGE"},
        ],
        "Projection": {"ProjectionType": "ALL"},
    }


def test_the_index_of_executions_that_are_still_polled_is_sparse_and_not_written_by_polls(
    table: dict[str, Any],
) -> None:
    _, index = table["GlobalSecondaryIndexes"]

    assert index["IndexName"] == POLL_INDEX
    assert [key["AttributeName"] for key in index["KeySchema"]] == [POLL_STATE, "StartTime"]
    assert index["Projection"] == {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["Status", "RecheckTime"]}


def test_executions_can_be_stored_in_the_deployed_table(ministack_url: str) -> None:
    name = f"executions-{uuid.uuid4().hex[:8]}"
    outputs = deploy(ministack_url, ROOT / TEMPLATE, name, {"Environment": "test", "TableName": name})
    store = open_executions(f"dynamodb://{outputs['TableName']}?region={REGION}&endpoint={ministack_url}")

    added = store.add(new_execution())

    assert outputs["TableName"] == f"{name}-test"
    assert [each.execution_id for each in store.open_executions()] == [added.execution_id]
    store.close()


def test_a_table_alone_becomes_the_whole_stack_with_its_records_unchanged(ministack_url: str) -> None:
    name = f"grown-{uuid.uuid4().hex[:8]}"
    parameters = {"Environment": "test", "TableName": name}
    alone = deploy(ministack_url, ROOT / TEMPLATE, name, parameters)
    store = open_executions(f"dynamodb://{alone['TableName']}?region={REGION}&endpoint={ministack_url}")
    added = store.add(new_execution())
    code = uploaded(ministack_url, f"{name}-code")
    cloudformation = client("cloudformation", ministack_url)

    cloudformation.update_stack(
        StackName=name,
        UsePreviousTemplate=True,
        Capabilities=["CAPABILITY_IAM"],
        Parameters=[
            {"ParameterKey": key, "ParameterValue": value}
            for key, value in {
                **parameters,
                "CodeBucket": code["CodeBucket"],
                "CodeKey": code["CodeKey"],
                "ScheduleState": "DISABLED",
            }.items()
        ],
    )
    stack = settled(cloudformation, name)

    grown = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
    assert stack["StackStatus"] == "UPDATE_COMPLETE"
    assert set(alone) == {"TableName", "TableArn", "StatusIndexArn", "PollStateIndexArn", "Environment"}
    assert alone.items() <= grown.items()
    assert {"FinderFunctionName", "PollerFunctionName", "RuleName", "DeadLetterQueueName"} <= set(grown)
    assert store.get(added.execution_id) == added
    store.close()

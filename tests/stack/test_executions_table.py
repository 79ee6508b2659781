"""infrastructure/executions.yaml: what it says, and the product on the table that it deploys."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from longwatch.watching.stores.dynamodb import INDEX, TEMPLATE
from longwatch.watching.stores.opening import DEFAULT_TABLE, open_executions
from tests.contract.executions import new_execution
from tests.stack.deploying import REGION, deploy
from tests.stack.templates import ROOT, load_template


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    properties: dict[str, Any] = load_template(ROOT / TEMPLATE)["Resources"]["ExecutionTable"]["Properties"]
    return properties


def test_the_table_has_the_default_name_of_the_product() -> None:
    assert load_template(ROOT / TEMPLATE)["Parameters"]["TableName"]["Default"] == DEFAULT_TABLE


def test_executions_are_found_by_status_and_start(table: dict[str, Any]) -> None:
    (index,) = table["GlobalSecondaryIndexes"]

    assert index == {
        "IndexName": INDEX,
        "KeySchema": [
            {"AttributeName": "Status", "KeyType": "HASH"},
            {"AttributeName": "StartTime", "KeyType": "RANGE"},
        ],
        "Projection": {"ProjectionType": "ALL"},
    }


def test_executions_can_be_kept_in_the_deployed_table(ministack_url: str) -> None:
    name = f"executions-{uuid.uuid4().hex[:8]}"
    outputs = deploy(ministack_url, ROOT / TEMPLATE, name, {"Environment": "test", "TableName": name})
    store = open_executions(f"dynamodb://{outputs['TableName']}?region={REGION}&endpoint={ministack_url}")

    added = store.add(new_execution())

    assert outputs["TableName"] == f"{name}-test"
    assert [each.execution_id for each in store.open_executions()] == [added.execution_id]
    store.close()

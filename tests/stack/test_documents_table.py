"""infrastructure/documents-table.yaml: its content, and the table after it is deployed."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import boto3
import pytest

from longwatch.documents.files import FileChange
from longwatch.documents.stores.dynamodb import PART_BYTES
from longwatch.documents.stores.dynamodb_table import CHANGED, CHANGES, PARTITION, SORT, TEMPLATE
from longwatch.documents.stores.factory import DEFAULT_TABLE, open_documents
from tests.stack.templates import ROOT, create_tables, load_template

REGION = "eu-west-1"
DOCUMENTS_TEMPLATE = ROOT / TEMPLATE


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return load_template(DOCUMENTS_TEMPLATE)


@pytest.fixture(scope="module")
def table(template: dict[str, Any]) -> dict[str, Any]:
    (resource,) = template["Resources"].values()
    assert resource["Type"] == "AWS::DynamoDB::Table"
    properties: dict[str, Any] = resource["Properties"]
    return properties


class TestTheTemplate:
    def test_it_has_no_mistake_that_cfn_lint_knows(self) -> None:
        command = Path(sys.executable).with_name("cfn-lint")

        result = subprocess.run([command, DOCUMENTS_TEMPLATE], capture_output=True, text=True)

        assert (result.returncode, result.stdout) == (0, "")

    def test_the_table_s_name_is_a_parameter_whose_default_is_longwatch_s_own(
        self, template: dict[str, Any], table: dict[str, Any]
    ) -> None:
        assert table["TableName"] == {"Ref": "TableName"}
        assert template["Parameters"]["TableName"]["Default"] == DEFAULT_TABLE

    def test_its_keys_and_its_index_are_those_that_the_store_uses(self, table: dict[str, Any]) -> None:
        def keys(schema: list[dict[str, str]]) -> list[str]:
            return [key["AttributeName"] for key in schema]

        (index,) = table["LocalSecondaryIndexes"]
        assert keys(table["KeySchema"]) == [PARTITION, SORT]
        assert (index["IndexName"], keys(index["KeySchema"])) == (CHANGES, [PARTITION, CHANGED])
        assert index["Projection"] == {"ProjectionType": "ALL"}

    def test_it_is_billed_on_demand_retained_and_never_expires(
        self, template: dict[str, Any], table: dict[str, Any]
    ) -> None:
        (resource,) = template["Resources"].values()

        assert table["BillingMode"] == "PAY_PER_REQUEST"
        assert "TimeToLiveSpecification" not in table
        assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == (
            "RetainExceptOnCreate",
            "Retain",
        )

    def test_its_texts_state_its_cost_its_deployment_and_its_limit(self, template: dict[str, Any]) -> None:
        text = DOCUMENTS_TEMPLATE.read_text(encoding="utf-8")

        assert "Billed on demand" in template["Description"]
        assert "aws cloudformation deploy" in text
        assert f"{PART_BYTES // 1024} KB" in text


@pytest.mark.needs_ministack
def test_documents_are_stored_in_a_table_that_cloudformation_created(ministack_url: str) -> None:
    name = f"documents-{uuid.uuid4().hex[:8]}"
    stacks = boto3.client("cloudformation", region_name=REGION, endpoint_url=ministack_url)
    stacks.create_stack(
        StackName=name,
        TemplateBody=DOCUMENTS_TEMPLATE.read_text(encoding="utf-8"),
        Parameters=[{"ParameterKey": "TableName", "ParameterValue": name}],
    )
    stacks.get_waiter("stack_create_complete").wait(
        StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 30}
    )
    (stack,) = stacks.describe_stacks(StackName=name)["Stacks"]
    outputs = {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}

    assert outputs["TableName"] == name
    assert outputs["Region"] == REGION
    assert outputs["TableArn"].endswith(f":table/{name}")
    writes_and_reads(outputs["TableName"], ministack_url)


@pytest.mark.needs_java
def test_documents_are_stored_on_amazons_own_engine(
    dynamodb_local_url: str, template: dict[str, Any]
) -> None:
    client = boto3.client("dynamodb", region_name=REGION, endpoint_url=dynamodb_local_url)
    (name,) = create_tables(client, template, TableName=f"documents-{uuid.uuid4().hex[:8]}")

    writes_and_reads(name, dynamodb_local_url)


def writes_and_reads(table: str, endpoint: str) -> None:
    data = bytes(range(256)) * 3000
    with open_documents(f"dynamodb://{table}?region={REGION}&endpoint={endpoint}") as store:
        store.write_text("p", "docs/a.md", "größer")
        store.write_bytes("p", "big.bin", data)
        version = store.project_version("p")
        store.delete("p", "docs/a.md")

        assert store.content("p", "big.bin") == data
        (gone,) = store.files("p", since=version).files
        assert (gone.path, gone.change_since(version)) == ("docs/a.md", FileChange.DELETED)
        assert [each.path for each in store.files("p").files] == ["big.bin"]

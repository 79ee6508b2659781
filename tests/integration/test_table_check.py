"""The table check on real engines: a good table, none, and the wrong one."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Literal

import boto3
import pytest

from longwatch.cli.doctor_checks import Finding, check_documents, check_executions, run_check
from longwatch.errors import TableProblem
from longwatch.executions.stores.dynamodb import SHAPE as EXECUTIONS
from longwatch.settings import Settings, load_settings
from longwatch.storage.dynamodb.errors import KEYS
from longwatch.storage.dynamodb.table_check import check_shape, check_table
from longwatch.storage.urls import TableAddress
from tests.contract.documents_tables import new_document_table
from tests.contract.test_executions_dynamodb import new_execution_table

REGION = "eu-west-1"
TYPES: dict[str, Literal["S", "N"]] = {"S": "S", "N": "N"}


@pytest.fixture(
    params=[
        pytest.param("ministack_url", marks=pytest.mark.needs_ministack),
        pytest.param("dynamodb_local_url", marks=pytest.mark.needs_java),
    ]
)
def endpoint(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(request.param)
    return url


def create(endpoint: str, layout: str) -> str:
    name = f"check-{uuid.uuid4().hex[:8]}"
    (partition, partition_type), (sort, sort_type) = KEYS[layout]
    boto3.client("dynamodb", region_name=REGION, endpoint_url=endpoint).create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": partition, "AttributeType": TYPES[partition_type]},
            {"AttributeName": sort, "AttributeType": TYPES[sort_type]},
        ],
        KeySchema=[
            {"AttributeName": partition, "KeyType": "HASH"},
            {"AttributeName": sort, "KeyType": "RANGE"},
        ],
    )
    return name


@pytest.mark.parametrize("layout", KEYS)
def test_a_table_of_its_layout_is_good(endpoint: str, layout: str) -> None:
    name = create(endpoint, layout)

    report = check_table(TableAddress(table=name, region=REGION, layout=layout, endpoint=endpoint))

    assert (report.status, report.billing, report.item_count) == ("ACTIVE", "PAY_PER_REQUEST", 0)
    assert report.ttl == "DISABLED"


def test_a_table_of_the_other_layout_is_distinguished(endpoint: str) -> None:
    name = create(endpoint, "session")

    with pytest.raises(TableProblem, match="layout=session") as caught:
        check_table(TableAddress(table=name, region=REGION, endpoint=endpoint))

    assert caught.value.kind == "wrong-keys"


def test_a_missing_table_leads_to_the_template(endpoint: str) -> None:
    with pytest.raises(TableProblem, match=r"aws cloudformation deploy .* TableName=nowhere") as caught:
        check_table(TableAddress(table="nowhere", region=REGION, endpoint=endpoint))

    assert caught.value.kind == "not-found"
    assert "another region, set that: dynamodb://nowhere?region=REGION" in str(caught.value)


def settings_at(endpoint: str, *, documents: str | None = None) -> Settings:
    journal = f"dynamodb://runs?region={REGION}&endpoint={endpoint}"
    return replace(load_settings(), journal=journal, documents=documents)


def documents_at(settings: Settings) -> Finding:
    return run_check("Documents", lambda finding: check_documents(settings, finding))


def executions_at(settings: Settings) -> Finding:
    return run_check("Executions", lambda finding: check_executions(settings, finding))


def test_tables_of_documents_and_executions_that_are_good_are_described(endpoint: str) -> None:
    with new_document_table(endpoint) as documents, new_execution_table(endpoint) as executions:
        url = f"dynamodb://{documents.table}?region={REGION}&endpoint={endpoint}"
        found = documents_at(settings_at(endpoint, documents=url))
        report = check_shape(executions, EXECUTIONS)

    assert ("status", "ACTIVE", "PAY_PER_REQUEST") in found.facts
    assert not found.problems + found.warnings
    assert report.status == "ACTIVE"


def test_a_missing_optional_table_is_not_a_problem(endpoint: str) -> None:
    settings = settings_at(endpoint)

    documents, executions = documents_at(settings), executions_at(settings)

    assert not documents.problems + executions.problems
    assert "Deploy infrastructure/documents-table.yaml" in documents.warnings[0]
    assert documents.warnings[0].endswith("It is needed only by documents of projects.")
    assert "Deploy infrastructure/executions.yaml" in executions.warnings[0]


def test_a_table_that_was_chosen_and_is_missing_or_of_another_shape_is_a_problem(endpoint: str) -> None:
    wrong, bare = create(endpoint, "workflow"), create(endpoint, "session")

    def problem(table: str) -> str:
        url = f"dynamodb://{table}?region={REGION}&endpoint={endpoint}"
        return documents_at(settings_at(endpoint, documents=url)).problems[0]

    assert "Table 'not-there' for documents was not found" in problem("not-there")
    assert "If it is in another region" in problem("not-there")
    assert "but documents need pk (S) and sk (S). Deploy" in problem(wrong)
    assert "PK (S) and SK (S), but documents need" in problem(bare)


def test_a_table_without_its_index_is_reported(endpoint: str) -> None:
    name = f"check-{uuid.uuid4().hex[:8]}"
    boto3.client("dynamodb", region_name=REGION, endpoint_url=endpoint).create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": "ExecutionId", "AttributeType": "S"},
            {"AttributeName": "PlanId", "AttributeType": "S"},
        ],
        KeySchema=[
            {"AttributeName": "ExecutionId", "KeyType": "HASH"},
            {"AttributeName": "PlanId", "KeyType": "RANGE"},
        ],
    )

    with pytest.raises(
        TableProblem,
        match=r"has no index StatusIndex, which executions need\. Add it as docs/how-to/add-the-index\.md",
    ):
        check_shape(TableAddress(table=name, region=REGION, endpoint=endpoint), EXECUTIONS)


def test_an_executions_table_of_an_earlier_release_is_a_warning_that_names_the_statuses(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(settings_at(endpoint), other_statuses=("PAUSED", "HELD"))
    with new_execution_table(endpoint, poll_index=False) as old, new_execution_table(endpoint) as new:
        monkeypatch.setattr("longwatch.executions.stores.factory.DEFAULT_TABLE", old.table)
        without = executions_at(settings)
        monkeypatch.setattr("longwatch.executions.stores.factory.DEFAULT_TABLE", new.table)
        complete = executions_at(settings)

        named = run_check(
            "Executions",
            lambda finding: check_executions(
                settings, finding, url=f"dynamodb://{old.table}?region={REGION}&endpoint={endpoint}"
            ),
        )
        unknown = run_check(
            "Executions",
            lambda finding: check_executions(
                settings, finding, url=f"dynamodb://nowhere?region={REGION}&endpoint={endpoint}"
            ),
        )

    (warning,) = without.warnings
    assert named.warnings == without.warnings
    assert "Table 'nowhere' for executions was not found" in unknown.problems[0]
    assert "has no index PollStateIndex" in warning
    assert "found only under PAUSED, HELD, the newest 100 of each" in warning
    assert not without.problems + complete.problems + complete.warnings

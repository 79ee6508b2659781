"""The table check on real engines: a good table, none, and the wrong one."""

from __future__ import annotations

import uuid
from typing import Literal

import boto3
import pytest

from longwatch.errors import TableProblem
from longwatch.journal.dynamodb.failures import KEYS
from longwatch.journal.dynamodb.table import check_table

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

    report = check_table(name, region=REGION, layout=layout, endpoint=endpoint)

    assert (report.status, report.billing, report.item_count) == ("ACTIVE", "PAY_PER_REQUEST", 0)
    assert report.ttl == "DISABLED"


def test_a_table_of_the_other_layout_is_told_apart(endpoint: str) -> None:
    name = create(endpoint, "session")

    with pytest.raises(TableProblem, match="layout=session") as caught:
        check_table(name, region=REGION, endpoint=endpoint)

    assert caught.value.kind == "wrong-keys"


def test_a_table_that_is_not_there_leads_to_the_template(endpoint: str) -> None:
    with pytest.raises(TableProblem, match=r"aws cloudformation deploy .* TableName=nowhere") as caught:
        check_table("nowhere", region=REGION, endpoint=endpoint)

    assert caught.value.kind == "not-found"

"""Where the engines differ from each other, as docs/explanation/engines.md lists it.

An engine that changes its mind fails here, and the page is to be changed with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from longwatch.storage.urls import TableAddress
from tests.contract.tables import client_of, new_table


@pytest.fixture
def at(engine_url: str) -> Iterator[TableAddress]:
    with new_table(engine_url, "workflow") as address:
        yield address


@pytest.fixture
def is_ministack(request: pytest.FixtureRequest) -> bool:
    return "ministack" in request.node.callspec.id


def refused(at: TableAddress, **attributes: Any) -> bool:
    """Whether the engine refuses an item with these attributes."""
    item = {"workflow_id": {"S": "wf-1"}, "timestamp": {"N": "1"}, **attributes}
    try:
        client_of(str(at.endpoint)).put_item(TableName=at.table, Item=item)
    except ClientError:
        return True
    return False


def test_an_empty_key_in_a_map_is_refused_by_dynamodb_local_only(
    at: TableAddress, is_ministack: bool
) -> None:
    assert refused(at, payload={"M": {"": {"S": "x"}}}) is not is_ministack


def test_half_a_character_is_refused_by_ministack_only(at: TableAddress, is_ministack: bool) -> None:
    assert refused(at, payload={"S": "\ud800"}) is is_ministack


def test_a_key_written_with_a_point_finds_the_item_on_dynamodb_local_only(
    at: TableAddress, is_ministack: bool
) -> None:
    assert not refused(at)

    response = client_of(str(at.endpoint)).get_item(
        TableName=at.table, Key={"workflow_id": {"S": "wf-1"}, "timestamp": {"N": "1.0"}}
    )

    assert ("Item" in response) is not is_ministack


def test_both_refuse_what_dynamodb_refuses(at: TableAddress) -> None:
    deep: dict[str, Any] = {"S": "x"}
    for _ in range(32):
        deep = {"M": {"k": deep}}

    assert refused(at, payload=deep)
    assert refused(at, payload={"N": "1" * 39})
    assert refused(at, payload={"N": "1E126"})
    assert refused(at, payload={"SS": []})
    assert refused(at, payload={"SS": ["a", "a"]})
    assert refused(at, payload={"S": "x" * 410_000})

"""Tables of their own for tests, made by the API on a local engine."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING

from longwatch.journal.dynamodb.table import BotoTable
from longwatch.storage.dynamodb.client import DynamoClient
from longwatch.storage.dynamodb.errors import KEYS
from longwatch.storage.urls import TableAddress

if TYPE_CHECKING:
    from botocore.session import Session
    from types_boto3_dynamodb import DynamoDBClient

REGION = "eu-west-1"


def client_of(endpoint: str) -> DynamoDBClient:
    """A client of the engine, one for all tests: to make one takes longer than most of them."""
    return _connected(endpoint)[0]


@cache
def _connected(endpoint: str) -> tuple[DynamoDBClient, Session | None]:
    table = BotoTable(TableAddress(table="none", region=REGION, endpoint=endpoint))
    return table.connect(), table._session


class Shared(DynamoClient):
    """Uses the connections that all tests share."""

    def connect(self) -> DynamoDBClient:
        client, self._session = _connected(str(self.address.endpoint))
        return client

    def close(self) -> None:
        """Others still use them."""


class SharedTable(Shared, BotoTable):
    """A table over the connections that all tests share."""


@contextmanager
def new_table(endpoint: str, layout: str) -> Iterator[TableAddress]:
    """An empty table with the keys of this layout, deleted afterwards.

    TTL stays off: these tests live in virtual time, and an engine would delete what has expired in real time.
    """
    name = f"contract-{layout}-{secrets.token_hex(4)}"
    (partition, partition_type), (sort, sort_type) = KEYS[layout]
    client = client_of(endpoint)
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": partition, "AttributeType": partition_type},  # type: ignore[typeddict-item]
            {"AttributeName": sort, "AttributeType": sort_type},  # type: ignore[typeddict-item]
        ],
        KeySchema=[
            {"AttributeName": partition, "KeyType": "HASH"},
            {"AttributeName": sort, "KeyType": "RANGE"},
        ],
    )
    try:
        yield TableAddress(table=name, region=REGION, layout=layout, endpoint=endpoint)
    finally:
        delete_table(client, name)


def delete_table(client: DynamoDBClient, name: str) -> None:
    """Delete a table, also when an earlier try, whose response came too late, has done so."""
    with suppress(client.exceptions.ResourceNotFoundException):
        client.delete_table(TableName=name)

"""Opens a journal in a DynamoDB table. Nothing is connected until it is first used."""

from __future__ import annotations

from importlib.util import find_spec

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import MissingExtra
from longwatch.journal.base import Journal
from longwatch.journal.dynamodb.client import BotoTable
from longwatch.journal.dynamodb.journal import DynamoJournal
from longwatch.journal.dynamodb.layouts import layout_named
from longwatch.storage.dynamodb.errors import TableAddress


def open_dynamodb(
    *,
    table: str,
    region: str | None,
    layout: str,
    endpoint: str | None,
    short_way: bool = True,
    clock: Clock = SYSTEM_CLOCK,
) -> Journal:
    """The journal in this table. Raises `MissingExtra` where boto3 is not installed."""
    layout_named(layout)
    if find_spec("boto3") is None:
        raise MissingExtra("DynamoDB", "aws")
    address = TableAddress(table=table, region=region, layout=layout, endpoint=endpoint, short_way=short_way)
    return DynamoJournal(BotoTable(address), address, clock=clock)

"""Tables for documents, made from the template on a local engine."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from longwatch.documents.stores.dynamodb_table import TEMPLATE, DocumentTable
from longwatch.storage.urls import TableAddress
from tests.contract.tables import REGION, client_of, delete_table
from tests.stack.templates import ROOT, create_tables, load_template

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient


class SharedDocumentTable(DocumentTable):
    """A table over the connections that all tests share."""

    def connect(self) -> DynamoDBClient:
        return client_of(str(self.address.endpoint))

    def close(self) -> None:
        """Others still use them."""


@cache
def documents_template() -> dict[str, Any]:
    return load_template(ROOT / TEMPLATE)


@contextmanager
def new_document_table(endpoint: str) -> Iterator[TableAddress]:
    """An empty table, deleted afterwards."""
    client = client_of(endpoint)
    (name,) = create_tables(client, documents_template(), TableName=f"documents-{secrets.token_hex(4)}")
    try:
        yield TableAddress(table=name, region=REGION, endpoint=endpoint)
    finally:
        delete_table(client, name)

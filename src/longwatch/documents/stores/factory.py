"""From the address of a document store to the store."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import InvalidJournalUrl, MissingExtra
from longwatch.settings import Settings, load_settings
from longwatch.storage.urls import (
    NamedStores,
    TableLocation,
    beside_journal,
    parts_of,
    sqlite_path,
    table_place,
)

if TYPE_CHECKING:
    from longwatch.documents.store import DocumentStore
    from longwatch.documents.stores.memory import MemoryDocumentStore

DEFAULT_TABLE = "longwatch-documents"
FORMS = "sqlite:///path/to/file.db, memory:// or dynamodb://TABLE?region=REGION"

_memory: NamedStores[MemoryDocumentStore] = NamedStores()


def open_documents(
    url: str | None = None, *, settings: Settings | None = None, clock: Clock = SYSTEM_CLOCK
) -> DocumentStore:
    """Open the document store at this address, or the one that the settings name.

    Nothing is connected or created until the store is first used. `memory://NAME` is one store for the whole
    process, `memory://` a new one each time. Raises `MissingExtra` where pycrdt is not installed.
    """
    if url is None:
        settings = settings or load_settings()
        url = documents_url(settings)
    if find_spec("pycrdt") is None:
        raise MissingExtra("Keeping documents", "server")
    parts = parts_of(url, "document store URL", FORMS)
    match parts.scheme:
        case "sqlite":
            from longwatch.documents.stores.sqlite import SqliteDocumentStore

            return SqliteDocumentStore(sqlite_path(url, parts), clock=clock)
        case "memory":
            from longwatch.documents.stores.memory import MemoryDocumentStore

            return _memory.open(url, parts, lambda name: MemoryDocumentStore(name, clock=clock))
        case "dynamodb":
            place = table_place(url, parts, settings or load_settings(), default_table=DEFAULT_TABLE)
            return _open_dynamodb(place, clock)
        case _:
            raise InvalidJournalUrl(f"Invalid document store URL {url!r}. Use {FORMS}.")


def documents_url(settings: Settings) -> str:
    """Where documents are: what the setting says, else beside the journal.

    That is the same file for SQLite, and on DynamoDB the table `longwatch-documents` in the same place.
    """
    return settings.documents if settings.documents is not None else beside_journal(settings, DEFAULT_TABLE)


def _open_dynamodb(place: TableLocation, clock: Clock) -> DocumentStore:
    if find_spec("boto3") is None:
        raise MissingExtra("DynamoDB", "aws")

    from longwatch.documents.stores.dynamodb import DynamoDocumentStore
    from longwatch.documents.stores.dynamodb_table import DocumentTable
    from longwatch.storage.dynamodb.errors import TableAddress

    address = TableAddress(
        table=place.table, region=place.region, endpoint=place.endpoint, short_way=place.short_way
    )
    return DynamoDocumentStore(DocumentTable(address), clock=clock)

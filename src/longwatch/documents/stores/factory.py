"""Opens the document store that a URL names."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import MissingExtra
from longwatch.settings import Settings, load_settings
from longwatch.storage.urls import MemoryName, NamedStores, TableAddress, beside_journal, locate_store

if TYPE_CHECKING:
    from longwatch.documents.store import DocumentStore
    from longwatch.documents.stores.memory import MemoryDocumentStore

DEFAULT_TABLE = "longwatch-documents"

_memory: NamedStores[MemoryDocumentStore] = NamedStores()


def open_documents(
    url: str | None = None, *, settings: Settings | None = None, clock: Clock = SYSTEM_CLOCK
) -> DocumentStore:
    """Open the document store at this URL, or the one that the settings name.

    Nothing is connected or created until the store is first used. `memory://NAME` is one store for the whole
    process, `memory://` a new one each time. Raises `MissingExtra` where pycrdt is not installed.
    """
    if url is None:
        settings = settings or load_settings()
        url = documents_url(settings)
    if find_spec("pycrdt") is None:
        raise MissingExtra("Keeping documents", "server")
    match locate_documents(url, settings):
        case Path() as path:
            from longwatch.documents.stores.sqlite import SqliteDocumentStore

            return SqliteDocumentStore(path, clock=clock)
        case MemoryName(name):
            from longwatch.documents.stores.memory import MemoryDocumentStore

            return _memory.open(name, lambda: MemoryDocumentStore(name, clock=clock))
        case TableAddress() as address:
            from longwatch.documents.stores.dynamodb import DynamoDocumentStore
            from longwatch.documents.stores.dynamodb_table import DocumentTable

            return DynamoDocumentStore(DocumentTable(address), clock=clock)


def documents_url(settings: Settings) -> str:
    """The setting, else the journal's file, or the table `longwatch-documents` beside the journal's table."""
    return settings.documents if settings.documents is not None else beside_journal(settings, DEFAULT_TABLE)


def locate_documents(url: str, settings: Settings | None) -> Path | MemoryName | TableAddress:
    return locate_store(url, "document store", settings=settings, default_table=DEFAULT_TABLE)

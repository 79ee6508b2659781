"""From the address of a document store to the store."""

from __future__ import annotations

import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import InvalidJournalUrl, MissingExtra
from longwatch.journal.opening import options_of, sqlite_path
from longwatch.settings import Settings, load_settings

if TYPE_CHECKING:
    from longwatch.documents.store import DocumentStore

DEFAULT_TABLE = "longwatch-documents"
FORMS = "sqlite:///path/to/file.db, memory:// or dynamodb://TABLE?region=REGION"
DYNAMODB_OPTIONS = ("region", "endpoint")

_named: dict[str, DocumentStore] = {}
_naming = threading.Lock()


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
    try:
        parts = urlsplit(url, allow_fragments=False)  # a "#" is part of a file's name here
    except ValueError as error:
        raise InvalidJournalUrl(f"{url!r} is no address of documents ({error}); write {FORMS}") from error
    match parts.scheme:
        case "sqlite":
            return _open_sqlite(url, parts, clock)
        case "memory":
            return _open_memory(url, parts, clock)
        case "dynamodb":
            return _open_dynamodb(url, parts, settings or load_settings(), clock)
        case _:
            raise InvalidJournalUrl(f"{url!r} is no address of documents; write {FORMS}")


def documents_url(settings: Settings) -> str:
    """Where documents are: what the setting says, else beside the journal.

    That is the same file for SQLite, and on DynamoDB the table `longwatch-documents` in the same place.
    """
    if settings.documents is not None:
        return settings.documents
    scheme, _, rest = settings.journal.partition("://")
    if scheme != "dynamodb":
        return settings.journal
    kept = [
        option for option in rest.partition("?")[2].split("&") if option.startswith(("region=", "endpoint="))
    ]
    return f"dynamodb://{DEFAULT_TABLE}" + (f"?{'&'.join(kept)}" if kept else "")


def _open_sqlite(url: str, parts: SplitResult, clock: Clock) -> DocumentStore:
    path = sqlite_path(url, parts)

    from longwatch.documents.sqlite import SqliteDocumentStore

    return SqliteDocumentStore(path, clock=clock)


def _open_memory(url: str, parts: SplitResult, clock: Clock) -> DocumentStore:
    from longwatch.documents.memory import MemoryDocumentStore

    options_of(url, parts, allowed=())
    if parts.path:
        raise InvalidJournalUrl(f"{url!r} has a path, which memory has not; write memory://NAME")
    if not parts.netloc:
        return MemoryDocumentStore(clock=clock)
    with _naming:
        if parts.netloc not in _named:
            _named[parts.netloc] = MemoryDocumentStore(parts.netloc, clock=clock)
        return _named[parts.netloc]


def _open_dynamodb(url: str, parts: SplitResult, settings: Settings, clock: Clock) -> DocumentStore:
    options = options_of(url, parts, allowed=DYNAMODB_OPTIONS)
    if parts.path not in ("", "/"):
        raise InvalidJournalUrl(f"{url!r} has a path after the table; write dynamodb://{parts.netloc}")
    if find_spec("boto3") is None:
        raise MissingExtra("DynamoDB", "aws")

    from longwatch.documents.dynamodb import DynamoDocumentStore
    from longwatch.documents.dynamodb.table import DocumentTable
    from longwatch.journal.dynamodb.failures import TableAddress

    address = TableAddress(
        table=unquote(parts.netloc) or DEFAULT_TABLE,
        region=options.get("region") or settings.region,
        endpoint=options.get("endpoint") or settings.endpoint,
    )
    return DynamoDocumentStore(DocumentTable(address), clock=clock)

"""From a journal's address to the journal, and what the addresses of all stores have in common."""

from __future__ import annotations

from urllib.parse import SplitResult, unquote

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import InvalidJournalUrl
from longwatch.journal.base import Journal
from longwatch.journal.memory import MemoryJournal
from longwatch.settings import Settings, load_settings
from longwatch.storage.urls import (
    DYNAMODB_OPTIONS,
    NamedStores,
    _refuse_path,
    options_of,
    parts_of,
    sqlite_path,
)

FORMS = "sqlite:///path/to/file.db, memory:// or dynamodb://TABLE?region=REGION&layout=workflow|session"


_memory: NamedStores[MemoryJournal] = NamedStores()


def open_journal(
    url: str | None = None, *, settings: Settings | None = None, clock: Clock = SYSTEM_CLOCK
) -> Journal:
    """Open the journal at this address, or the one that the settings name.

    Nothing is connected or checked until the journal is first used, except that a SQLite file is created.
    `memory://NAME` is one journal for the whole process, `memory://` a new one each time.
    """
    if url is None:
        settings = settings or load_settings()
        url = settings.journal
    parts = parts_of(url, "journal URL", FORMS)
    match parts.scheme:
        case "sqlite":
            return _open_sqlite(url, parts, clock)
        case "memory":
            return _memory.open(url, parts, lambda name: MemoryJournal(name, clock=clock))
        case "dynamodb":
            return _open_dynamodb(url, parts, settings or load_settings(), clock)
        case "" if url:
            raise InvalidJournalUrl(
                f"Invalid journal URL {url!r}. For a file, use sqlite:///{url}; otherwise {FORMS}."
            )
        case _:
            raise InvalidJournalUrl(f"Invalid journal URL {url!r}. Use {FORMS}.")


def _open_sqlite(url: str, parts: SplitResult, clock: Clock) -> Journal:
    path = sqlite_path(url, parts)

    from longwatch.journal.sqlite import SqliteJournal

    return SqliteJournal(path, clock=clock)


def _open_dynamodb(url: str, parts: SplitResult, settings: Settings, clock: Clock) -> Journal:
    options = options_of(url, parts, allowed=DYNAMODB_OPTIONS)
    _refuse_path(url, parts)

    from longwatch.journal.dynamodb.journal import open_dynamodb

    return open_dynamodb(
        table=unquote(parts.netloc) or settings.table_name,
        region=options.get("region") or settings.region,
        layout=options.get("layout") or settings.layout,
        endpoint=options.get("endpoint") or settings.endpoint,
        short_way=settings.short_way,
        clock=clock,
    )

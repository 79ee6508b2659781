"""Opens the journal that a URL names."""

from __future__ import annotations

from pathlib import Path

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.journal.base import Journal
from longwatch.journal.memory import MemoryJournal
from longwatch.settings import Settings, load_settings
from longwatch.storage.urls import MemoryName, NamedStores, TableAddress, locate_store

_memory: NamedStores[MemoryJournal] = NamedStores()


def open_journal(
    url: str | None = None, *, settings: Settings | None = None, clock: Clock = SYSTEM_CLOCK
) -> Journal:
    """Open the journal at this URL, or the one that the settings name.

    Nothing is connected or checked until the journal is first used, except that a SQLite file is created.
    `memory://NAME` is one journal for the whole process, `memory://` a new one each time.
    """
    if url is None:
        settings = settings or load_settings()
        url = settings.journal
    match locate_store(url, "journal", settings=settings):
        case Path() as path:
            from longwatch.journal.sqlite import SqliteJournal

            return SqliteJournal(path, clock=clock)
        case MemoryName(name):
            return _memory.open(name, lambda: MemoryJournal(name, clock=clock))
        case TableAddress() as address:
            from longwatch.journal.dynamodb.journal import open_dynamodb

            return open_dynamodb(address, clock=clock)

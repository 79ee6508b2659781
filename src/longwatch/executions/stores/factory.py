"""Opens the execution store that a URL names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.settings import Settings, load_settings
from longwatch.storage.urls import MemoryName, NamedStores, TableAddress, beside_journal, locate_store

if TYPE_CHECKING:
    from longwatch.executions.stores.base import ExecutionStore
    from longwatch.executions.stores.memory import MemoryExecutionStore

DEFAULT_TABLE = "longwatch-executions"

_memory: NamedStores[MemoryExecutionStore] = NamedStores()


def open_executions(
    url: str | None = None, *, settings: Settings | None = None, clock: Clock = SYSTEM_CLOCK
) -> ExecutionStore:
    """Open the execution store at this URL, or the one beside the journal that the settings name.

    Nothing is connected or created until the store is first used. `memory://NAME` is one store for the whole
    process, `memory://` a new one each time.
    """
    settings = settings or load_settings()
    match locate_executions(url or executions_url(settings), settings):
        case Path() as path:
            from longwatch.executions.stores.sqlite import SqliteExecutionStore

            return SqliteExecutionStore(path, clock=clock)
        case MemoryName(name):
            from longwatch.executions.stores.memory import MemoryExecutionStore

            return _memory.open(name, MemoryExecutionStore)
        case TableAddress() as address:
            from longwatch.executions.stores.dynamodb import DynamoExecutionStore

            return DynamoExecutionStore(address, other_statuses=settings.other_statuses, clock=clock)


def executions_url(settings: Settings) -> str:
    """The journal's file, or the table `longwatch-executions` beside the journal's table."""
    return beside_journal(settings, DEFAULT_TABLE)


def locate_executions(url: str, settings: Settings) -> Path | MemoryName | TableAddress:
    return locate_store(url, "execution store", settings=settings, default_table=DEFAULT_TABLE)

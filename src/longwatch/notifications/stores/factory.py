"""Opens the notification store beside a journal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.settings import Settings
from longwatch.storage.urls import MemoryName, NamedStores, TableAddress, locate_store

if TYPE_CHECKING:
    from longwatch.notifications.stores.base import NotificationStore
    from longwatch.notifications.stores.memory import MemoryNotificationStore

_memory: NamedStores[MemoryNotificationStore] = NamedStores()


def open_notifications(settings: Settings, *, clock: Clock = SYSTEM_CLOCK) -> NotificationStore:
    """Open the store in the file or the table of the journal. Nothing is created before it is used."""
    match locate_store(settings.journal, "journal", settings=settings):
        case Path() as path:
            from longwatch.notifications.stores.sqlite import SqliteNotificationStore

            return SqliteNotificationStore(path, clock=clock)
        case MemoryName(name):
            from longwatch.notifications.stores.memory import MemoryNotificationStore

            return _memory.open(name, MemoryNotificationStore)
        case TableAddress() as address:
            from longwatch.notifications.stores.dynamodb import DynamoNotificationStore

            return DynamoNotificationStore(address)

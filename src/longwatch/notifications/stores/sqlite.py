"""Notifications in a SQLite file, that of the journal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.journal.sqlite.journal import SCHEMA
from longwatch.notifications.stores.base import Record, RecordChange
from longwatch.storage.sqlite.database import BUSY_TIMEOUT_MS, Database
from longwatch.storage.sqlite.side_schema import SideSchema

GET = "SELECT key, value, version FROM notifications WHERE key = ?"
LIST = (
    "SELECT key, value, version FROM notifications WHERE key >= ? AND key < ? AND key > ? "
    "ORDER BY key {} LIMIT ?"
)
VERSION = "SELECT version FROM notifications WHERE key = ?"
STORE = (
    "INSERT INTO notifications (key, value, version) VALUES (?,?,?) "
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = excluded.version"
)
DELETE = "DELETE FROM notifications WHERE key = ?"
AFTER_ALL = "\U0010ffff"


class SqliteNotificationStore:
    """A `NotificationStore` that many threads and processes may use at once."""

    def __init__(
        self, path: Path, *, clock: Clock = SYSTEM_CLOCK, busy_timeout_ms: int = BUSY_TIMEOUT_MS
    ) -> None:
        self.path = path.expanduser().absolute()
        self._database = Database(self.path, schema=SCHEMA, clock=clock, busy_timeout_ms=busy_timeout_ms)
        self._tables = SideSchema(
            self._database,
            holds="notifications",
            version_table="notification_schema",
            package="longwatch.notifications.stores",
        )

    def get(self, key: str) -> Record | None:
        self._tables.prepare()
        rows = self._database.fetch(GET, (key,))
        return _record(rows[0]) if rows else None

    def list(self, prefix: str, *, limit: int, after: str = "", newest: bool = False) -> Sequence[Record]:
        self._tables.prepare()
        query = LIST.format("DESC" if newest else "ASC")
        rows = self._database.fetch(query, (prefix, prefix + AFTER_ALL, after, limit))
        return [_record(row) for row in rows]

    def commit(self, changes: Sequence[RecordChange]) -> bool:
        self._tables.prepare()
        with self._database.writing() as connection:
            for each in changes:
                row = connection.execute(VERSION, (each.key,)).fetchone()
                if (row[0] if row else 0) != each.version:
                    return False  # nothing was written yet
            for each in changes:
                if each.value is None:
                    connection.execute(DELETE, (each.key,))
                else:
                    connection.execute(STORE, (each.key, json.dumps(each.value), each.version + 1))
        return True

    def close(self) -> None:
        self._database.close()


def _record(row: tuple[Any, ...]) -> Record:
    key, value, version = row
    return Record(key, json.loads(value), version)

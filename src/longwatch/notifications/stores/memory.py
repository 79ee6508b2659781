"""Notifications in memory, for tests and for journals in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence

from longwatch.notifications.stores.base import Record, RecordChange


class MemoryNotificationStore:
    """A `NotificationStore` of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, tuple[str, int]] = {}

    def get(self, key: str) -> Record | None:
        with self._lock:
            return self._read(key) if key in self._records else None

    def list(self, prefix: str, *, limit: int, after: str = "", newest: bool = False) -> Sequence[Record]:
        with self._lock:
            found = (key for key in self._records if key.startswith(prefix) and key > after)
            keys = sorted(found, reverse=newest)
            return [self._read(key) for key in keys[:limit]]

    def commit(self, changes: Sequence[RecordChange]) -> bool:
        with self._lock:
            if any(self._records.get(each.key, ("", 0))[1] != each.version for each in changes):
                return False
            for each in changes:
                if each.value is None:
                    self._records.pop(each.key, None)
                else:
                    self._records[each.key] = json.dumps(each.value), each.version + 1
            return True

    def close(self) -> None:
        """A named store stays open for its other users in this process."""

    def _read(self, key: str) -> Record:
        text, version = self._records[key]
        return Record(key, json.loads(text), version)

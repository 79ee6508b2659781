"""The protocol of notification stores. Each promise is a contract test that every adapter inherits.

A store has small records under text keys. What the records mean is the matter of `notifications.queue`: the
adapters only guarantee that a commit is stored as a whole, and only if no other process was faster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

MAX_CHANGES = 50  # in one commit; DynamoDB permits 100 items in a transaction
MAX_KEY_BYTES = 900

Value = Mapping[str, Any]  # of JSON


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it was read."""

    key: str
    value: Value
    version: int  # from 1; grows with every change


@dataclass(frozen=True, slots=True)
class RecordChange:
    """A part of a commit: store this value if the record still has this version."""

    key: str
    value: Value | None  # None: delete it
    version: int = 0  # 0: there is no record under this key


class NotificationStore(Protocol):
    """Small records for notifiers. Thread-safe, and shared by processes except in memory."""

    def get(self, key: str) -> Record | None:
        """The record as it is now."""

    def list(self, prefix: str, *, limit: int, after: str = "", newest: bool = False) -> Sequence[Record]:
        """The records whose key begins with this text and is greater than `after`, in order of their keys.

        With `newest` the last of them come first.
        """

    def commit(self, changes: Sequence[RecordChange]) -> bool:
        """Store all changes durably, or none: False if one of the records has another version.

        At most `MAX_CHANGES`, each of another key. After an error, all or none of them are stored.
        """

    def close(self) -> None:
        """Close files and connections."""

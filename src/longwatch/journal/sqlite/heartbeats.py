"""Heartbeats in a SQLite journal: one row for each process, written beside the journal's own transactions.

A heartbeat must never delay an event: it is written on a connection of its own that waits neither for the
disk nor for another writer. It takes no arrival position. Followers in other processes notice that the file
was written, read once, and find nothing new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from longwatch.clock import Clock
from longwatch.errors import JournalBusy
from longwatch.journal.sqlite.database import Database, Schema

INTERVAL_SECONDS = 15.0
IDS_AT_ONCE = 500  # not every SQLite takes more than 999 values

BEAT = """
    INSERT INTO heartbeats (process_id, at) VALUES (?, ?)
    ON CONFLICT (process_id) DO UPDATE SET at = max(at, excluded.at)"""
PRUNE_HEARTBEATS = "DELETE FROM heartbeats WHERE at < ?"


class HeartbeatWriter:
    """Writes the heartbeats of this process. Its connection opens with the first one."""

    def __init__(self, path: Path, *, schema: Schema, clock: Clock) -> None:
        self._database = Database(
            path, schema=schema, clock=clock, busy_timeout_ms=0, must_exist=True, synchronous="NORMAL"
        )

    def beat(self, process_id: str, at_ms: int) -> None:
        """Store a heartbeat, or skip it if the file is locked."""
        try:
            with self._database.writing() as connection:
                connection.execute(BEAT, (process_id, at_ms))
        except JournalBusy:
            pass

    def close(self) -> None:
        """Close the connection."""
        self._database.close()


def read_heartbeats(database: Database, process_ids: Sequence[str]) -> Mapping[str, int]:
    """When each of these processes was last alive; those without a heartbeat are left out."""
    found: dict[str, int] = {}
    for first in range(0, len(process_ids), IDS_AT_ONCE):
        some = process_ids[first : first + IDS_AT_ONCE]
        marks = ",".join("?" * len(some))
        found |= dict(
            database.fetch(f"SELECT process_id, at FROM heartbeats WHERE process_id IN ({marks})", some)
        )
    return found

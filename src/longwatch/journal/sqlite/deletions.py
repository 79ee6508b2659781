"""Deletes runs from a SQLite file: the tombstone first, then the events in small transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from longwatch.journal.deletions import Tombstone, check_deletion
from longwatch.journal.sqlite.rows import (
    EVENT_COLUMNS,
    POSITION,
    STORED_COLUMNS,
    event_to_row,
    events_from_rows,
)
from longwatch.model.event import RUN_DELETED
from longwatch.storage.sqlite.database import Database

BATCH = 500  # events removed in one transaction

_COLUMNS = "run_id, deleted_at, by, events, digest"
FIND = f"SELECT {_COLUMNS} FROM tombstones WHERE run_id = ?"
UNPURGED = "SELECT run_id FROM tombstones WHERE is_purged = 0"
ADD = f"INSERT INTO tombstones ({_COLUMNS}, is_purged) VALUES (?,?,?,?,?,0)"
COUNT = "UPDATE tombstones SET events = ?, digest = ? WHERE run_id = ?"
FINISH = "UPDATE tombstones SET is_purged = 1 WHERE run_id = ?"
FIND_RUN = "SELECT kind, status FROM runs WHERE run_id = ?"
NEXT_ARRIVAL = "UPDATE arrivals SET last_position = last_position + 1 RETURNING last_position"
ADD_ARRIVAL = f"INSERT INTO events ({EVENT_COLUMNS}, position) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
LEFT = f"""
    SELECT {STORED_COLUMNS} FROM events WHERE run_id = ? AND type != '{RUN_DELETED}'
    ORDER BY position LIMIT ?"""
REMOVE = f"DELETE FROM events WHERE run_id = ? AND position <= ? AND type != '{RUN_DELETED}'"


def tombstone_in(connection: sqlite3.Connection, run_id: str) -> Tombstone | None:
    """The tombstone of a run, within a transaction."""
    row = connection.execute(FIND, (run_id,)).fetchone()
    return None if row is None else _from_row(row)


class RunDeletions:
    """The deleted runs of one file."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, run_id: str) -> Tombstone | None:
        """The tombstone of a run."""
        rows = self._database.fetch(FIND, (run_id,))
        return _from_row(rows[0]) if rows else None

    def add(self, run_id: str, *, by: str, at_ms: int, force: bool) -> Tombstone:
        """Hide a run for good, in one transaction."""
        stone = Tombstone(run_id=run_id, deleted_at=at_ms, by=by)
        with self._database.writing() as connection:
            kind, status = connection.execute(FIND_RUN, (run_id,)).fetchone() or (None, None)
            check_deletion(run_id, kind, status, tombstone_in(connection, run_id), force=force)
            connection.execute(ADD, (run_id, at_ms, by, 0, ""))
            connection.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))
            position = connection.execute(NEXT_ARRIVAL).fetchall()[0][0]
            connection.execute(ADD_ARRIVAL, (*event_to_row(stone.arrival), position))
        return stone

    def unpurged(self) -> list[str]:
        """The runs whose deletion is under way or was interrupted."""
        return [row[0] for row in self._database.fetch(UNPURGED)]

    def remove_events(self, run_ids: Sequence[str]) -> None:
        """Remove what is left of the events of deleted runs."""
        for run_id in run_ids:
            while self._remove_batch(run_id):
                pass

    def finish(self, run_ids: Sequence[str]) -> bool:
        """Empty the write-ahead log; False if a reader still needs it: it may contain removed events."""
        if not self._database.truncate_log():
            return False
        with self._database.writing() as connection:
            connection.executemany(FINISH, [(run_id,) for run_id in run_ids])
        return True

    def _remove_batch(self, run_id: str) -> int:
        with self._database.writing() as connection:
            stone = tombstone_in(connection, run_id)
            rows: Sequence[tuple[Any, ...]] = connection.execute(LEFT, (run_id, BATCH)).fetchall()
            if stone is None or not rows:
                return 0
            stone = stone.with_removed(events_from_rows(rows))
            connection.execute(REMOVE, (run_id, rows[-1][POSITION]))
            connection.execute(COUNT, (stone.events, stone.digest, run_id))
        return len(rows)


def _from_row(row: Sequence[Any]) -> Tombstone:
    run_id, deleted_at, by, events, digest = row
    return Tombstone(run_id=run_id, deleted_at=deleted_at, by=by, events=events, digest=digest)

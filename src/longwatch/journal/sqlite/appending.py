"""Appends events to a SQLite file, within a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import chain

from longwatch.journal.codec import same_content
from longwatch.journal.deletions import Tombstone
from longwatch.journal.sqlite.deletions import tombstone_in
from longwatch.journal.sqlite.queries import (
    APPEND,
    APPEND_MANY,
    FIND_RUN_RAW,
    NEXT_ARRIVALS,
    READ_BY_ID,
    ROWS_AT_ONCE,
)
from longwatch.journal.sqlite.rows import read_damaged_row
from longwatch.model.event import Event


def stored_summaries(
    connection: sqlite3.Connection, events: Iterable[Event]
) -> tuple[dict[str, str | None], list[Tombstone]]:
    """The stored summaries of the runs of these events, None for new ones; the tombstones of deleted ones."""
    found: dict[str, str | None] = {}
    deleted: list[Tombstone] = []
    for run_id in dict.fromkeys(event.run_id for event in events):
        row = connection.execute(FIND_RUN_RAW, (run_id,)).fetchone()
        stone = tombstone_in(connection, run_id) if row is None else None
        if stone is not None:
            deleted.append(stone)
        else:
            found[run_id] = None if row is None else row[0].decode(errors="replace")
    return found, deleted


def append_batch(
    connection: sqlite3.Connection, events: Sequence[Event], rows: Sequence[tuple[object, ...]]
) -> tuple[Sequence[Event], list[str]]:
    """Append events, normally all at once; returns the new ones and the IDs of conflicts."""
    last = connection.execute(NEXT_ARRIVALS, (len(rows),)).fetchall()[0][0]
    numbered = [(*row, position) for position, row in enumerate(rows, last - len(rows) + 1)]
    if len(events) > 1:
        connection.execute("SAVEPOINT batch")
    if _append_all(connection, numbered) == len(events):
        return events, []
    if len(events) > 1:
        connection.execute("ROLLBACK TO batch")
    return _append_one_by_one(connection, events, numbered)


def _append_all(connection: sqlite3.Connection, rows: Sequence[tuple[object, ...]]) -> int:
    """Append rows, many with one statement, and return the number of new ones.

    Every statement releases the GIL, and beside busy threads waits long to acquire it again.
    """
    whole = len(rows) - len(rows) % ROWS_AT_ONCE
    stored = 0
    for first in range(0, whole, ROWS_AT_ONCE):
        values = tuple(chain.from_iterable(rows[first : first + ROWS_AT_ONCE]))
        stored += connection.execute(APPEND_MANY, values).rowcount
    if whole < len(rows):
        stored += connection.executemany(APPEND, rows[whole:]).rowcount
    return stored


def _append_one_by_one(
    connection: sqlite3.Connection, events: Sequence[Event], rows: Sequence[tuple[object, ...]]
) -> tuple[list[Event], list[str]]:
    """Append a batch with some stored IDs; returns the new events and the IDs of conflicts."""
    fresh: list[Event] = []
    conflicts: list[str] = []
    for event, row in zip(events, rows, strict=True):
        if connection.execute(APPEND, row).rowcount:
            fresh.append(event)
            continue
        stored = connection.execute(READ_BY_ID, (event.event_id,)).fetchone()
        if not same_content(read_damaged_row(stored), event):  # an unreadable one is a conflict
            conflicts.append(event.event_id)
    return fresh, conflicts

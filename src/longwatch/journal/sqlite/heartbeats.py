"""Heartbeats beside a SQLite journal: one row for each process, in a small file of their own.

A write to the journal's own file wakes its followers in every other process, and each of them polls 16 times
afterwards: a heartbeat there costs a follower 4 ms. And a heartbeat must never delay an event: its file waits
neither for the disk nor for another writer. If the file is lost, only the time of a death is less precise, so
it is created again whenever it is missing.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from longwatch.clock import Clock
from longwatch.errors import JournalBusy, JournalMoved, LongwatchError
from longwatch.storage.sqlite.database import Database, Schema

log = logging.getLogger("longwatch")

SUFFIX = "-heartbeats"  # of the file, after the name of the journal's
INTERVAL_SECONDS = 15.0
IDS_AT_ONCE = 500  # some builds of SQLite limit a statement to 999 values
CHECKPOINT_PAGES = 50  # the file itself is a page or two
SCHEMA = Schema(  # "lwh1"
    application_id=0x6C77_6831, package="longwatch.journal.sqlite", folder="heartbeat_migrations"
)

BEAT = """
    INSERT INTO heartbeats (process_id, at) VALUES (?, ?)
    ON CONFLICT (process_id) DO UPDATE SET at = max(at, excluded.at)"""
PRUNE = "DELETE FROM heartbeats WHERE at < ?"


class HeartbeatFile:
    """The heartbeats of all processes that record into one journal. The file opens on first use."""

    def __init__(self, journal: Path, *, clock: Clock) -> None:
        # Beside the real file, like SQLite's log: all symbolic links to the journal share it.
        self._journal = Path(os.path.realpath(journal))
        self._path = self._journal.with_name(f"{self._journal.name}{SUFFIX}")
        self._database = Database(
            self._path,
            schema=SCHEMA,
            clock=clock,
            busy_timeout_ms=0,
            recreates=True,
            synchronous="NORMAL",
            checkpoint_pages=CHECKPOINT_PAGES,
        )

    def beat(self, process_id: str, at_ms: int) -> None:
        """Store a heartbeat, or skip it if the file is locked, was just moved or has no journal beside it."""
        if self._journal.exists():  # else the folder of a deleted journal would be created again
            self._write(BEAT, process_id, at_ms)

    def read(self, process_ids: Sequence[str]) -> Mapping[str, int]:
        """When each of these processes was last alive; those without a heartbeat are left out.

        A file that cannot be read has none; those in the journal's own file still count.
        """
        try:
            return read_heartbeats(self._database, process_ids) if self._path.exists() else {}
        except LongwatchError:
            return {}

    def prune(self, before_ms: int) -> None:
        """Delete heartbeats from before this time. Logs a file that cannot be written."""
        try:
            if self._path.exists():
                self._write(PRUNE, before_ms)
        except LongwatchError as problem:
            log.warning("longwatch: old heartbeats could not be deleted; delete %s: %s", self._path, problem)

    def _write(self, statement: str, *values: object) -> None:
        with suppress(JournalBusy, JournalMoved), self._database.writing() as connection:
            connection.execute(statement, values)

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def read_heartbeats(database: Database, process_ids: Sequence[str]) -> dict[str, int]:
    """The heartbeats in a file. A journal's own file contains those of earlier versions."""
    found: dict[str, int] = {}
    for first in range(0, len(process_ids), IDS_AT_ONCE):
        some = process_ids[first : first + IDS_AT_ONCE]
        marks = ",".join("?" * len(some))
        found |= dict(
            database.fetch(f"SELECT process_id, at FROM heartbeats WHERE process_id IN ({marks})", some)
        )
    return found

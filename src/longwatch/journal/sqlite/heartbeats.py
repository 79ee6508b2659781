"""Heartbeats beside a SQLite journal: one row for each process, in a small file of their own.

A write to the journal's own file wakes its followers in every other process, and each of them reads 16 times
before it rests again: a heartbeat there costs a follower 4 ms. And a heartbeat must never delay an event: its
file waits neither for the disk nor for another writer. If it is lost, only the time of a death is known less
closely, so it is created anew whenever it is missing.
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
IDS_AT_ONCE = 500  # not every SQLite takes more than 999 values
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
        # Beside the file itself, as SQLite has the log: a symbolic link to the journal leads to the same one.
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
        if self._journal.exists():  # else the folder of a journal that was deleted would be created again
            self._write(BEAT, process_id, at_ms)

    def read(self, process_ids: Sequence[str]) -> Mapping[str, int]:
        """When each of these processes was last alive; those without a heartbeat are left out.

        A file that cannot be read has none: those in the journal's own file count all the same.
        """
        try:
            return read_heartbeats(self._database, process_ids) if self._path.exists() else {}
        except LongwatchError:
            return {}

    def prune(self, before_ms: int) -> None:
        """Remove heartbeats from before this time. A file that cannot be written is reported."""
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
    """The heartbeats in a file. A journal's own file holds those of earlier versions."""
    found: dict[str, int] = {}
    for first in range(0, len(process_ids), IDS_AT_ONCE):
        some = process_ids[first : first + IDS_AT_ONCE]
        marks = ",".join("?" * len(some))
        found |= dict(
            database.fetch(f"SELECT process_id, at FROM heartbeats WHERE process_id IN ({marks})", some)
        )
    return found

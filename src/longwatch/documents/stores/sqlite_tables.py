"""The tables of documents in a file of longwatch, with a version of their own.

The file's `user_version` counts the journal's migrations. Documents count theirs in a table, so that each
room can change its tables without the other, and one file serves both, whichever was there first.
"""

from __future__ import annotations

import sqlite3
from importlib.resources import files

from longwatch.errors import NewerJournal
from longwatch.storage.sqlite.database import Database, statements

PACKAGE = "longwatch.documents.stores"

FIND_TABLE = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'document_schema'"
READ_VERSION = "SELECT version FROM document_schema"
CREATE_VERSION = "CREATE TABLE IF NOT EXISTS document_schema (version INTEGER NOT NULL) STRICT"


class Tables:
    """Sees to it that the tables are there and up to date when they are first used."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ready_in: int | None = None  # the generation of the file that has the tables

    def prepare(self) -> None:
        """Two threads may do this at once: the second finds nothing left to do."""
        generation = self._database.generation
        if self._ready_in != generation:
            self._bring_up_to_date()
            self._ready_in = generation

    def _bring_up_to_date(self) -> None:
        wanted = scripts()
        there = self._database.fetch(FIND_TABLE)
        version = int(self._database.fetch(READ_VERSION)[0][0]) if there else 0
        self._refuse_newer(version, len(wanted))
        if version == len(wanted):
            return
        with self._database.writing() as connection:
            connection.execute(CREATE_VERSION)
            row = connection.execute(READ_VERSION).fetchone()  # another process may have been first
            version = int(row[0]) if row else 0
            self._refuse_newer(version, len(wanted))
            _migrate(connection, wanted[version:])
            connection.execute("DELETE FROM document_schema")
            connection.execute("INSERT INTO document_schema VALUES (?)", (len(wanted),))

    def _refuse_newer(self, version: int, known: int) -> None:
        if version > known:
            raise NewerJournal(
                f"The documents in {self._database.path} were written by a newer longwatch (version "
                f"{version}, this one knows {known})."
            )


def scripts() -> list[str]:
    """The migrations in order."""
    folder = files(PACKAGE) / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(folder / name).read_text(encoding="utf-8") for name in names]


def _migrate(connection: sqlite3.Connection, pending: list[str]) -> None:
    for script in pending:
        for statement in statements(script):
            connection.execute(statement)

"""Tables with a schema version of their own in the SQLite file of a journal.

The file's `user_version` counts the journal's migrations. Documents and executions count theirs in a table
each: every store migrates alone, and one file serves all of them, whichever comes first.
"""

from __future__ import annotations

from longwatch.errors import NewerJournal
from longwatch.storage.sqlite.database import Database, migration_scripts, statements


class SideSchema:
    """Creates or migrates the tables of one store before their first use."""

    def __init__(self, database: Database, *, holds: str, version_table: str, package: str) -> None:
        self._database = database
        self._holds = holds  # what the tables contain, for error messages
        self._version_table = version_table
        self._package = package  # contains the folder `migrations`
        self._ready_in: int | None = None  # the generation of the file that has the tables

    def prepare(self) -> None:
        """Create or migrate the tables unless that is done. Two threads may do this at once."""
        generation = self._database.generation
        if self._ready_in != generation:
            self._migrate()
            self._ready_in = generation

    def _migrate(self) -> None:
        scripts = migration_scripts(self._package)
        read_version = f"SELECT version FROM {self._version_table}"
        exists = self._database.fetch(
            "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (self._version_table,)
        )
        if exists:
            version = int(self._database.fetch(read_version)[0][0])
            self._refuse_newer(version, len(scripts))
            if version == len(scripts):
                return
        with self._database.writing() as connection:
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self._version_table} (version INTEGER NOT NULL) STRICT"
            )
            row = connection.execute(read_version).fetchone()  # another process may have been first
            version = int(row[0]) if row else 0
            self._refuse_newer(version, len(scripts))
            for script in scripts[version:]:
                for statement in statements(script):
                    connection.execute(statement)
            connection.execute(f"DELETE FROM {self._version_table}")
            connection.execute(f"INSERT INTO {self._version_table} VALUES (?)", (len(scripts),))

    def _refuse_newer(self, version: int, supported: int) -> None:
        if version > supported:
            raise NewerJournal(
                f"The {self._holds} in {self._database.path} were written by a newer longwatch (version "
                f"{version}, this one supports up to {supported})."
            )

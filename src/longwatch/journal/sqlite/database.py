"""One SQLite file: connections, durability settings, migrations. Knows nothing of events."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from longwatch.clock import Clock
from longwatch.errors import NewerJournal, NotADatabase, ReadOnlyJournal
from longwatch.journal.sqlite.failures import translated

BUSY_TIMEOUT_MS = 5_000
WAL_RETRY_SECONDS = 0.02  # SQLite does not wait by itself while a file changes to write-ahead logging

_inherited: list[sqlite3.Connection] = []  # connections of a parent process: closing them here would hurt it


@dataclass(frozen=True, slots=True)
class Schema:
    """What a kind of file looks like: whose it is, and the scripts that bring an empty one up to date."""

    application_id: int  # tells our files from other SQLite databases
    package: str  # where its folder `migrations` lies

    def scripts(self) -> list[str]:
        """The migrations in order; the file's `user_version` counts those that were run."""
        folder = files(self.package) / "migrations"
        names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
        return [(folder / name).read_text(encoding="utf-8") for name in names]


class Database:
    """A file that many threads and processes use at once. Connections open on first use."""

    def __init__(self, path: Path, *, schema: Schema, clock: Clock) -> None:
        self.path = path
        self._schema = schema
        self._clock = clock
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._write_lock = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._idle_readers: list[sqlite3.Connection] = []
        self._prepared = False
        self._prepare_lock = threading.Lock()

    def prepare(self) -> None:
        """Create the file or bring it up to date, once."""
        if self._pid != os.getpid():
            self._leave_to_parent()
        if self._prepared:
            return
        with self._prepare_lock, self._translation():
            if self._prepared:
                return
            if not self.path.exists():
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self.path.touch(mode=0o600)
            connection = self._connect()
            try:
                self._migrate(connection)
            except BaseException:
                connection.close()
                raise
            self._writer = connection
            self._prepared = True

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: committed and on the disk when the block ends, or not there at all."""
        self.prepare()
        with self._write_lock, self._translation():
            connection = self._writer
            assert connection is not None
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def fetch(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """All rows of one query."""
        self.prepare()
        try:
            connection = self._idle_readers.pop()
        except IndexError:
            with self._translation():
                connection = self._connect()
        try:
            return connection.execute(query, parameters).fetchall()
        except sqlite3.Error as error:
            raise translated(error, self.path) from error
        finally:
            self._idle_readers.append(connection)

    @property
    def schema_version(self) -> int:
        """The file's `user_version`."""
        return int(self.fetch("PRAGMA user_version")[0][0])

    def close(self) -> None:
        """Close every connection; the last one to close folds the write-ahead log into the file."""
        if self._pid != os.getpid():
            self._leave_to_parent()
        with self._write_lock:
            for connection in (*self._idle_readers, self._writer):
                if connection is not None:
                    connection.close()
            self._idle_readers.clear()
            self._writer, self._prepared = None, False

    def _leave_to_parent(self) -> None:
        """After a fork: SQLite connections must not be used, nor even closed, in the child."""
        _inherited.extend(self._idle_readers)
        if self._writer is not None:
            _inherited.append(self._writer)
        self._reset()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=BUSY_TIMEOUT_MS / 1000, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        scripts = self._schema.scripts()
        version = self._identify(connection)
        if version > len(scripts):
            raise NewerJournal(
                f"{self.path} was written by a newer longwatch (version {version} of the file, "
                f"this one knows {len(scripts)}). Upgrade: pip install --upgrade longwatch"
            )
        if version == len(scripts):
            return
        self._use_write_ahead_log(connection)
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = self._identify(connection)  # another process may have been first
            for number, script in enumerate(scripts[version:], version + 1):
                for statement in statements(script):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
            connection.execute(f"PRAGMA application_id = {self._schema.application_id}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _identify(self, connection: sqlite3.Connection) -> int:
        """The file's version; refuses a database that belongs to another program."""
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
        tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
        if tables and owner != self._schema.application_id:
            raise NotADatabase(
                f"{self.path} is a SQLite database of another kind, not what longwatch keeps here; "
                "choose another file."
            )
        return version

    def _use_write_ahead_log(self, connection: sqlite3.Connection) -> None:
        deadline = self._clock.monotonic() + BUSY_TIMEOUT_MS / 1000
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not busy or self._clock.monotonic() > deadline:
                    raise
            self._clock.sleep(WAL_RETRY_SECONDS)

    @contextmanager
    def _translation(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise translated(error, self.path) from error
        except PermissionError as error:
            raise ReadOnlyJournal(
                f"{self.path} cannot be written; give this user the right to write there, "
                "or choose another journal with --journal."
            ) from error


def statements(script: str) -> list[str]:
    """The statements of a script. `executescript` would commit between them."""
    text = re.sub(r"--[^\n]*", "", script)
    return [statement for part in text.split(";") if (statement := part.strip())]

"""One SQLite file: connections, durability settings, migrations. Knows nothing of events."""

from __future__ import annotations

import atexit
import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any
from weakref import WeakSet

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import NewerJournal, NotADatabase
from longwatch.journal.sqlite.failures import translated
from longwatch.settings import make_private_directory

BUSY_TIMEOUT_MS = 5_000
# Folding the log into the file every 16 MB rather than every 4, with the indexes' pages kept at hand, takes a
# third off the cost of a busy writer; an idle one never notices.
CHECKPOINT_PAGES = 4_000
WRITER_CACHE_KIB = 16_384
FORK_WAIT_SECONDS = 1.0  # for a transaction to end
WAL_RETRY_SECONDS = 0.02  # SQLite does not wait by itself while a file changes to write-ahead logging

_databases: WeakSet[Database] = WeakSet()
_inherited: list[sqlite3.Connection] = []  # a parent's connections, which must not even be closed here


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

    def __init__(
        self, path: Path, *, schema: Schema, clock: Clock, busy_timeout_ms: int = BUSY_TIMEOUT_MS
    ) -> None:
        self.path = path
        self._schema = schema
        self._clock = clock
        self._busy_timeout_seconds = busy_timeout_ms / 1000
        self._reset()
        _databases.add(self)

    def _reset(self) -> None:
        self._write_lock = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._idle_readers: list[sqlite3.Connection] = []
        self._prepared = False
        self._prepare_lock = threading.Lock()
        self._paused_by: int | None = None  # the thread that is about to fork

    def prepare(self) -> None:
        """Create the file or bring it up to date, once."""
        if self._prepared:
            return
        with self._prepare_lock, self._translation():
            if self._prepared:
                return
            if not self.path.exists():
                make_private_directory(self.path.parent)
                self.path.touch(mode=0o600)
            connection = self._connect()
            try:
                self._migrate(connection)
            except BaseException:
                connection.close()
                raise
            connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
            connection.execute(f"PRAGMA cache_size = -{WRITER_CACHE_KIB}")
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

    def fetch(
        self,
        query: str,
        parameters: Sequence[object] = (),
        *,
        is_last: Callable[[tuple[Any, ...]], bool] | None = None,
    ) -> list[tuple[Any, ...]]:
        """All rows of one query; with `is_last`, up to such a row. Those after it are not read."""
        self.prepare()
        try:
            connection = self._idle_readers.pop()
        except IndexError:
            with self._translation():
                connection = self._connect()
        try:
            found = connection.execute(query, parameters)
            return found.fetchall() if is_last is None else _rows_up_to(found, is_last)
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
        with self._write_lock:
            for connection in (*self._idle_readers, self._writer):
                if connection is not None:
                    connection.close()
            self._idle_readers.clear()
            self._writer, self._prepared = None, False

    def pause(self, timeout_seconds: float) -> None:
        """Before a fork: let what is under way come to its end.

        SQLite in the child would take the locks of a copied transaction for those of a connection beside it,
        and wait for ever; so would Python for a module that was just being imported.
        """
        if self._prepare_lock.acquire(timeout=timeout_seconds):
            if self._write_lock.acquire(timeout=timeout_seconds):
                self._paused_by = threading.get_ident()
            else:
                self._prepare_lock.release()

    def resume(self) -> None:
        """After a fork, in the parent: go on, if it was this thread that paused."""
        if self._paused_by == threading.get_ident():
            self._paused_by = None
            self._write_lock.release()
            self._prepare_lock.release()

    def leave_to_parent(self) -> None:
        """After a fork, in the child: begin with connections and locks of our own."""
        _inherited.extend(self._idle_readers)
        if self._writer is not None:
            _inherited.append(self._writer)
        self._reset()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=self._busy_timeout_seconds, isolation_level=None, check_same_thread=False
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
        # In this order: another process may make the file now, and what has tables has its owner by then.
        tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
        owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
        if tables and owner != self._schema.application_id:
            raise NotADatabase(
                f"{self.path} is a SQLite database of another kind, not what longwatch keeps here; "
                "choose another file."
            )
        return version

    def _use_write_ahead_log(self, connection: sqlite3.Connection) -> None:
        deadline = self._clock.monotonic() + self._busy_timeout_seconds
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
        except (sqlite3.Error, OSError) as error:
            raise translated(error, self.path) from error


def _rows_up_to(found: sqlite3.Cursor, is_last: Callable[[tuple[Any, ...]], bool]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    with closing(found):  # a statement that is left half way would hold its snapshot of the file
        for row in found:
            rows.append(row)
            if is_last(row):
                break
    return rows


def statements(script: str) -> list[str]:
    """The statements of a script. `executescript` would commit between them."""
    found, part = [], ""
    for piece in re.sub(r"--[^\n]*", "", script).split(";"):
        part += f"{piece};"
        if sqlite3.complete_statement(part):  # a trigger has some of its own inside
            found.append(part.strip().removesuffix(";"))
            part = ""
    return [statement for statement in found if statement.strip()]


def _before_fork() -> None:
    deadline = SYSTEM_CLOCK.monotonic() + FORK_WAIT_SECONDS
    for database in list(_databases):
        database.pause(max(0.0, deadline - SYSTEM_CLOCK.monotonic()))


def _after_fork_in_parent() -> None:
    for database in list(_databases):
        database.resume()


def _after_fork_in_child() -> None:
    """A child that used or closed its parent's connections could damage the file, or wait for ever."""
    for database in list(_databases):
        database.leave_to_parent()
    if _inherited:
        atexit.register(_keep_inherited)


def _keep_inherited() -> None:
    """Python frees, and so closes, everything when it ends: take references that nobody gives back."""
    try:
        from ctypes import py_object, pythonapi
    except ImportError:  # a Python without ctypes frees them, which mostly goes well
        return
    for connection in _inherited:
        pythonapi.Py_IncRef(py_object(connection))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
    )

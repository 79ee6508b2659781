"""One SQLite file: connections, durability settings and migrations, independent of its content."""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any
from weakref import WeakSet

from longwatch.clock import Clock
from longwatch.errors import LongwatchError, NewerJournal, NotADatabase
from longwatch.settings import make_private_directory
from longwatch.storage.sqlite.errors import moved_error, translate_error
from longwatch.storage.sqlite.file_identity import Change, Files, folder_lock, set_aside
from longwatch.storage.sqlite.forking import hold_log, inherited, register

log = logging.getLogger("longwatch")

BUSY_TIMEOUT_MS = 5_000
# A checkpoint every 16 MB instead of every 4, and a cache that holds the pages of the indexes, reduce the
# cost of a busy writer by a third.
CHECKPOINT_PAGES = 4_000
WRITER_CACHE_KIB = 16_384
READER_WAIT_SECONDS = 0.001  # between checks whether the last query before a fork has ended
WAL_RETRY_SECONDS = 0.02  # SQLite itself does not wait while a file changes to write-ahead logging


@dataclass(frozen=True, slots=True)
class Schema:
    """The application id of a kind of file, and the scripts that migrate an empty one."""

    application_id: int  # distinguishes longwatch files from other SQLite databases
    package: str  # contains the folder of migrations
    folder: str = "migrations"

    def scripts(self) -> list[str]:
        """The migrations in order; the file's `user_version` counts those that were run."""
        return migration_scripts(self.package, self.folder)


def migration_scripts(package: str, folder: str = "migrations") -> list[str]:
    """The SQL scripts in a folder of a package, in the order of their names."""
    entries = sorted((files(package) / folder).iterdir(), key=lambda entry: entry.name)
    return [entry.read_text(encoding="utf-8") for entry in entries if entry.name.endswith(".sql")]


_databases: WeakSet[Database] = WeakSet()  # of this process


class Database:
    """A file that many threads and processes use at once. Connections open on first use.

    A file that is deleted, moved or replaced while it is open raises `JournalMoved`, and its connections are
    closed: the next call opens the file that is at the path then. A file that existed before (or
    `must_exist`) and is missing is not created unless this database `recreates` it: usually it was deleted by
    mistake, or a disk is not mounted. Databases of one process that share a file agree on that: while one of
    them has opened it and was not closed, none of them creates it.
    """

    def __init__(
        self,
        path: Path,
        *,
        schema: Schema,
        clock: Clock,
        busy_timeout_ms: int = BUSY_TIMEOUT_MS,
        recreates: bool = False,
        must_exist: bool = False,
        synchronous: str = "FULL",
        checkpoint_pages: int = CHECKPOINT_PAGES,
    ) -> None:
        self.path = path
        self._checkpoint_pages = checkpoint_pages
        self._synchronous = synchronous  # NORMAL: a commit does not wait for the disk
        # How often the file was lost; nothing read in an earlier generation is valid for the current file.
        self.generation = 0
        self.openings = 0  # counters of a connection are not comparable after the next opening
        self._schema = schema
        self._clock = clock
        self._busy_timeout_seconds = busy_timeout_ms / 1000
        self._recreates = recreates
        self._target = os.path.realpath(path)
        self._was_open = must_exist
        self.is_closed = True  # until it is first opened
        self._reset()
        register(self)
        _databases.add(self)

    def _reset(self) -> None:
        self._write_lock = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._idle_readers: list[sqlite3.Connection] = []
        self._reads: set[object] = set()  # one for each active read; changed by atomic calls only
        self._opened: Files | None = None  # the files that the connections have open
        self._prepare_lock = threading.Lock()
        self._paused_by: int | None = None  # the thread that is about to fork

    def prepare(self) -> None:
        """Create or migrate the file, once."""
        if self._opened is not None:
            return
        with self._prepare_lock, self._translation():
            if self._opened is not None:
                return
            self._target = os.path.realpath(self.path)
            if not self.path.exists():
                self._create()
            before = self._files()
            connection = self._connect()
            try:
                self._migrate(connection)
                connection.execute("SELECT 1 FROM sqlite_master").fetchone()  # always opens the log
                opened = self._files()
                if before.main.identity != opened.main.identity:
                    raise moved_error(self.path, Change.REPLACED)
            except BaseException:
                connection.close()
                raise
            connection.execute(f"PRAGMA wal_autocheckpoint = {self._checkpoint_pages}")
            connection.execute(f"PRAGMA cache_size = -{WRITER_CACHE_KIB}")
            connection.execute("PRAGMA secure_delete = ON")  # deleted text is overwritten with zeros
            with self._write_lock:  # together, since another thread may close them at any moment
                self._writer, self._opened, self._was_open = connection, opened, True
                self.is_closed = False
                self.openings += 1

    def _create(self) -> None:
        if (self._was_open or self._is_open_elsewhere()) and not self._recreates:
            raise moved_error(self.path, Change.DELETED)
        make_private_directory(self.path.parent)
        target, now, saved = Path(self._target), self._clock.now_ms(), None
        with folder_lock(target.parent):
            if not self.path.exists():
                # A log without its file: SQLite would delete it, and share its index with its other users.
                saved = set_aside(target, None, stamp=now, change=Change.DELETED, is_copied=False)
                self.path.touch(mode=0o600)
        if saved is not None:
            log.warning(
                "longwatch: %s was deleted or moved and is created again; its write-ahead log is saved as %s",
                self.path,
                saved,
            )

    def _is_open_elsewhere(self) -> bool:
        """Whether another database of this process uses this file, or did until it was lost."""
        return any(each._target == self._target and not each.is_closed for each in list(_databases))

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: committed and on disk when the block ends, or rolled back."""
        with self._writer_alone() as (connection, opened):
            try:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                    # Also before the commit: what is rolled back now is then stored once, in the next file.
                    self._refuse_if_changed(opened)
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
                self._refuse_if_changed(opened)
            except (sqlite3.Error, OSError, UnicodeDecodeError, _FilesChanged) as error:
                raise self._lost(opened) or _as_longwatch_error(error, self.path) from error

    @contextmanager
    def _writer_alone(self) -> Iterator[tuple[sqlite3.Connection, Files]]:
        while True:
            self.prepare()
            with self._write_lock:
                if self._writer is not None and self._opened is not None:
                    yield self._writer, self._opened
                    return

    def fetch(
        self,
        query: str,
        parameters: Sequence[object] | Mapping[str, object] = (),
        *,
        is_last: Callable[[tuple[Any, ...]], bool] | None = None,
        check_files: bool = True,
    ) -> list[tuple[Any, ...]]:
        """All rows of one query; with `is_last`, up to and including the first such row.

        Without `check_files`, a file that was replaced while it was open is not noticed.
        """
        while True:
            opened, idle = self._readers()
            try:
                with self._reader(opened, idle) as connection:
                    found = connection.execute(query, parameters)
                    rows = found.fetchall() if is_last is None else _rows_up_to(found, is_last)
                    if check_files:
                        self._refuse_if_changed(opened)
                    return rows
            except (sqlite3.Error, OSError, UnicodeDecodeError, _FilesChanged) as error:
                with self._write_lock:
                    if self._opened is opened:  # else another thread closed them: reopen
                        raise self._lost(opened) or _as_longwatch_error(error, self.path) from error

    def _readers(self) -> tuple[Files, list[sqlite3.Connection]]:
        while True:
            self.prepare()
            idle, opened = self._idle_readers, self._opened
            if opened is not None:
                return opened, idle

    @contextmanager
    def _reader(self, opened: Files, idle: list[sqlite3.Connection]) -> Iterator[sqlite3.Connection]:
        read = object()
        self._reads.add(read)
        try:
            # In this order: a forking thread closes the file first and then waits for the reads.
            if self._opened is not opened:
                raise _FilesChanged
            try:
                connection = idle.pop()
            except IndexError:
                connection = self._connect()
            try:
                yield connection
            finally:
                idle.append(connection)
                if idle is not self._idle_readers:  # the others were closed in the meantime
                    _close_all(idle)
        finally:
            self._reads.discard(read)

    def _files(self) -> Files:
        return Files.at(str(self.path), self._target)

    def _refuse_if_changed(self, opened: Files) -> None:
        if opened.change(self._files()) is not None:
            raise _FilesChanged

    def _lost(self, opened: Files) -> LongwatchError | None:
        """Why the open file is not the one at the path; None if it is. Call under the write lock.

        Copies its commits from the log into the open file, wherever that is now, and closes its connections.
        """
        try:
            now = self._files()
        except OSError:  # the original error is raised instead
            return None
        change = opened.change(now)
        if change is None:
            return None
        is_copied = opened.must_checkpoint(now) and self._checkpoint()
        saved = None if change is Change.LOG_REPLACED else self._set_aside(opened, change, is_copied)
        self._close_connections()
        self.generation += change is not Change.LOG_REPLACED
        return moved_error(self.path, change, saved)

    def _checkpoint(self) -> bool:
        """Whether everything in the log is in the file now."""
        try:
            assert self._writer is not None
            busy, in_log, copied = self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error:
            return False
        return not busy and in_log == copied

    def _set_aside(self, opened: Files, change: Change, is_copied: bool) -> Path | None:
        try:
            with folder_lock(Path(self._target).parent):
                return set_aside(
                    Path(self._target), opened, stamp=self._clock.now_ms(), change=change, is_copied=is_copied
                )
        except OSError:  # the folder is missing too, or not writable
            return None

    def truncate_log(self) -> bool:
        """Empty the write-ahead log; False if a reader or another writer still needs it."""
        with self._writer_alone() as (connection, _), self._translation():
            busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy

    @property
    def schema_version(self) -> int:
        """The file's `user_version`."""
        return int(self.fetch("PRAGMA user_version")[0][0])

    def close(self) -> None:
        """Close every connection; the last one to close checkpoints the write-ahead log."""
        with self._write_lock:
            self.is_closed = True
            self._close_connections()

    def _close_connections(self) -> None:
        self._opened = None  # first, so that no thread puts a reader of these files into the new list
        # A connection in use is closed when its read ends.
        idle, self._idle_readers = self._idle_readers, []
        _close_all(idle)
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def pause(self, timeout_seconds: float) -> bool:
        """Before a fork: wait for active transactions and reads, and close the connections.

        Returns whether all of them ended in time. SQLite counts the connections of a process to a file and
        locks the file for the first one. In a child that inherits connections it would lock nothing: the next
        process that closes the file would delete the log, and with it the commits that others append to the
        next one. A child that inherits a transaction would block forever, and so would Python with a module
        whose import was under way.
        """
        if self._prepare_lock.acquire(timeout=timeout_seconds):
            if self._write_lock.acquire(timeout=timeout_seconds):
                self._paused_by = threading.get_ident()
                if self._opened is not None:
                    hold_log(self._target)
                self._close_connections()
                self._await_readers(timeout_seconds)
                return not self._reads
            self._prepare_lock.release()
        return False

    def _await_readers(self, timeout_seconds: float) -> None:
        """Wait for active queries of other threads; no query starts while the file is closed."""
        deadline = time.monotonic() + timeout_seconds
        while self._reads and time.monotonic() < deadline:
            time.sleep(READER_WAIT_SECONDS)

    def resume(self) -> None:
        """After a fork, in the parent: resume if this thread paused."""
        if self._paused_by == threading.get_ident():
            self._paused_by = None
            self._write_lock.release()
            self._prepare_lock.release()

    def leave_to_parent(self) -> None:
        """After a fork, in the child: start with new connections and locks."""
        inherited.extend(self._idle_readers)
        if self._writer is not None:
            inherited.append(self._writer)
        self._reset()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode=rw",  # a reader must not create a missing file
            uri=True,
            timeout=self._busy_timeout_seconds,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        scripts = self._schema.scripts()
        version = self._identify(connection)
        if version > len(scripts):
            raise NewerJournal(
                f"{self.path} was written by a newer longwatch (file version {version}, this one supports "
                f"up to {len(scripts)})."
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
        """The file's version; rejects a database of another application."""
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        # In this order: another process may be creating the file, and a file with tables has its id by then.
        tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
        owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
        if tables and owner != self._schema.application_id:
            raise NotADatabase(
                f"{self.path} is a SQLite database of another application. Choose another file."
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
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise translate_error(error, self.path) from error


def _close_all(idle: list[sqlite3.Connection]) -> None:
    """Remove each from the list before closing it: closing a connection that a thread reads from crashes."""
    while True:
        try:
            connection = idle.pop()
        except IndexError:
            return
        connection.close()


def _rows_up_to(found: sqlite3.Cursor, is_last: Callable[[tuple[Any, ...]], bool]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    with closing(found):  # an unfinished statement would hold its snapshot of the file
        for row in found:
            rows.append(row)
            if is_last(row):
                break
    return rows


class _FilesChanged(Exception):
    """The files at the path are not those that the connections have open."""


def _as_longwatch_error(error: Exception, path: Path) -> LongwatchError:
    if isinstance(error, _FilesChanged):
        return moved_error(path, Change.REPLACED)
    return translate_error(error, path)


def statements(script: str) -> list[str]:
    """The statements of a script; `executescript` would commit between them."""
    found, part = [], ""
    for piece in re.sub(r"--[^\n]*", "", script).split(";"):
        part += f"{piece};"
        if sqlite3.complete_statement(part):  # a trigger contains statements
            found.append(part.strip().removesuffix(";"))
            part = ""
    return [statement for statement in found if statement.strip()]

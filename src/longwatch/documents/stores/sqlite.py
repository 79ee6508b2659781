"""Documents in a SQLite file, that of a journal or one of their own."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.documents.files import FileEntry, FileKind, ProjectFiles
from longwatch.documents.store import DocumentStore
from longwatch.documents.stores.base import Head, StoredDocument, set_project_version
from longwatch.journal.sqlite.journal import SCHEMA
from longwatch.settings import sqlite_url
from longwatch.storage.change_signal import ChangeSignal, OnChange, local_signal
from longwatch.storage.sqlite.database import BUSY_TIMEOUT_MS, Database
from longwatch.storage.sqlite.side_schema import SideSchema

ENTRY_COLUMNS = """path, version, project_version, created_version, last_modified, created_at, size, sha256,
    kind, deleted"""
HEAD_COLUMNS = f"{ENTRY_COLUMNS}, base, base_bytes, log_bytes, waits"

CREATE_PROJECT = """
    INSERT INTO document_projects (project, name, created_at, version) VALUES (?,?,?,0)
    ON CONFLICT (project) DO NOTHING"""
READ_PROJECT = "SELECT project, name, created_at, version FROM document_projects WHERE project = ?"
LIST_PROJECTS = "SELECT project, name, created_at, version FROM document_projects ORDER BY project"
READ_PROJECT_VERSION = "SELECT version FROM document_projects WHERE project = ?"
COUNT_CHANGE = "UPDATE document_projects SET version = version + 1 WHERE project = ? RETURNING version"
LIST_ENTRIES = f"""
    SELECT {ENTRY_COLUMNS} FROM documents
    WHERE project = ? AND project_version > ? AND path >= ? AND substr(path, 1, ?) = ?
    ORDER BY path"""
READ_ENTRY = f"SELECT {ENTRY_COLUMNS} FROM documents WHERE project = ? AND path = ?"
# One statement reads one snapshot: no compaction can come in between.
LOAD = """
    SELECT {columns}, document_updates.data FROM documents
    JOIN document_updates ON document_updates.document = documents.id
    WHERE project = ? AND path = ? ORDER BY document_updates.version""".format(
    columns=", ".join(f"documents.{name.strip()}" for name in HEAD_COLUMNS.split(","))
)
FIND = "SELECT id, version, base FROM documents WHERE project = ? AND path = ?"
INSERT = f"INSERT INTO documents ({HEAD_COLUMNS}, project) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
UPDATE = f"UPDATE documents SET ({HEAD_COLUMNS}) = (?,?,?,?,?,?,?,?,?,?,?,?,?,?) WHERE id = ?"
APPEND = "INSERT INTO document_updates (document, version, data) VALUES (?,?,?)"
DELETE_LOG = "DELETE FROM document_updates WHERE document = ?"


class SqliteDocumentStore(DocumentStore):
    """A store for many threads and processes; a write is durable when its call returns."""

    def __init__(
        self, path: Path, *, clock: Clock = SYSTEM_CLOCK, busy_timeout_ms: int = BUSY_TIMEOUT_MS
    ) -> None:
        self.path = path.expanduser().absolute()
        super().__init__(
            SqliteDocuments(self.path, clock=clock, busy_timeout_ms=busy_timeout_ms), clock=clock
        )


class SqliteDocuments:
    """A `DocumentBackend` of tables with a schema version of their own."""

    def __init__(self, path: Path, *, clock: Clock, busy_timeout_ms: int) -> None:
        self.url = sqlite_url(path)
        self._path = path
        self._clock = clock
        self._database = Database(path, schema=SCHEMA, clock=clock, busy_timeout_ms=busy_timeout_ms)
        self._tables = SideSchema(
            self._database,
            holds="documents",
            version_table="document_schema",
            package="longwatch.documents.stores",
        )
        self._signal = local_signal(path)

    def create_project(self, project: str, name: str, now_ms: int) -> ProjectFiles:
        self._tables.prepare()
        with self._database.writing() as connection:
            connection.execute(CREATE_PROJECT, (project, name, now_ms))
            return _project_from(connection.execute(READ_PROJECT, (project,)).fetchone())

    def project(self, project: str) -> ProjectFiles | None:
        rows = self._fetch(READ_PROJECT, (project,))
        return _project_from(rows[0]) if rows else None

    def projects(self) -> Sequence[ProjectFiles]:
        return [_project_from(row) for row in self._fetch(LIST_PROJECTS)]

    def project_version(self, project: str) -> int:
        rows = self._fetch(READ_PROJECT_VERSION, (project,))
        return int(rows[0][0]) if rows else 0

    def entries(self, project: str, *, prefix: str, since: int) -> Sequence[FileEntry]:
        rows = self._fetch(LIST_ENTRIES, (project, since, prefix, len(prefix), prefix))
        return [_entry_from(row) for row in rows]

    def entries_at(self, project: str, paths: Sequence[str]) -> Sequence[FileEntry]:
        return [_entry_from(row) for path in paths for row in self._fetch(READ_ENTRY, (project, path))]

    def load(self, project: str, path: str) -> StoredDocument | None:
        rows = self._fetch(LOAD, (project, path))
        return StoredDocument(_head_from(rows[0]), [row[-1] for row in rows]) if rows else None

    def append(self, project: str, before: Head | None, after: Head, update: bytes) -> Head | None:
        self._tables.prepare()
        with self._database.writing() as connection:
            found = connection.execute(FIND, (project, after.entry.path)).fetchone()
            if not _is_unchanged(before, found):
                return None
            connection.execute(CREATE_PROJECT, (project, project, after.entry.last_modified))
            head = set_project_version(after, connection.execute(COUNT_CHANGE, (project,)).fetchone()[0])
            if found is None:
                document = connection.execute(INSERT, (*_row_of(head), project)).lastrowid
            else:
                document = found[0]
                connection.execute(UPDATE, (*_row_of(head), document))
            connection.execute(APPEND, (document, head.entry.version, update))
        self._signal.notify()
        return head

    def replace_log(self, project: str, before: Head, after: Head, state: bytes) -> bool:
        self._tables.prepare()
        with self._database.writing() as connection:
            found = connection.execute(FIND, (project, before.entry.path)).fetchone()
            if not _is_unchanged(before, found):
                return False
            connection.execute(UPDATE, (*_row_of(after), found[0]))
            connection.execute(DELETE_LOG, (found[0],))
            connection.execute(APPEND, (found[0], after.base, state))
        return True

    def subscribe(self, on_change: OnChange, *, inotify: bool = True) -> ChangeSignal:
        """Also reports writes of other processes, and those of a journal in the same file."""
        from longwatch.storage.sqlite.file_signal import watch_file

        self._database.prepare()
        database = Database(self._path, schema=SCHEMA, clock=self._clock, busy_timeout_ms=0, must_exist=True)
        return watch_file(database, on_change, inotify=inotify)

    def close(self) -> None:
        self._database.close()

    def _fetch(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        self._tables.prepare()
        return self._database.fetch(query, parameters)


def _is_unchanged(before: Head | None, found: tuple[Any, ...] | None) -> bool:
    """Whether the row of id, version and base is the one that was read."""
    if before is None or found is None:
        return before is None and found is None
    return (before.entry.version, before.base) == found[1:]


def _project_from(row: sqlite3.Row | tuple[Any, ...]) -> ProjectFiles:
    project, name, created_at, version = row
    return ProjectFiles(project=project, name=name, created_at=created_at, version=version)


def _entry_from(row: tuple[Any, ...]) -> FileEntry:
    (
        path,
        version,
        project_version,
        created_version,
        last_modified,
        created_at,
        size,
        sha256,
        kind,
        deleted,
    ) = row
    return FileEntry(
        path=path,
        version=version,
        project_version=project_version,
        created_version=created_version,
        last_modified=last_modified,
        created_at=created_at,
        size=size,
        sha256=sha256,
        kind=FileKind(kind),
        deleted=bool(deleted),
    )


def _head_from(row: tuple[Any, ...]) -> Head:
    base, base_bytes, log_bytes, waits = row[10:14]
    return Head(
        entry=_entry_from(row[:10]), base=base, base_bytes=base_bytes, log_bytes=log_bytes, waits=bool(waits)
    )


def _row_of(head: Head) -> tuple[object, ...]:
    """The values of `HEAD_COLUMNS`."""
    entry = head.entry
    return (
        entry.path,
        entry.version,
        entry.project_version,
        entry.created_version,
        entry.last_modified,
        entry.created_at,
        entry.size,
        entry.sha256,
        entry.kind.value,
        int(entry.deleted),
        head.base,
        head.base_bytes,
        head.log_bytes,
        int(head.waits),
    )

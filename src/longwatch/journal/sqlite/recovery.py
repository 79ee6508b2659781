"""Creates a new journal from the readable events of a damaged one.

SQLite changes a file that it opens: it checkpoints the log. So the damaged files are copied and never opened.
In the copy the first page can be replaced: it contains the list of tables, which is the same in every journal
of one version.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longwatch.clock import Clock
from longwatch.errors import EventConflict, InvalidInput, JournalDamaged, LongwatchError
from longwatch.journal.arrivals import Arrival
from longwatch.journal.sqlite.journal import SqliteJournal
from longwatch.journal.sqlite.salvage import Salvage
from longwatch.model.event import UNREADABLE, Event

BATCH = 1_000  # events stored in one transaction
_OWN_TABLES = frozenset({"events", "runs", "arrivals", "heartbeats", "tombstones"})
_TOMBSTONES = "SELECT run_id, deleted_at, by, events, digest, is_purged FROM tombstones NOT INDEXED"
_DEFINITIONS = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type DESC"
_PAGE_COUNT, _FREE_PAGES = slice(28, 32), slice(32, 40)  # in the header of a file
_CHANGES, _COUNT_IS_OF = slice(24, 28), slice(92, 96)


@dataclass(slots=True)
class RecoveryReport:
    """The result of a recovery."""

    salvaged: int = 0
    unreadable: int = 0
    runs: int = 0
    affected: set[str] = field(default_factory=set)  # runs with unreadable events
    other_rows: int = 0  # of documents and executions in the same file
    other_lost: int = 0  # tables that are not completely readable


def recover(
    source: Path, target: Path, *, clock: Clock, progress: Callable[[int, int], None] | None = None
) -> RecoveryReport:
    """Copy every readable event of the damaged file to a new one, in the order of arrival."""
    found = RecoveryReport()
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".longwatch-recover-") as folder:
            copy, made = _copy_files(source, Path(folder)), Path(folder) / "recovered.db"
            with _open_copy(copy, source, clock) as salvage, SqliteJournal(made, clock=clock) as journal:
                deleted = _copy_tombstones(copy, made, journal)
                arrived = salvage.arrivals(progress=progress)
                _store((each for each in arrived if each[1].run_id not in deleted), journal, found)
                found.unreadable = max(found.unreadable, salvage.lost_rows)
                if not found.salvaged:
                    raise JournalDamaged(f"No event in {source} can be read. Restore the file from a backup.")
                for run in salvage.runs().values():
                    journal.restore(run)
            _copy_other_tables(copy, made, found)
            if target.exists():
                raise InvalidInput(
                    f"{target} was created by another process and is left unchanged. Choose another file."
                )
            made.rename(target)
    except OSError as error:
        raise InvalidInput(f"{source} cannot be copied to {target}: {error.strerror or error}.") from error
    return found


def _copy_files(source: Path, folder: Path) -> Path:
    copy = folder / "damaged.db"
    shutil.copyfile(source, copy)
    with suppress(FileNotFoundError):  # the write-ahead log with the last commits
        shutil.copyfile(f"{source}-wal", f"{copy}-wal")
    return copy


def _open_copy(copy: Path, source: Path, clock: Clock) -> Salvage:
    """Open the copy; if its first page is damaged, with that of a new journal."""
    try:
        return Salvage(copy, now_seconds=0)  # expired events are salvaged too, and expire in the new file
    except LongwatchError:
        _replace_first_page(copy, clock)
    try:
        return Salvage(copy, now_seconds=0)
    except LongwatchError as error:
        raise JournalDamaged(
            f"No event in {source} can be read ({error}). Restore the file from a backup."
        ) from error


def _replace_first_page(copy: Path, clock: Clock) -> None:
    model = copy.with_name("model.db")
    with SqliteJournal(model, clock=clock) as journal:
        journal.last_arrival()
    with closing(sqlite3.connect(model)) as connection:
        [(page_bytes,)] = connection.execute("PRAGMA page_size").fetchall()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with model.open("rb") as file:
        page = bytearray(file.read(page_bytes))
    page[_PAGE_COUNT] = max(1, copy.stat().st_size // page_bytes).to_bytes(4, "big")
    page[_FREE_PAGES] = bytes(8)
    page[_COUNT_IS_OF] = page[_CHANGES]
    with copy.open("r+b") as file:
        file.write(page)


def _copy_tombstones(copy: Path, made: Path, journal: SqliteJournal) -> frozenset[str]:
    """Copy the tombstones, and return the IDs of the deleted runs: what is left of these is not copied."""
    journal.last_arrival()  # creates the tables
    with (
        closing(sqlite3.connect(f"{copy.as_uri()}?mode=ro", uri=True)) as old,
        closing(sqlite3.connect(made, isolation_level=None)) as new,
    ):
        try:
            rows = old.execute(_TOMBSTONES).fetchall()
        except sqlite3.Error:  # of an earlier version, or damaged
            return frozenset()
        new.executemany("INSERT INTO tombstones VALUES (?,?,?,?,?,?)", rows)
    return frozenset(str(row[0]) for row in rows)


def _store(arrivals: Iterator[Arrival], journal: SqliteJournal, found: RecoveryReport) -> None:
    batch: list[Event] = []
    runs: set[str] = set()
    for _, event in arrivals:
        runs.add(event.run_id)
        if event.type == UNREADABLE:
            found.unreadable += 1
            found.affected.add(event.run_id)
            continue
        batch.append(event)
        if len(batch) >= BATCH:
            _append(journal, batch, found)
            batch = []
    _append(journal, batch, found)
    found.runs = len(runs)


def _append(journal: SqliteJournal, batch: list[Event], found: RecoveryReport) -> None:
    try:
        journal.append(batch)
        found.salvaged += len(batch)
    except EventConflict as conflict:  # two rows with one id: damage that the index did not prevent
        found.salvaged += len(batch) - len(conflict.event_ids)
        found.unreadable += len(conflict.event_ids)


def _copy_other_tables(copy: Path, made: Path, found: RecoveryReport) -> None:
    """Copy documents and executions in the journal's file."""
    with (
        closing(sqlite3.connect(f"{copy.as_uri()}?mode=ro", uri=True)) as old,
        closing(sqlite3.connect(made, isolation_level=None)) as new,
    ):
        old.execute("PRAGMA writable_schema = ON")
        try:
            definitions = old.execute(_DEFINITIONS).fetchall()
        except sqlite3.Error:
            found.other_lost += 1
            return
        for kind, name, table, sql in definitions:  # tables come before indexes
            if table in _OWN_TABLES or name.startswith("sqlite_"):
                continue
            try:
                new.execute(sql)
                if kind == "table":
                    _copy_table(old, new, table, found)
            except sqlite3.Error:
                found.other_lost += 1


def _copy_table(old: sqlite3.Connection, new: sqlite3.Connection, table: str, found: RecoveryReport) -> None:
    quoted = '"' + table.replace('"', '""') + '"'
    try:
        rows: list[tuple[Any, ...]] = old.execute(f"SELECT * FROM {quoted} NOT INDEXED").fetchall()
    except sqlite3.Error:
        found.other_lost += 1
        rows = _rows_around(old, quoted)
    new.execute("BEGIN")
    for row in rows:
        new.execute(f"INSERT OR IGNORE INTO {quoted} VALUES ({','.join('?' * len(row))})", row)
        found.other_rows += 1
    new.execute("COMMIT")


def _rows_around(old: sqlite3.Connection, quoted: str) -> list[tuple[Any, ...]]:
    """The rows from both ends up to the damage."""
    rows: dict[tuple[Any, ...], None] = {}
    keys = [row[1] for row in old.execute(f"PRAGMA table_info({quoted})") if row[5]] or ["rowid"]
    for direction in ("ASC", "DESC"):
        order = ", ".join(f'"{key}" {direction}' for key in keys)
        with (
            suppress(sqlite3.Error),
            closing(old.execute(f"SELECT * FROM {quoted} ORDER BY {order}")) as part,
        ):
            rows.update(dict.fromkeys(part))
    return list(rows)

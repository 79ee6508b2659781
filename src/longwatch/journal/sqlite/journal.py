"""A `Journal` in one SQLite file. The cursor is the arrival position, so no late event is ever missed."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import EventConflict
from longwatch.events import START, Cursor, Event, Page
from longwatch.journal.base import ALL_RUNS, DEFAULT_LIST_LIMIT, DEFAULT_READ_LIMIT, RunPage, RunQuery
from longwatch.journal.codec import same_content
from longwatch.journal.memory import cursor_at, list_cursor, list_edge_of, position_of
from longwatch.journal.sqlite.database import Database, Schema
from longwatch.journal.sqlite.rows import (
    EVENT_COLUMNS,
    event_from_row,
    event_to_row,
    run_from_text,
    run_to_row,
)
from longwatch.runs import RunSummary, summarise

SCHEMA = Schema(application_id=0x6C77_6A31, package="longwatch.journal.sqlite")  # "lwj1"
IDLE_CHECK_SECONDS = 0.02  # how often `wait` looks for writes of other processes

APPEND = f"""
    INSERT INTO events ({EVENT_COLUMNS}, position) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)
    ON CONFLICT (event_id) DO NOTHING"""
READ = f"""
    SELECT {EVENT_COLUMNS}, position FROM events
    WHERE run_id = ? AND position > ? AND (ttl IS NULL OR ttl > ?)
    ORDER BY position LIMIT ?"""
READ_BY_ID = f"SELECT {EVENT_COLUMNS} FROM events WHERE event_id = ?"
SAVE_RUN = """
    INSERT INTO runs (run_id, started_at, last_at, status, kind, search, summary) VALUES (?,?,?,?,?,?,?)
    ON CONFLICT (run_id) DO UPDATE SET
        started_at = excluded.started_at, last_at = excluded.last_at, status = excluded.status,
        kind = excluded.kind, search = excluded.search, summary = excluded.summary"""
FIND_RUN = "SELECT summary FROM runs WHERE run_id = ?"
OLD_RUNS = "SELECT run_id, last_at FROM runs WHERE started_at < ? AND run_id > ? ORDER BY run_id LIMIT 100"
PRUNE_RUN = """
    DELETE FROM events WHERE position IN (
        SELECT position FROM events WHERE run_id = ? AND occurred_at < ? LIMIT ?)"""
PRUNE_EXPIRED = """
    DELETE FROM events WHERE position IN (
        SELECT position FROM events WHERE ttl IS NOT NULL AND ttl <= ? LIMIT ?)"""


class SqliteJournal:
    """A journal that many threads and processes may use at once, each write durable when `append` returns."""

    default_ttl_seconds: int | None = None

    def __init__(self, path: Path, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.path = path.expanduser().absolute()
        self._clock = clock
        self._database = Database(self.path, schema=SCHEMA, clock=clock)
        self._wait_lock = threading.Lock()
        self._appended = threading.Event()
        self._seen_position = 0

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    @property
    def schema_version(self) -> int:
        """The version of the file's shape, for `longwatch doctor`."""
        return self._database.schema_version

    def append(self, events: Sequence[Event]) -> None:
        if not events:
            return
        rows = [event_to_row(event) for event in events]  # encoded before the lock is taken
        conflicts: list[str] = []
        with self._database.writing() as connection:
            first = connection.execute("SELECT last_position FROM arrivals").fetchone()[0] + 1
            connection.execute("SAVEPOINT batch")
            placed = [(*row, position) for position, row in enumerate(rows, first)]
            stored = connection.executemany(APPEND, placed).rowcount
            fresh = events
            if stored != len(events):
                connection.execute("ROLLBACK TO batch")
                fresh, conflicts = _append_one_by_one(connection, events, placed)
            connection.execute("UPDATE arrivals SET last_position = ?", (first + len(rows) - 1,))
            for run_id, part in summarise(fresh).items():
                _merge_run(connection, run_id, part)
        self._appended.set()
        if conflicts:
            raise EventConflict(conflicts)

    def read(
        self, run_id: str, *, after: Cursor = START, limit: int = DEFAULT_READ_LIMIT, thorough: bool = False
    ) -> Page:
        now = self._clock.now_ms() // 1000
        rows = self._database.fetch(READ, (run_id, position_of(after), now, limit + 1))
        more = len(rows) > limit
        if more:
            rows.pop()
        if not rows:
            return Page((), after)
        events = [event_from_row(row) for row in rows]
        return Page(in_order(events), cursor_at(rows[-1][-1]), more)

    def find_runs(
        self, query: RunQuery = ALL_RUNS, *, after: Cursor | None = None, limit: int = DEFAULT_LIST_LIMIT
    ) -> RunPage:
        sql, parameters = list_query(query, after)
        rows = self._database.fetch(sql, (*parameters, limit + 1))
        runs = [run_from_text(run_id, text) for run_id, text in rows[:limit]]
        return RunPage(runs, list_cursor(runs[-1]) if len(rows) > limit else None)

    def find_run(self, run_id: str) -> RunSummary | None:
        rows = self._database.fetch(FIND_RUN, (run_id,))
        return run_from_text(run_id, rows[0][0]) if rows else None

    def wait(self, timeout_seconds: float) -> bool:
        deadline = self._clock.monotonic() + timeout_seconds
        with self._wait_lock:
            while True:
                self._appended.clear()
                position = self._database.fetch("SELECT last_position FROM arrivals")[0][0]
                if position > self._seen_position:
                    self._seen_position = position
                    return True
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    return False
                self._appended.wait(min(left, IDLE_CHECK_SECONDS))

    def prune(self, before_ms: int, *, batch: int = 1000) -> int:
        gone, after = 0, ""
        while runs := self._database.fetch(OLD_RUNS, (before_ms, after)):
            for run_id, last_at in runs:
                gone += self._prune_run(run_id, before_ms, whole=last_at < before_ms, batch=batch)
            after = runs[-1][0]
        now = self._clock.now_ms() // 1000
        while True:
            with self._database.writing() as connection:
                deleted = connection.execute(PRUNE_EXPIRED, (now, batch)).rowcount
            gone += deleted
            if deleted < batch:
                return gone

    def _prune_run(self, run_id: str, before_ms: int, *, whole: bool, batch: int) -> int:
        gone = 0
        while True:
            with self._database.writing() as connection:
                deleted = connection.execute(PRUNE_RUN, (run_id, before_ms, batch)).rowcount
                gone += deleted
                if deleted:
                    text = connection.execute(FIND_RUN, (run_id,)).fetchone()[0]
                    part = replace(run_from_text(run_id, text), expired_before=before_ms)
                    connection.execute(SAVE_RUN, run_to_row(part))
                if deleted < batch:
                    if (
                        whole
                        and not connection.execute(
                            "SELECT 1 FROM events WHERE run_id = ? LIMIT 1", (run_id,)
                        ).fetchone()
                    ):
                        connection.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))
                    return gone

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def in_order(events: list[Event]) -> list[Event]:
    """The events sorted by their order; one pass tells the usual case, where they are already."""
    previous = -1
    for event in events:
        if event.occurred_at <= previous:
            return sorted(events, key=lambda each: each.order)
        previous = event.occurred_at
    return events


def list_query(query: RunQuery, after: Cursor | None) -> tuple[str, list[object]]:
    """The SQL that lists these runs from an index, newest first; the caller adds the limit."""
    wanted: list[tuple[str, tuple[object, ...]]] = []
    if query.status is not None:
        wanted.append(("status = ?", (query.status.value,)))
    if query.kind is not None:
        wanted.append(("kind = ?", (query.kind,)))
    if query.since is not None:
        wanted.append(("started_at >= ?", (query.since,)))
    if query.until is not None:
        wanted.append(("started_at < ?", (query.until,)))
    if query.text is not None:
        wanted.append(("instr(search, ?) > 0", (query.text.casefold(),)))
    if after is not None:
        wanted.append(("(started_at, run_id) < (?, ?)", list_edge_of(after)))
    where = f"WHERE {' AND '.join(clause for clause, _ in wanted)}" if wanted else ""
    sql = f"SELECT run_id, summary FROM runs {where} ORDER BY started_at DESC, run_id DESC LIMIT ?"
    return sql, [value for _, values in wanted for value in values]


def _append_one_by_one(
    connection: sqlite3.Connection, events: Sequence[Event], rows: Sequence[tuple[object, ...]]
) -> tuple[list[Event], list[str]]:
    """Append a batch in which some ids are known: the fresh events, and the ids that name something else."""
    fresh: list[Event] = []
    conflicts: list[str] = []
    for event, row in zip(events, rows, strict=True):
        if connection.execute(APPEND, row).rowcount:
            fresh.append(event)
            continue
        known = connection.execute(READ_BY_ID, (event.event_id,)).fetchone()
        if not same_content(event_from_row(known), event):
            conflicts.append(event.event_id)
    return fresh, conflicts


def _merge_run(connection: sqlite3.Connection, run_id: str, part: RunSummary) -> None:
    known = connection.execute(FIND_RUN, (run_id,)).fetchone()
    whole = run_from_text(run_id, known[0]).merged(part) if known else part
    connection.execute(SAVE_RUN, run_to_row(whole))

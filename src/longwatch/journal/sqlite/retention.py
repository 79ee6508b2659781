"""Removes old and expired events from a SQLite file, in small transactions between which others can write."""

from __future__ import annotations

from dataclasses import replace

from longwatch.journal.sqlite.rows import decode_run, run_to_row
from longwatch.model.retention import RetentionRule
from longwatch.storage.sqlite.database import Database

FIND_RUN = "SELECT summary FROM runs WHERE run_id = ?"
SAVE_RUN = """
    INSERT INTO runs (run_id, started_at, last_at, status, kind, search, summary) VALUES (?,?,?,?,?,?,?)
    ON CONFLICT (run_id) DO UPDATE SET
        started_at = excluded.started_at, last_at = excluded.last_at, status = excluded.status,
        kind = excluded.kind, search = excluded.search, summary = excluded.summary"""
OLD_RUNS = """
    SELECT run_id, last_at FROM runs
    WHERE started_at < ? AND run_id > ? AND kind NOT IN ('project', 'conversation')
    ORDER BY run_id LIMIT 100"""
PRUNE_RUN = """
    DELETE FROM events WHERE position IN (
        SELECT position FROM events WHERE run_id = ? AND occurred_at < ? LIMIT ?)"""
PRUNE_EXPIRED = """
    DELETE FROM events WHERE position IN (
        SELECT position FROM events WHERE ttl IS NOT NULL AND ttl <= ? LIMIT ?)
    RETURNING run_id"""
DELETE_EMPTY_RUN = """
    DELETE FROM runs
    WHERE run_id = ? AND NOT EXISTS (SELECT 1 FROM events WHERE events.run_id = runs.run_id)"""

ENDED_RUNS = """
    SELECT run_id, last_at FROM runs
    WHERE last_at < ? AND status NOT IN ('pending', 'running') AND kind NOT IN ('project', 'conversation')
        AND (? IS NULL OR kind = ?) AND (? IS NULL OR status = ?)
    ORDER BY last_at LIMIT 100"""
USED_BYTES = """
    SELECT (page_count - freelist_count) * page_size
    FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()"""
LATEST = 2**62  # epoch ms


def expire_runs(database: Database, rule: RetentionRule, *, now_ms: int, batch: int) -> dict[str, int]:
    """Remove the ended runs that a rule lets expire; returns the number of events of each."""
    expired: dict[str, int] = {}
    before = LATEST if rule.after_ms is None else now_ms - rule.after_ms
    while runs := ended_runs(database, rule, before):
        for run_id, last_at in runs:
            if not is_too_large(database, rule):
                return expired
            expired[run_id] = _prune_run(database, run_id, last_at + 1, whole=True, batch=batch)
        if not any(expired[run_id] for run_id, _ in runs):  # such as events after the last one
            return expired
    return expired


def ended_runs(database: Database, rule: RetentionRule, before_ms: int) -> list[tuple[str, int]]:
    """Up to 100 ended runs that a rule selects, with the time of their last event, the oldest first."""
    selected = (before_ms, rule.kind, rule.kind, rule.status, rule.status)
    return [(run_id, last_at) for run_id, last_at in database.fetch(ENDED_RUNS, selected)]


def is_too_large(database: Database, rule: RetentionRule) -> bool:
    """Whether the file has more bytes in use than a rule allows; True for a rule without a size."""
    return rule.max_bytes is None or database.fetch(USED_BYTES)[0][0] > rule.max_bytes


def prune_events(database: Database, before_ms: int, *, now_ms: int, batch: int) -> int:
    """Remove the events from before a time, and the expired ones; returns their number."""
    deleted_events, after = 0, ""
    while runs := database.fetch(OLD_RUNS, (before_ms, after)):
        for run_id, last_at in runs:
            deleted_events += _prune_run(database, run_id, before_ms, whole=last_at < before_ms, batch=batch)
        after = runs[-1][0]
    while True:
        with database.writing() as connection:
            deleted = connection.execute(PRUNE_EXPIRED, (now_ms // 1000, batch)).fetchall()
            connection.executemany(DELETE_EMPTY_RUN, set(deleted))
        deleted_events += len(deleted)
        if len(deleted) < batch:
            return deleted_events


def _prune_run(database: Database, run_id: str, before_ms: int, *, whole: bool, batch: int) -> int:
    deleted_events = 0
    while True:
        with database.writing() as connection:
            deleted = connection.execute(PRUNE_RUN, (run_id, before_ms, batch)).rowcount
            deleted_events += deleted
            row = connection.execute(FIND_RUN, (run_id,)).fetchone() if deleted else None
            if row is not None:  # else it was deleted meanwhile
                part = replace(decode_run(run_id, row[0]), expired_before=before_ms)
                connection.execute(SAVE_RUN, run_to_row(part))
            if deleted < batch:
                if whole:
                    connection.execute(DELETE_EMPTY_RUN, (run_id,))
                return deleted_events

"""The outbox: a SQLite file on this machine for events that could not be delivered.

After a batch is stored, its shipper announces the range of times in a `late_batch` event, because readers of
a remote journal re-read only a limited window. Shipping twice is harmless: journals recognise an event by its
id. Several processes may ship at once; each claims its batch for a while. The claim of a process that has
exited is free at once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import EventConflict, InvalidEvent, LongwatchError, RunDeleted
from longwatch.journal.base import Journal
from longwatch.journal.codec import from_line, to_line
from longwatch.model.event import Event, new_event_id
from longwatch.model.process import Presence, ProcessIdentity, this_process
from longwatch.storage.sqlite.database import BUSY_TIMEOUT_MS, Database, Schema

SCHEMA = Schema(application_id=0x6C77_6F31, package="longwatch.recording")  # "lwo1"
BATCH = 250  # events shipped at a time
CLAIM_MS = 60_000

PUT = "INSERT OR IGNORE INTO waiting (journal, event_id, occurred_at, line) VALUES (?, ?, ?, ?)"
CLAIM = """
    UPDATE waiting SET claimed_until = ?, claimed_by = ? WHERE id IN (
        SELECT id FROM waiting WHERE journal = ? AND refused IS NULL AND claimed_until <= ?
        ORDER BY id LIMIT ?)
    RETURNING id, line"""
PENDING = """
    SELECT journal, count(*), min(occurred_at) FROM waiting WHERE refused IS NULL
    GROUP BY journal ORDER BY journal"""
CLAIMED = "SELECT count(*) FROM waiting WHERE refused IS NULL AND claimed_until > ?"
CLAIMERS = """
    SELECT DISTINCT claimed_by FROM waiting
    WHERE refused IS NULL AND claimed_until > ? AND claimed_by IS NOT NULL"""
FREE = "UPDATE waiting SET claimed_until = 0 WHERE claimed_by = ?"
REFUSED = "SELECT event_id, refused FROM waiting WHERE refused IS NOT NULL ORDER BY id LIMIT ?"


@dataclass(frozen=True, slots=True)
class PendingBatch:
    """The events that wait for one journal: their number, and the time of the oldest."""

    url: str
    events: int
    oldest_ms: int


@dataclass(slots=True)
class AppendResult:
    """What became of events: stored, refused with the reason, or dropped with their deleted run."""

    accepted: list[Event] = field(default_factory=list)
    refused: list[tuple[Event, str]] = field(default_factory=list)
    dropped: list[Event] = field(default_factory=list)
    deletion: RunDeleted | None = None  # the last one


def append_valid(journal: Journal, events: Sequence[Event]) -> AppendResult:
    """Append events; the invalid ones, and those of deleted runs, do not block the others."""
    try:
        journal.append(events)
        return AppendResult(accepted=list(events))
    except RunDeleted as error:  # the others are stored, unless one of them is invalid
        result = append_valid(journal, [event for event in events if event.run_id not in error.run_ids])
        result.dropped += [event for event in events if event.run_id in error.run_ids]
        result.deletion = error
        return result
    except (InvalidEvent, EventConflict) as error:
        if len(events) == 1:
            return AppendResult(refused=[(events[0], str(error))])
    result = AppendResult()
    for event in events:  # find the invalid one
        found = append_valid(journal, [event])
        result.accepted += found.accepted
        result.refused += found.refused
        result.dropped += found.dropped
        result.deletion = found.deletion or result.deletion
    return result


@dataclass(slots=True)
class ShipReport:
    """The result of shipping."""

    shipped: int = 0
    left: int = 0
    refused: int = 0
    dropped: int = 0  # events of deleted runs
    errors: list[str] = field(default_factory=list)
    accepted: list[Event] = field(default_factory=list)  # of the last batch
    rejected: list[Event] = field(default_factory=list)  # of the last batch; refused or dropped


class Outbox:
    """One outbox. Its file is created with the first event."""

    def __init__(
        self, path: Path, *, clock: Clock = SYSTEM_CLOCK, busy_timeout_ms: int = BUSY_TIMEOUT_MS
    ) -> None:
        self.path = path
        self._clock = clock
        self._database = Database(
            path, schema=SCHEMA, clock=clock, busy_timeout_ms=busy_timeout_ms, recreates=True
        )

    def put(self, journal_url: str, events: Sequence[Event]) -> None:
        """Store events durably until they are shipped."""
        rows = [(journal_url, event.event_id, event.occurred_at, to_line(event)) for event in events]
        with self._database.writing() as connection:
            connection.executemany(PUT, rows)

    def refuse(self, journal_url: str, event: Event, reason: str) -> None:
        """Store an event that its journal rejects for good, with the reason, for an operator."""
        self.put(journal_url, [event])
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE waiting SET refused = ? WHERE journal = ? AND event_id = ?",
                (reason, journal_url, event.event_id),
            )

    def exists(self) -> bool:
        """Whether the file exists; an unreadable folder counts as no file."""
        return os.path.exists(self.path)  # noqa: PTH110 - Path.exists raises without permission

    def pending(self) -> list[PendingBatch]:
        """The events that wait, by journal."""
        if not self.exists():
            return []
        return [PendingBatch(*row) for row in self._database.fetch(PENDING)]

    def refused(self, limit: int = 20) -> list[tuple[str, str]]:
        """The ids of events that journals rejected, with the reasons."""
        if not self.exists():
            return []
        return [(row[0], row[1]) for row in self._database.fetch(REFUSED, (limit,))]

    def ship(
        self,
        open_: Callable[[str], Journal],
        *,
        clock: Clock | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> ShipReport:
        """Ship everything to every reachable journal. An unreachable journal is skipped with an error."""
        report = ShipReport()
        batches = self.pending()
        total = sum(batch.events for batch in batches)
        for batch in batches:
            try:
                with open_(batch.url) as journal:
                    while self.ship_batch(journal, batch.url, report):
                        if progress is not None:
                            progress(report.shipped, total)
            except LongwatchError as error:
                report.errors.append(f"{batch.url}: {error}")
        report.left = sum(batch.events for batch in self.pending())
        if report.left and not report.errors:
            report.errors.append(self._why_left(report.left))
        return report

    def _why_left(self, left: int) -> str:
        """Why events are left although every journal is reachable."""
        now = self._clock.now_ms()
        [(claimed,)] = self._database.fetch(CLAIMED, (now,))
        events = "1 event is" if left == 1 else f"{left:,} events are"
        if claimed:
            return f"{events} left: another process has claimed {claimed:,} for at most {CLAIM_MS // 1000} s."
        return f"{events} left: recorded while the others were delivered. Run `longwatch ship` again."

    def ship_batch(self, journal: Journal, url: str, report: ShipReport) -> bool:
        """Ship up to one batch to this journal and add to the report. False: there was nothing to ship."""
        now = self._clock.now_ms()
        report.accepted, report.rejected = [], []
        claimed = self._claim(url, now)
        if not claimed and self._free_abandoned(now):
            claimed = self._claim(url, now)
        if not claimed:
            return False
        try:
            accepted = self._append(journal, url, self._readable(claimed, report), report)
            journal.append(announcements(accepted, now))
        except BaseException:
            self._release([row[0] for row in claimed])
            raise
        with self._database.writing() as connection:
            connection.executemany(
                "DELETE FROM waiting WHERE id = ? AND refused IS NULL", [(row[0],) for row in claimed]
            )
        report.shipped += len(accepted)
        report.accepted += accepted
        return True

    def _claim(self, url: str, now_ms: int) -> list[tuple[int, str]]:
        claimed_by = json.dumps(this_process().fields)
        with self._database.writing() as connection:
            found = connection.execute(CLAIM, (now_ms + CLAIM_MS, claimed_by, url, now_ms, BATCH))
            return sorted(found.fetchall())

    def _free_abandoned(self, now_ms: int) -> bool:
        """Free the claims of processes that have exited; returns whether there were any."""
        claimers = [row[0] for row in self._database.fetch(CLAIMERS, (now_ms,))]
        exited = [each for each in claimers if _has_exited(each)]
        if exited:
            with self._database.writing() as connection:
                connection.executemany(FREE, [(each,) for each in exited])
        return bool(exited)

    def _readable(self, claimed: Sequence[tuple[int, str]], report: ShipReport) -> list[Event]:
        """The events in these lines. An unreadable one is marked as refused, or it would block the others."""
        events = []
        for row_id, line in claimed:
            try:
                events.append(from_line(line))
            except LongwatchError as error:
                with self._database.writing() as connection:
                    connection.execute("UPDATE waiting SET refused = ? WHERE id = ?", (str(error), row_id))
                report.refused += 1
        return events

    def _append(self, journal: Journal, url: str, events: list[Event], report: ShipReport) -> list[Event]:
        result = append_valid(journal, events)
        for event, reason in result.refused:
            self.refuse(url, event, reason)
        report.refused += len(result.refused)
        report.dropped += len(result.dropped)
        report.rejected += [event for event, _ in result.refused] + result.dropped
        return result.accepted

    def _release(self, ids: Sequence[int]) -> None:
        with self._database.writing() as connection:
            connection.executemany(
                "UPDATE waiting SET claimed_until = 0 WHERE id = ?", [(each,) for each in ids]
            )

    def close(self) -> None:
        self._database.close()


def _has_exited(claimed_by: str) -> bool:
    process = ProcessIdentity.of(json.loads(claimed_by))
    return process is not None and process.presence() is Presence.GONE


def announcements(events: Sequence[Event], now_ms: int) -> list[Event]:
    """One `late_batch` for each run, with the range of times of the events that were just stored.

    It expires with the last of them.
    """
    runs: dict[str, list[Event]] = {}
    for event in events:
        runs.setdefault(event.run_id, []).append(event)
    return [
        Event(
            run_id=run_id,
            event_id=new_event_id(now_ms),
            type="late_batch",
            occurred_at=now_ms,
            payload=_range(late),
            ttl=_last_ttl(late),
        )
        for run_id, late in runs.items()
    ]


def _last_ttl(events: Sequence[Event]) -> int | None:
    ttls = [event.ttl for event in events if event.ttl is not None]
    return max(ttls) if len(ttls) == len(events) else None


def _range(events: Sequence[Event]) -> dict[str, object]:
    times = [event.occurred_at for event in events]
    return {"from": min(times), "to": max(times), "count": len(times)}

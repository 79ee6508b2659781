"""A `Journal` in one SQLite file. The cursor is the arrival position, so no late event is ever missed."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter, lt
from pathlib import Path
from typing import Any

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import EventConflict, InvalidCursor, JournalDamaged
from longwatch.journal.arrivals import Arrival, ArrivalCursor, last_events, page_from, page_of
from longwatch.journal.base import DEFAULT_LIST_LIMIT, DEFAULT_READ_LIMIT, ClosesOnExit, RunPage
from longwatch.journal.deletions import Tombstone, raise_deleted
from longwatch.journal.memory import first_page, list_cursor, list_page, parse_list_cursor
from longwatch.journal.sqlite.appending import append_batch, stored_summaries
from longwatch.journal.sqlite.deletions import RunDeletions
from longwatch.journal.sqlite.heartbeats import (
    INTERVAL_SECONDS,
    PRUNE,
    HeartbeatFile,
    read_heartbeats,
)
from longwatch.journal.sqlite.queries import (
    ANY_TTL,
    COUNT_EVENTS,
    LAST_ARRIVAL,
    READ,
    READ_ARRIVALS,
    READ_LAST,
    UPDATE_RUN,
)
from longwatch.journal.sqlite.retention import FIND_RUN, SAVE_RUN, expire_runs, prune_events
from longwatch.journal.sqlite.rows import (
    POSITION,
    RUN_ID,
    PageSize,
    decode_run,
    encode_run,
    event_to_row,
    events_from_rows,
    has_same_columns,
    run_to_row,
)
from longwatch.journal.sqlite.salvage import Salvage, first_arrivals
from longwatch.journal.sqlite.side_files import delete_file, search_path, snapshots_path
from longwatch.model.endings import STORED_ENDING, Ending, encode_ending
from longwatch.model.event import START, UNREADABLE, Cursor, Event, Page
from longwatch.model.retention import RetentionRule
from longwatch.model.run import RunSummary, summarise
from longwatch.model.run_query import ALL_RUNS, RunQuery
from longwatch.settings import sqlite_url
from longwatch.storage.change_signal import ChangeSignal, OnChange, local_signal
from longwatch.storage.sqlite.database import BUSY_TIMEOUT_MS, Database, Schema

SCHEMA = Schema(application_id=0x6C77_6A31, package="longwatch.journal.sqlite")  # "lwj1"
CACHED_SUMMARIES = 256
RUNS_AT_ONCE = 500  # read for a query that has to look into the summaries


class SqliteJournal(ClosesOnExit):
    """A journal for many threads and processes; events are durable when `append` returns."""

    default_ttl_seconds: int | None = None
    announce_after_ms: int | None = None
    heartbeat_seconds: float = INTERVAL_SECONDS

    def __init__(
        self, path: Path, *, clock: Clock = SYSTEM_CLOCK, busy_timeout_ms: int = BUSY_TIMEOUT_MS
    ) -> None:
        self.path = path.expanduser().absolute()
        self._clock = clock
        self._database = Database(self.path, schema=SCHEMA, clock=clock, busy_timeout_ms=busy_timeout_ms)
        self._deletions = RunDeletions(self._database)
        self._heartbeats = HeartbeatFile(self.path, clock=clock)
        self._signal = local_signal(self.path)
        self._summaries: OrderedDict[str, tuple[str, RunSummary]] = OrderedDict()  # as last written

    @property
    def url(self) -> str:
        return sqlite_url(self.path)

    @property
    def schema_version(self) -> int:
        """The schema version of the file, for `longwatch doctor`."""
        return self._database.schema_version

    @property
    def generation(self) -> int:
        """How often the file was deleted, moved or replaced while it was open."""
        return self._database.generation

    def append(self, events: Sequence[Event]) -> None:
        if not events:
            return
        rows = [event_to_row(event) for event in events]  # encoded before the lock is taken
        conflicts: list[str] = []
        with self._database.writing() as connection:
            summaries, deleted = stored_summaries(connection, events)
            if deleted:  # their text must not reach the file, not even within a transaction
                rows = [row for row, event in zip(rows, events, strict=True) if event.run_id in summaries]
                events = [event for event in events if event.run_id in summaries]
            if events:
                fresh, conflicts = append_batch(connection, events, rows)
                for run_id, part in summarise(fresh).items():
                    self._merge_run(connection, run_id, part, summaries[run_id])
        if events:
            self._signal.notify()
        raise_deleted(deleted)
        if conflicts:
            raise EventConflict(conflicts)

    def read(
        self, run_id: str, *, after: Cursor = START, limit: int = DEFAULT_READ_LIMIT, thorough: bool = False
    ) -> Page:
        start = ArrivalCursor.of(after)
        now = self._clock.now_ms() // 1000
        wanted = limit + 1 + len(start.beyond)
        size = PageSize(start)
        try:
            parameters = (run_id, start.position, now, run_id, wanted)
            rows = self._database.fetch(READ, parameters, is_last=size.reaches_end)
            self._refuse_if_disordered(rows, start.position, run_id)
        except JournalDamaged:
            self._refuse_if_deleted(run_id)
            page = self._read_damaged(run_id, start, limit)
            if not page.events and start == ArrivalCursor():  # an empty run would be wrong
                raise
            return page
        if start.beyond:
            rows = [row for row in rows if row[-1] not in start.beyond]
        more = len(rows) > limit or size.is_full
        del rows[limit:]
        if not rows:
            self._refuse_if_deleted(run_id)
            self._refuse_if_ahead(start)
            return Page((), after)
        events = self._with_endings(events_from_rows(rows))
        positions = [row[-1] for row in rows]
        return page_from(start, events, positions, end=start.cursor_up_to(positions[-1]), more=more)

    def read_last(self, run_id: str, limit: int) -> Sequence[Event]:
        now = self._clock.now_ms() // 1000
        try:
            rows = self._database.fetch(READ_LAST, {"run_id": run_id, "now": now, "limit": limit})
            self._refuse_if_disordered(sorted(rows, key=itemgetter(POSITION)), 0, run_id)
        except JournalDamaged:
            self._refuse_if_deleted(run_id)
            with self._salvage() as salvage:
                return last_events((event for _, event in salvage.events_of(run_id)), limit)
        if not rows:
            self._refuse_if_deleted(run_id)
        return last_events(self._with_endings(events_from_rows(rows)), limit)

    def _read_damaged(self, run_id: str, start: ArrivalCursor, limit: int) -> Page:
        """A page of a run whose part of the file is damaged."""
        with self._salvage() as salvage:
            unread = (
                each for each in salvage.events_of(run_id, start.position) if each[0] not in start.beyond
            )
            found = list(first_arrivals(unread, limit + 1))
        page = self._arrivals_with_endings(first_page(found, limit))
        if not page:
            return Page((), start.cursor)
        return page_of(start, page, end=start.up_to(page[-1][0]), more=len(found) > len(page))

    def _refuse_if_disordered(
        self, rows: Sequence[tuple[Any, ...]], after: int, run_id: str | None = None
    ) -> None:
        """Raise for rows from a damaged tree, which SQLite does not check.

        A cursor that goes backwards would be read forever.
        """
        positions = [row[POSITION] for row in rows]
        ascending = all(map(lt, [after, *positions], positions))
        if not ascending or (run_id is not None and any(row[RUN_ID] != run_id for row in rows)):
            raise JournalDamaged(f"An index of {self.path} does not match its table.")

    def _salvage(self) -> Salvage:
        return Salvage(self.path, now_seconds=self._clock.now_ms() // 1000)

    def _refuse_if_deleted(self, run_id: str) -> None:
        stone = self.tombstone(run_id)
        if stone is not None:
            raise stone.error

    def _refuse_if_ahead(self, start: ArrivalCursor) -> None:
        """Raise for a cursor beyond the last arrival: it belongs to the file before a backup was restored."""
        if start.position and start.position > (last := self.last_arrival()):
            raise InvalidCursor(
                f"Cursor {start.position} is past the end of {self.path} ({last}): the file was replaced "
                "or restored. Read from the start."
            )

    def last_arrival(self) -> int:
        try:
            return int(self._database.fetch(LAST_ARRIVAL)[0][0])
        except JournalDamaged:
            with self._salvage() as salvage:
                return salvage.last_position()

    def arrivals(self, after: int, *, limit: int) -> Sequence[Arrival]:
        now = self._clock.now_ms() // 1000
        size = PageSize(ArrivalCursor(after))
        try:
            rows = self._database.fetch(READ_ARRIVALS, (after, now, limit), is_last=size.reaches_end)
            self._refuse_if_disordered(rows, after)
        except JournalDamaged:
            with self._salvage() as salvage:
                found = first_page(list(first_arrivals(salvage.arrivals(after), limit)), limit)
            return self._arrivals_with_endings(found)
        events = self._with_endings(events_from_rows(rows))
        return list(zip([row[POSITION] for row in rows], events, strict=True))

    def _arrivals_with_endings(self, found: Sequence[Arrival]) -> list[Arrival]:
        events = self._with_endings([event for _, event in found])
        return [(position, event) for (position, _), event in zip(found, events, strict=True)]

    def _with_endings(self, events: list[Event]) -> list[Event]:
        """Add the ending of their run to unreadable events: one of them may have stated it."""
        damaged = {event.run_id for event in events if event.type == UNREADABLE}
        if not damaged:
            return events
        stored = {run_id: self._stored_ending(run_id) for run_id in damaged}
        return [_with_ending(event, stored.get(event.run_id)) for event in events]

    def _stored_ending(self, run_id: str) -> Ending | None:
        try:
            rows = self._database.fetch(FIND_RUN, (run_id,))
            stored = decode_run(run_id, rows[0][0]) if rows else None
        except JournalDamaged:
            with self._salvage() as salvage:
                stored = salvage.stored_run(run_id)
        return None if stored is None else stored.ending

    def subscribe(self, on_change: OnChange, *, inotify: bool = True) -> ChangeSignal:
        """Also reports appends of other processes: through inotify where it works, else when polled."""
        from longwatch.storage.sqlite.file_signal import DamagedFileSignal, watch_file

        try:
            self._database.prepare()
        except JournalDamaged:
            return DamagedFileSignal()
        database = Database(self.path, schema=SCHEMA, clock=self._clock, busy_timeout_ms=0, must_exist=True)
        return watch_file(database, on_change, inotify=inotify)

    def find_runs(
        self, query: RunQuery = ALL_RUNS, *, after: Cursor | None = None, limit: int = DEFAULT_LIST_LIMIT
    ) -> RunPage:
        try:
            runs = self._matching_runs(query, after, limit + 1)
        except JournalDamaged:
            with self._salvage() as salvage:
                runs_found = salvage.runs()
            if not runs_found:  # an empty list would be wrong
                raise
            return list_page(runs_found.values(), query, after, limit)
        return RunPage(runs[:limit], list_cursor(runs[limit - 1]) if len(runs) > limit else None)

    def _matching_runs(self, query: RunQuery, after: Cursor | None, wanted: int) -> list[RunSummary]:
        """Up to so many runs. Terms without a column are checked on the summaries, batch by batch."""
        found: list[RunSummary] = []
        batch = max(wanted, RUNS_AT_ONCE) if query.terms else wanted
        while True:
            sql, parameters = list_query(query, after)
            rows = self._database.fetch(sql, (*parameters, batch))
            runs = [decode_run(run_id, text) for run_id, text in rows]
            found += filter(query.accepts, runs) if query.terms else runs
            if len(found) >= wanted or len(runs) < batch:
                return found[:wanted]
            after = list_cursor(runs[-1])

    def find_run(self, run_id: str) -> RunSummary | None:
        try:
            rows = self._database.fetch(FIND_RUN, (run_id,))
            return decode_run(run_id, rows[0][0]) if rows else None
        except JournalDamaged:
            with self._salvage() as salvage:
                return salvage.run(run_id)

    def beat(self, process_id: str, at_ms: int) -> None:
        self._database.prepare()
        self._heartbeats.beat(process_id, at_ms)

    def heartbeats(self, process_ids: Sequence[str]) -> Mapping[str, int]:
        earlier, found = read_heartbeats(self._database, process_ids), self._heartbeats.read(process_ids)
        return {**earlier, **{each: max(at, earlier.get(each, at)) for each, at in found.items()}}

    def delete_run(self, run_id: str, *, by: str, force: bool = False) -> Tombstone:
        stone = self._deletions.add(run_id, by=by, at_ms=self._clock.now_ms(), force=force)
        self._summaries.pop(run_id, None)
        self._signal.notify()
        self.purge_deleted()
        return self.tombstone(run_id) or stone

    def purge_deleted(self) -> bool:
        """Remove what interrupted deletions have left; False if a reader still needs the write-ahead log."""
        run_ids = self._deletions.unpurged()
        if not run_ids:
            return True
        self._deletions.remove_events(run_ids)
        is_empty = self._delete_copies(run_ids)
        return self._deletions.finish(run_ids) and is_empty

    def tombstone(self, run_id: str) -> Tombstone | None:
        try:
            return self._deletions.find(run_id)
        except JournalDamaged:
            return None  # of a damaged file, what can be read is shown

    def expire(self, rules: Sequence[RetentionRule], *, batch: int = 1000) -> int:
        self.purge_deleted()
        deleted_events = 0
        for rule in rules:
            now = self._clock.now_ms()
            expired = expire_runs(self._database, rule, now_ms=now, batch=batch)
            if expired:
                self._delete_copies(expired)
            deleted_events += sum(expired.values())
        return deleted_events

    def prune(self, before_ms: int, *, batch: int = 1000) -> int:
        self.purge_deleted()
        with self._database.writing() as connection:
            connection.execute(PRUNE, (before_ms,))
        self._heartbeats.prune(before_ms)
        try:
            return prune_events(self._database, before_ms, now_ms=self._clock.now_ms(), batch=batch)
        finally:  # afterwards: a server fills the index again with what is left
            delete_file(search_path(self.path))
            delete_file(snapshots_path(self.path))

    def _delete_copies(self, run_ids: Iterable[str]) -> bool:
        """Delete what the files beside the journal contain of these runs; False if a reader is in the way."""
        from longwatch.journal.sqlite.search_index import delete_runs  # appends do not need the index

        delete_file(snapshots_path(self.path))
        return delete_runs(self, self.path, run_ids)

    def has_expiring_events(self) -> bool:
        """Whether any event will expire, without a change of the summary of its run."""
        return bool(self._database.fetch(ANY_TTL))

    def count_events(self, run_id: str) -> int:
        """How many events of the run are stored, from the index that reading it uses."""
        return int(self._database.fetch(COUNT_EVENTS, (run_id,))[0][0])

    def _merge_run(
        self, connection: sqlite3.Connection, run_id: str, part: RunSummary, before: str | None
    ) -> None:
        """Add a part to the summary of a run, which is in a row before."""
        stored = None if before is None else self._summary_in(run_id, before)
        if stored is None:
            connection.execute(SAVE_RUN, run_to_row(part))
            return
        whole = stored.merged(part)
        text = encode_run(whole)
        if has_same_columns(stored, whole):
            # Without the indexed columns: SQLite writes index pages even if their values do not change.
            connection.execute(UPDATE_RUN, (whole.last_event_at, text, run_id))
        else:
            connection.execute(SAVE_RUN, run_to_row(whole))
        self._summaries[run_id] = text, whole
        self._summaries.move_to_end(run_id)
        if len(self._summaries) > CACHED_SUMMARIES:
            self._summaries.popitem(last=False)

    def _summary_in(self, run_id: str, text: str) -> RunSummary | None:
        """The summary in a row: usually the one that this journal wrote last, which need not be decoded.

        A damaged one is computed from the stored events; None without any.
        """
        written, summary = self._summaries.get(run_id, (None, None))
        if summary is not None and written == text:
            return summary
        try:
            return decode_run(run_id, text)
        except JournalDamaged:
            with self._salvage() as salvage:
                return summarise(event for _, event in salvage.events_of(run_id)).get(run_id)

    def restore(self, run: RunSummary) -> None:
        """Add what only the summary of a run contains.

        That is its start, its ending, its number of events, and the time before which events have expired.
        """
        with self._database.writing() as connection:
            row = connection.execute(FIND_RUN, (run.run_id,)).fetchone()
            if row is None:
                return
            summary = decode_run(run.run_id, row[0])
            origin = run.origin if run.origin.beats(summary.origin) else summary.origin
            lifecycle = summary.lifecycle.merged(run.lifecycle)
            whole = replace(
                summary,
                origin=origin,
                events=max(summary.events, run.events),  # so that lost ones count as missing
                lifecycle=lifecycle,
                expired_before=run.expired_before,
                totals=summary.totals.highest(run.totals),
                labels=summary.labels.merged(run.labels),
            )
            if whole != summary:
                connection.execute(SAVE_RUN, run_to_row(whole))

    def close(self) -> None:
        self._heartbeats.close()
        self._database.close()


def _with_ending(event: Event, ending: Ending | None) -> Event:
    if event.type != UNREADABLE or ending is None:
        return event
    return replace(event, payload={**event.payload, STORED_ENDING: encode_ending(ending)})


def list_query(query: RunQuery, after: Cursor | None) -> tuple[str, list[object]]:
    """The SQL that lists these runs, newest first; the caller adds the limit."""
    clauses: list[tuple[str, tuple[object, ...]]] = []
    if query.status is not None:
        statuses = tuple(sorted(each.value for each in query.statuses))
        clauses.append((f"status IN ({','.join('?' * len(statuses))})", statuses))
    if query.kind is not None:
        clauses.append(("kind = ?", (query.kind,)))
    if query.except_kinds:
        marks = ",".join("?" * len(query.except_kinds))
        clauses.append((f"kind NOT IN ({marks})", tuple(sorted(query.except_kinds))))
    if query.since is not None:
        clauses.append(("started_at >= ?", (query.since,)))
    if query.until is not None:
        clauses.append(("started_at < ?", (query.until,)))
    if query.text is not None:
        clauses.append(("instr(search, ?) > 0", (query.text.casefold(),)))
    if after is not None:
        clauses.append(("(started_at, run_id) < (?, ?)", parse_list_cursor(after)))
    where = f"WHERE {' AND '.join(clause for clause, _ in clauses)}" if clauses else ""
    sql = f"SELECT run_id, summary FROM runs {where} ORDER BY started_at DESC, run_id DESC LIMIT ?"
    return sql, [value for _, values in clauses for value in values]

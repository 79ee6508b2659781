"""A `Journal` in a DynamoDB table, for work that runs on more than one machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote, urlencode

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import EventConflict
from longwatch.journal.base import (
    DEFAULT_LIST_LIMIT,
    DEFAULT_READ_LIMIT,
    ClosesOnExit,
    Journal,
    RunPage,
    UnlistedRuns,
)
from longwatch.journal.deletions import Tombstone, check_deletion, raise_deleted
from longwatch.journal.dynamodb.appender import PUTS_IN_FLIGHT, TableAppender
from longwatch.journal.dynamodb.deletions import TableDeletions
from longwatch.journal.dynamodb.heartbeats import INTERVAL_SECONDS, put_heartbeat, read_heartbeats
from longwatch.journal.dynamodb.layout import layout_named
from longwatch.journal.dynamodb.reader import ANNOUNCE_AFTER_MS, TableReader
from longwatch.journal.dynamodb.run_index import RunIndex
from longwatch.journal.dynamodb.run_search import RunSearch
from longwatch.journal.dynamodb.table import BotoTable, Table
from longwatch.model.event import START, Cursor, Event, Page
from longwatch.model.run import RunSummary
from longwatch.model.run_query import ALL_RUNS, RunQuery
from longwatch.storage.urls import TableAddress


class DynamoJournal(ClosesOnExit):
    """A journal in one table. Deleting runs needs the permission BatchWriteItem.

    Producers need PutItem, readers Query, and scans Scan.

    An event ID with other content is a conflict only if both events have the same run and time: a put cannot
    see more of the table.
    """

    announce_after_ms: int | None = ANNOUNCE_AFTER_MS
    heartbeat_seconds: float = INTERVAL_SECONDS

    def __init__(
        self,
        table: Table,
        address: TableAddress,
        *,
        clock: Clock = SYSTEM_CLOCK,
        in_flight: int = PUTS_IN_FLIGHT,
    ) -> None:
        layout = layout_named(address.layout)
        self.address = address
        self.default_ttl_seconds = layout.default_ttl_seconds
        self._table = table
        self._layout = layout
        self._appender = TableAppender(table, layout, in_flight=in_flight)
        self._index = RunIndex(table, layout, clock)
        self._reader = TableReader(table, layout, clock)
        self._search = RunSearch(table, layout, clock)
        self._deletions = TableDeletions(table, layout, clock)
        self._clock = clock

    @property
    def url(self) -> str:
        at = self.address
        options = {"region": at.region, "layout": at.layout, "endpoint": at.endpoint}
        given = {name: value for name, value in options.items() if value}
        return f"dynamodb://{quote(at.table, safe='')}?{urlencode(given)}"

    def append(self, events: Sequence[Event]) -> None:
        if not events:
            return
        rejected = self._deletions.known(events)
        events = [event for event in events if event.run_id not in rejected] if rejected else events
        conflicts = self._appender.append(events)
        refused = set(conflicts)
        deleted = self._index.record([event for event in events if event.event_id not in refused])
        self._deletions.note(deleted)
        raise_deleted([*rejected.values(), *deleted])
        if conflicts:
            raise EventConflict(conflicts)

    def read(
        self, run_id: str, *, after: Cursor = START, limit: int = DEFAULT_READ_LIMIT, thorough: bool = False
    ) -> Page:
        return self._reader.read(run_id, after=after, limit=limit, thorough=thorough)

    def read_last(self, run_id: str, limit: int) -> Sequence[Event]:
        return self._reader.read_last(run_id, limit)

    def find_runs(
        self, query: RunQuery = ALL_RUNS, *, after: Cursor | None = None, limit: int = DEFAULT_LIST_LIMIT
    ) -> RunPage:
        return self._search.find_runs(query, after=after, limit=limit)

    def find_run(self, run_id: str) -> RunSummary | None:
        return self._search.find_run(run_id)

    def scan_runs(self) -> Iterator[RunSummary]:
        """Every run in the table, also those of other producers, newest first. Reads the whole table."""
        yield from self._search.scan_runs()

    def scan_unlisted(self, *, max_pages: int) -> UnlistedRuns:
        return self._search.scan_unlisted(max_pages)

    def delete_run(self, run_id: str, *, by: str, force: bool = False) -> Tombstone:
        found = self._deletions.find(run_id)
        if found is not None:
            self._deletions.purge(found)  # what an interrupted deletion or a late producer has left
            raise found.stone.error
        run = self.find_run(run_id)
        kind, status = (None, None) if run is None else (run.kind, run.status)
        check_deletion(run_id, kind, status, None, force=force)
        stone = Tombstone(run_id=run_id, deleted_at=self._clock.now_ms(), by=by)
        return self._deletions.purge(self._deletions.add(stone))

    def tombstone(self, run_id: str) -> Tombstone | None:
        found = self._deletions.find(run_id)
        return None if found is None else found.stone

    def beat(self, process_id: str, at_ms: int) -> None:
        put_heartbeat(self._table, self._layout, process_id, at_ms)

    def heartbeats(self, process_ids: Sequence[str]) -> Mapping[str, int]:
        return read_heartbeats(self._table, self._layout, process_ids)

    def close(self) -> None:
        self._appender.close()
        self._table.close()


def open_dynamodb(address: TableAddress, *, clock: Clock = SYSTEM_CLOCK) -> Journal:
    """The journal in this table. Raises `MissingExtra` where boto3 is not installed."""
    layout_named(address.layout)
    return DynamoJournal(BotoTable(address), address, clock=clock)

"""Where executions are stored under load: a SQLite file, or two tables whose calls are counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longwatch.clock import Clock
from longwatch.executions.stores.base import ExecutionStore
from longwatch.executions.stores.dynamodb import DynamoExecutionStore
from longwatch.executions.stores.sqlite import SqliteExecutionStore
from longwatch.journal.base import Journal
from longwatch.journal.dynamodb.journal import DynamoJournal
from longwatch.journal.dynamodb.table import BotoTable
from longwatch.journal.sqlite import SqliteJournal
from longwatch.storage.urls import TableAddress
from tests.contract.tables import new_table
from tests.contract.test_executions_dynamodb import new_execution_table
from tests.load.timings import Meter

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

IN_A_FILE, IN_TABLES = "file", "tables"


@dataclass(frozen=True, slots=True)
class Backend:
    """An execution store and a journal. A file makes no calls, so its meters count none."""

    name: str
    store: ExecutionStore
    journal: Journal
    of_store: Meter
    of_journal: Meter


class MeteredStore(DynamoExecutionStore):
    """A store whose calls are counted."""

    def __init__(self, address: TableAddress, meter: Meter) -> None:
        super().__init__(address)
        self._meter = meter

    def connect(self) -> DynamoDBClient:
        client: DynamoDBClient = self._meter.attach(super().connect())
        return client

    def _query_page(self, request: dict[str, Any]) -> Mapping[str, Any]:
        return self._meter.queried(super()._query_page, request)


class MeteredTable(BotoTable):
    """A journal's table whose calls are counted."""

    def __init__(self, address: TableAddress, meter: Meter) -> None:
        super().__init__(address)
        self._meter = meter

    def connect(self) -> DynamoDBClient:
        client: DynamoDBClient = self._meter.attach(super().connect())
        return client

    def _query_page(self, request: dict[str, Any]) -> Mapping[str, Any]:
        return self._meter.queried(super()._query_page, request)


@contextmanager
def in_a_file(path: Path, clock: Clock) -> Iterator[Backend]:
    """Executions and their journal in one SQLite file."""
    store, journal = SqliteExecutionStore(path, clock=clock), SqliteJournal(path, clock=clock)
    yield Backend("SQLite", store, journal, Meter(), Meter())
    journal.close()
    store.close()


@contextmanager
def in_tables(endpoint: str, clock: Clock) -> Iterator[Backend]:
    """Executions and their journal in two new tables."""
    of_store, of_journal = Meter(), Meter()
    with ExitStack() as opened:
        executions = opened.enter_context(new_execution_table(endpoint))
        events = opened.enter_context(new_table(endpoint, "workflow"))
        store = MeteredStore(executions, of_store)
        opened.callback(store.close)
        table = MeteredTable(events, of_journal)
        journal = opened.enter_context(DynamoJournal(table, events, clock=clock))
        yield Backend("DynamoDB Local", store, journal, of_store, of_journal)

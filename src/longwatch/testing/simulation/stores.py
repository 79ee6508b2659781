"""The simulated stores, with faults and with direct access to their events."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Protocol, TypeVar

from longwatch.clock import Clock
from longwatch.journal.base import Journal
from longwatch.journal.dynamodb.appender import TableAppender
from longwatch.journal.dynamodb.journal import DynamoJournal
from longwatch.journal.dynamodb.layout import Layout, StoredEvent, layout_named
from longwatch.journal.dynamodb.reader import TableReader
from longwatch.journal.dynamodb.table import Table
from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import START, Event
from longwatch.storage.dynamodb.values import AttributeMap
from longwatch.storage.urls import TableAddress
from longwatch.testing.faults import Gate, intercepted
from longwatch.testing.simulation.network import READING, WRITING, FaultModel
from longwatch.testing.tables import FailingTable, SimulatedTable

MEMORY, WORKFLOW, SESSION = "memory", "dynamodb-workflow", "dynamodb-session"
STORES = (WORKFLOW, SESSION, MEMORY)

MakeReader = Callable[[Table, Layout, Clock], TableReader]

T = TypeVar("T")


class Store(Protocol):
    """The store of a simulation."""

    @property
    def calls(self) -> int:
        """The number of calls so far."""

    def journal(self, faults: FaultModel | None) -> Journal:
        """The store as another process opens it; None: without faults."""

    def events(self, run_id: str) -> list[Event]:
        """All stored events of the run, in order."""

    def close(self) -> None:
        """Close the store."""


class TableStore:
    """The real DynamoDB journal on a table in memory."""

    def __init__(
        self, layout: str, clock: Clock, *, page_items: int, make_reader: MakeReader = TableReader
    ) -> None:
        self._table = SimulatedTable(layout, page_items=page_items)
        self._layout = layout_named(layout)
        self._address = TableAddress(table="simulated", layout=layout)
        self._clock = clock
        self._make_reader = make_reader

    @property
    def calls(self) -> int:
        return len(self._table.calls)

    def journal(self, faults: FaultModel | None) -> Journal:
        table: Table = self._table
        if faults is not None:
            table = FailingTable(table, partial(faults.fate, WRITING), partial(faults.fate, READING))
        return _ThreadlessJournal(table, self._address, self._clock, self._make_reader)

    def events(self, run_id: str) -> list[Event]:
        mine = [item for item in self._table.items if self._layout.run_of(item) == run_id]
        return _sorted([self._layout.read_event(item, run_id).event for item in mine])

    def close(self) -> None:
        """Nothing to close."""


class _ThreadlessJournal(DynamoJournal):
    """Puts events one by one in the caller's thread: threads would make the order random."""

    def __init__(self, table: Table, address: TableAddress, clock: Clock, make_reader: MakeReader) -> None:
        super().__init__(table, address, clock=clock, in_flight=1)
        layout = _caching_layout(address.layout)
        self._appender = _ThreadlessAppender(table, layout, in_flight=1)
        self._reader = make_reader(table, layout, clock)


def _caching_layout(name: str) -> Layout:
    """The layout, which parses every item once: a simulation would spend nearly all of its time on that."""
    layout = layout_named(name)
    read = layout.read_event
    parsed: dict[int, tuple[AttributeMap, StoredEvent]] = {}  # with the item, so that its id stays unique

    def read_event(item: AttributeMap, run_id: str) -> StoredEvent:
        found = parsed.get(id(item))
        if found is None:
            found = parsed[id(item)] = item, read(item, run_id)
        return found[1]

    setattr(layout, "read_event", read_event)  # noqa: B010 - replaces a method
    setattr(layout, "key_ms", cache(layout.key_ms))  # noqa: B010
    return layout


class _ThreadlessAppender(TableAppender):
    def _run_in_threads(self, batch) -> None:  # type: ignore[no-untyped-def]
        self._run_here(batch)


class JournalStore:
    """Any journal: all processes share it, with faults in front of it."""

    def __init__(self, journal: Journal) -> None:
        self._calls = 0
        self._journal = journal

    @property
    def calls(self) -> int:
        return self._calls

    def journal(self, faults: FaultModel | None) -> Journal:
        return self._journal if faults is None else intercepted(self._journal, self._gate(faults))

    def _gate(self, faults: FaultModel) -> Gate:
        def gate(name: str, call: Callable[[], T]) -> T:
            self._calls += 1
            return faults.gate(WRITING if name == "append" else READING, call)

        return gate

    def events(self, run_id: str) -> list[Event]:
        events: list[Event] = []
        page = self._journal.read(run_id, after=START, thorough=True)
        events += page.events
        while page.more:
            page = self._journal.read(run_id, after=page.cursor, thorough=True)
            events += page.events
        return _sorted(events)

    def close(self) -> None:
        self._journal.close()


def open_store(kind: str, clock: Clock, *, page_items: int, make_reader: MakeReader = TableReader) -> Store:
    """An empty store of this kind."""
    if kind == MEMORY:
        return JournalStore(MemoryJournal(clock=clock))
    return TableStore(kind.partition("-")[2], clock, page_items=page_items, make_reader=make_reader)


def _sorted(events: list[Event]) -> list[Event]:
    return sorted(events, key=lambda event: event.order)

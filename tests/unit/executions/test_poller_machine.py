"""Two pollers, an orchestrator and a source, in any order, with the store and the journal in memory."""

from __future__ import annotations

from collections.abc import Mapping

from longwatch.executions.stores.base import ExecutionStore
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.journal.base import Journal
from longwatch.testing import MemoryJournal
from tests.unit.executions.poller_machine import SETTINGS, Fragile, Pollers


class FragileStore(Fragile, MemoryExecutionStore):
    """Executions in memory."""


class FragileJournal(Fragile, MemoryJournal):
    """A journal in memory."""


class InMemory(Pollers):
    def open(self) -> tuple[ExecutionStore, Journal]:
        self.records, journal = FragileStore(), FragileJournal(clock=self.clock)
        self.records.fate = journal.fate = self.fate
        return self.records, journal

    def write(self, record: Mapping[str, object]) -> None:
        self.records.write(record)


TestPollers = InMemory.TestCase
TestPollers.settings = SETTINGS

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
        self.kept, journal = FragileStore(), FragileJournal(clock=self.clock)
        self.kept.fate = journal.fate = self.fate
        return self.kept, journal

    def write(self, record: Mapping[str, object]) -> None:
        self.kept.write(record)


TestPollers = InMemory.TestCase
TestPollers.settings = SETTINGS

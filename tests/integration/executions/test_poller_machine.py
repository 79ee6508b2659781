"""Two pollers, an orchestrator and a source, in any order, with store and journal in one SQLite file."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hypothesis import settings

from longwatch.executions.stores.base import ExecutionStore
from longwatch.executions.stores.sqlite import SqliteExecutionStore
from longwatch.journal.base import Journal
from longwatch.journal.sqlite import SqliteJournal
from tests.unit.executions.poller_machine import SETTINGS, Fragile, Pollers

STATEMENT = "UPDATE executions SET status = ?, record = ? WHERE execution_id = ?"


class FragileStore(Fragile, SqliteExecutionStore):
    """Executions in a file."""


class FragileJournal(Fragile, SqliteJournal):
    """A journal in a file."""


class OnSqlite(Pollers):
    def open(self) -> tuple[ExecutionStore, Journal]:
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "longwatch.db"
        store = FragileStore(self.path, clock=self.clock)
        journal = FragileJournal(self.path, clock=self.clock)
        store.fate = journal.fate = self.fate
        return store, journal

    def write(self, record: Mapping[str, object]) -> None:
        connection = sqlite3.connect(self.path)
        with connection:
            connection.execute(STATEMENT, (record["Status"], json.dumps(record), record["ExecutionId"]))
        connection.close()

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.store.close()
            self.journal.close()
            shutil.rmtree(self.folder)


TestPollers = OnSqlite.TestCase
TestPollers.settings = settings(SETTINGS, max_examples=25)

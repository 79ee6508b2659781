"""The execution store on SQLite keeps the promises, beside a journal in one file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from longwatch.errors import NewerJournal
from longwatch.executions.stores.sqlite import SqliteExecutionStore
from longwatch.executions.transitions import start_event
from longwatch.journal.sqlite import SqliteJournal
from tests.contract.execution_identity import IdentityContract
from tests.contract.executions import ChangesContract, Reads, Writes, foreign, new_execution


class TestSqliteExecutionStore(ChangesContract, IdentityContract):
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "executions.db"

    @pytest.fixture
    def store(self, path: Path) -> Iterator[SqliteExecutionStore]:
        store = SqliteExecutionStore(path)
        yield store
        store.close()

    @pytest.fixture
    def write(self, store: SqliteExecutionStore, path: Path) -> Writes:
        list(store.open_executions())  # which makes the table

        def write(record: Mapping[str, Any]) -> None:
            row = (record["ExecutionId"], record["PlanId"], record["Status"], record["StartTime"] * 1000)
            connection = sqlite3.connect(path)
            with connection:
                connection.execute("REPLACE INTO executions VALUES (?,?,?,?,?)", (*row, json.dumps(record)))
            connection.close()

        return write

    @pytest.fixture
    def read(self, path: Path) -> Reads:
        def read(execution_id: str, plan_id: str) -> dict[str, Any]:
            connection = sqlite3.connect(path)
            wanted = "SELECT record FROM executions WHERE execution_id = ? AND plan_id = ?"
            ((text,),) = connection.execute(wanted, (execution_id, plan_id)).fetchall()
            connection.close()
            return dict(json.loads(text))

        return read

    @pytest.mark.parametrize("journal_first", [True, False])
    def test_one_file_serves_a_journal_and_executions(
        self, store: SqliteExecutionStore, path: Path, journal_first: bool
    ) -> None:
        fresh = new_execution()

        with SqliteJournal(path) as journal:
            if journal_first:
                journal.append([start_event(fresh)])
            store.add(fresh)
            journal.append([start_event(fresh)])

            assert journal.find_run(fresh.run_id) is not None
        assert store.get(fresh.execution_id) is not None

    def test_a_newer_file_is_refused(self, store: SqliteExecutionStore, path: Path) -> None:
        store.add(new_execution())
        connection = sqlite3.connect(path)
        with connection:
            connection.execute("UPDATE execution_schema SET version = 99")
        connection.close()

        other = SqliteExecutionStore(path)
        with pytest.raises(NewerJournal, match="version 99"):
            list(other.open_executions())
        other.close()

    def test_an_execution_that_an_earlier_release_polled_is_open_under_a_status_of_another_writer(
        self, path: Path
    ) -> None:
        folder = files("longwatch.executions.stores") / "migrations"
        with SqliteJournal(path) as journal:
            journal.append([start_event(new_execution())])  # which makes the file ours
        connection = sqlite3.connect(path)
        for name in ("0001_executions.sql", "0002_changes.sql"):
            connection.executescript((folder / name).read_text(encoding="utf-8"))
        connection.execute("CREATE TABLE execution_schema (version INTEGER NOT NULL) STRICT")
        connection.execute("INSERT INTO execution_schema VALUES (2)")
        for name, word, version in (("x-1", "PAUSED", 3), ("x-2", "PAUSED", 0), ("x-3", "FAILED", 3)):
            record = {**foreign(name), "Status": word, "Version": version}
            row = (name, "p-1", word, 1, json.dumps(record))
            connection.execute("INSERT INTO executions VALUES (?,?,?,?,?)", row)
        connection.commit()
        connection.close()

        with closing(SqliteExecutionStore(path)) as store:
            found = [(each.execution_id, each.other_status) for each in store.open_executions()]

        assert found == [("x-1", "PAUSED")]

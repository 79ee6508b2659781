"""Executions in a SQLite file, that of a journal or one of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import AlreadyThere, VersionConflict
from longwatch.executions.model import Execution
from longwatch.executions.stores.base import (
    DEFAULT_LIST_LIMIT,
    PLANS_READ,
    ListPosition,
    has_run_of_id,
    pick_plan,
    require_unique,
)
from longwatch.executions.stores.records import (
    GUARDED,
    OPEN,
    POLLING,
    RECHECK,
    STATUS_WORDS,
    WORD_BY_STATUS,
    Record,
    changed_attributes,
    parse_record,
    to_record,
)
from longwatch.journal.sqlite.journal import SCHEMA
from longwatch.model.summary import Status
from longwatch.storage.change_signal import ChangeSignal, OnChange, local_signal
from longwatch.storage.sqlite.database import BUSY_TIMEOUT_MS, Database
from longwatch.storage.sqlite.side_schema import SideSchema

INSERT = (
    "INSERT INTO executions (execution_id, plan_id, status, started_at, record) VALUES (?,?,?,?,?) "
    "ON CONFLICT DO NOTHING"
)
UPDATE = "UPDATE executions SET status = ?, started_at = ?, record = ? WHERE execution_id = ? AND plan_id = ?"
READ = (
    "SELECT record FROM executions WHERE execution_id = ? AND plan_id = coalesce(?, plan_id) "
    f"LIMIT {PLANS_READ}"
)
READ_OPEN = "SELECT record FROM executions WHERE status = ? OR poll_state = ? ORDER BY started_at"
READ_UNSETTLED = (
    "SELECT record FROM executions WHERE poll_state = ? AND status <> ? "
    "OR poll_state = ? AND json_extract(record, '$.RecheckTime') <= ? ORDER BY started_at"
)
LIST = (
    "SELECT record FROM executions WHERE {} ORDER BY started_at DESC, execution_id DESC, plan_id DESC LIMIT ?"
)
WITH_STATUS = (
    "(status = ? OR status NOT IN ({}) AND coalesce(json_extract(record, '$.Verdict.Status'), 'running') = ?)"
)
AFTER = "(started_at, execution_id, plan_id) < (?, ?, ?)"
LAST_CHANGE = "SELECT coalesce(max(change), 0) FROM execution_changes"
OWN_STATUSES = ", ".join(f"'{word}'" for word in STATUS_WORDS)
CHANGES = (
    "SELECT change, record FROM execution_changes JOIN executions USING (execution_id, plan_id) "
    "WHERE change > ? ORDER BY change LIMIT ?"
)


class SqliteExecutionStore:
    """An `ExecutionStore` that many threads and processes may use at once."""

    def __init__(
        self, path: Path, *, clock: Clock = SYSTEM_CLOCK, busy_timeout_ms: int = BUSY_TIMEOUT_MS
    ) -> None:
        self.path = path.expanduser().absolute()
        self._clock = clock
        self._database = Database(self.path, schema=SCHEMA, clock=clock, busy_timeout_ms=busy_timeout_ms)
        self._signal = local_signal(self.path)
        self._tables = SideSchema(
            self._database,
            holds="executions",
            version_table="execution_schema",
            package="longwatch.executions.stores",
        )

    def add(self, execution: Execution) -> Execution:
        self._tables.prepare()
        record = to_record(replace(execution, version=1, stored=None))
        with self._database.writing() as connection:
            if not connection.execute(INSERT, _row(record)).rowcount:
                raise AlreadyThere(
                    f"Execution {execution.execution_id!r} of plan {execution.plan_id!r} already exists"
                )
        self._signal.notify()
        return _execution(json.dumps(record))

    def get(self, execution_id: str, plan_id: str | None = None) -> Execution | None:
        found = [_execution(text) for (text,) in self._fetch(READ, (execution_id, plan_id))]
        if plan_id is None or not any(map(has_run_of_id, found)):
            return require_unique(found)
        return pick_plan([_execution(text) for (text,) in self._fetch(READ, (execution_id, None))], plan_id)

    def update(self, execution: Execution) -> Execution:
        self._tables.prepare()
        read = execution.stored or {}
        record = to_record(replace(execution, version=execution.version + 1))
        key = (execution.execution_id, execution.plan_id)
        with self._database.writing() as connection:
            row = connection.execute(READ, key).fetchone()
            stored: Record = json.loads(row[0]) if row else {}
            if not row or any(stored.get(name) != read.get(name) for name in GUARDED):
                raise VersionConflict(execution.execution_id, execution.version)
            gone = read.keys() - record.keys()
            merged = {
                name: value
                for name, value in {**stored, **changed_attributes(read, record)}.items()
                if name not in gone
            }
            row = _row(merged)
            connection.execute(UPDATE, (*row[2:], *key))
        self._signal.notify()
        return _execution(str(row[-1]))

    def open_executions(self) -> Iterator[Execution]:
        for (text,) in self._fetch(READ_OPEN, (POLLING, OPEN)):
            found = _execution(text)
            if not found.closed:
                yield found

    def unsettled(self, now_ms: int) -> Iterator[Execution]:
        for (text,) in self._fetch(READ_UNSETTLED, (OPEN, POLLING, RECHECK, now_ms / 1000)):
            found = _execution(text)
            if found.closed:
                yield found

    def find(
        self,
        *,
        status: Status | None = None,
        limit: int = DEFAULT_LIST_LIMIT,
        after: ListPosition | None = None,
    ) -> Sequence[Execution]:
        holds, values = ["TRUE"], list[object]()
        if status is not None:
            holds.append(WITH_STATUS.format(OWN_STATUSES))
            values += [WORD_BY_STATUS.get(status, ""), status.value]
        if after is not None:
            holds.append(AFTER)
            values += after
        rows = self._fetch(LIST.format(" AND ".join(holds)), (*values, limit))
        return [_execution(text) for (text,) in rows]

    @property
    def generation(self) -> int:
        return self._database.generation

    def last_change(self) -> int:
        return int(self._fetch(LAST_CHANGE, ())[0][0])

    def changes(self, after: int, *, limit: int) -> Sequence[tuple[int, Execution]]:
        return [(number, _execution(text)) for number, text in self._fetch(CHANGES, (after, limit))]

    def subscribe(self, on_change: OnChange) -> ChangeSignal:
        from longwatch.storage.sqlite.file_signal import watch_file

        self._tables.prepare()
        self._database.prepare()
        database = Database(self.path, schema=SCHEMA, clock=self._clock, busy_timeout_ms=0, must_exist=True)
        return watch_file(database, on_change)

    def close(self) -> None:
        self._database.close()

    def _fetch(self, query: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        self._tables.prepare()
        return self._database.fetch(query, parameters)


def _row(record: Record) -> tuple[object, ...]:
    text = json.dumps(record)
    found = parse_record(record)
    return (found.execution_id, found.plan_id, str(record["Status"]).upper(), found.started_at, text)


def _execution(text: str) -> Execution:
    return parse_record(json.loads(text))

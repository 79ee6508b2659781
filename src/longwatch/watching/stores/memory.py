"""Executions that live as long as their process: for tests, and for trying things out."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from longwatch.errors import AlreadyThere, VersionConflict
from longwatch.summaries import Status
from longwatch.watching.model import Execution
from longwatch.watching.stores.base import DEFAULT_LIST_LIMIT
from longwatch.watching.stores.records import GUARDED, Record, execution_from, record_of


class MemoryExecutionStore:
    """An `ExecutionStore` in memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[tuple[str, str], Record] = {}

    def add(self, execution: Execution) -> Execution:
        record = deepcopy(record_of(replace(execution, version=1, stored=None)))
        with self._lock:
            if (execution.execution_id, execution.plan_id) in self._records:
                raise AlreadyThere(
                    f"execution {execution.execution_id!r} of plan {execution.plan_id!r} is there"
                )
            self._records[execution.execution_id, execution.plan_id] = record
        return execution_from(deepcopy(record))

    def get(self, execution_id: str, plan_id: str | None = None) -> Execution | None:
        with self._lock:
            for (known, plan), record in self._records.items():
                if known == execution_id and plan_id in (None, plan):
                    return execution_from(deepcopy(record))
        return None

    def update(self, execution: Execution) -> Execution:
        read = execution.stored or {}
        record = deepcopy(record_of(replace(execution, version=execution.version + 1)))
        with self._lock:
            known = self._records.get((execution.execution_id, execution.plan_id))
            if known is None or any(known.get(name) != read.get(name) for name in GUARDED):
                raise VersionConflict(execution.execution_id, execution.version)
            self._records[execution.execution_id, execution.plan_id] = {**known, **changed(read, record)}
            for name in read.keys() - record.keys():
                self._records[execution.execution_id, execution.plan_id].pop(name, None)
            stored = deepcopy(self._records[execution.execution_id, execution.plan_id])
        return execution_from(stored)

    def open_executions(self) -> Iterator[Execution]:
        found = [each for each in self._all() if not each.closed]
        yield from sorted(found, key=lambda each: each.started_at)

    def find(self, *, status: Status | None = None, limit: int = DEFAULT_LIST_LIMIT) -> Sequence[Execution]:
        found = [each for each in self._all() if status is None or each.status is status]
        return sorted(found, key=lambda each: each.started_at, reverse=True)[:limit]

    def write(self, record: Mapping[str, Any]) -> None:
        """Put a record there as another writer would, whatever was in its place."""
        with self._lock:
            self._records[record["ExecutionId"], record["PlanId"]] = deepcopy(dict(record))

    def close(self) -> None:
        """Nothing to let go of."""

    def _all(self) -> list[Execution]:
        with self._lock:
            records = deepcopy(list(self._records.values()))
        return [execution_from(record) for record in records]


def changed(read: Mapping[str, Any], record: Record) -> Record:
    """The attributes of the record that are not as they were read."""
    return {name: value for name, value in record.items() if name not in read or read[name] != value}

"""Executions in memory, for tests and for trials."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from longwatch.errors import AlreadyThere, VersionConflict
from longwatch.executions.model import Execution, ExecutionKey
from longwatch.executions.responses import is_recheck_due
from longwatch.executions.stores.base import (
    DEFAULT_LIST_LIMIT,
    ListPosition,
    has_run_of_id,
    list_position,
    pick_plan,
    require_unique,
)
from longwatch.executions.stores.records import (
    GUARDED,
    Record,
    changed_attributes,
    is_unreported,
    parse_record,
    to_record,
)
from longwatch.model.summary import Status
from longwatch.storage.change_signal import ChangeSignal, LocalSignal, OnChange


class MemoryExecutionStore:
    """An `ExecutionStore` in memory. Executions are values, so callers may share them."""

    generation = 0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executions: dict[ExecutionKey, Execution] = {}
        self._changes: dict[ExecutionKey, int] = {}  # the number of each one's last write, in their order
        self._last_change = 0
        self._signal = LocalSignal()

    def add(self, execution: Execution) -> Execution:
        record = deepcopy(to_record(replace(execution, version=1, stored=None)))
        with self._lock:
            if execution.key in self._executions:
                raise AlreadyThere(
                    f"Execution {execution.execution_id!r} of plan {execution.plan_id!r} already exists"
                )
            stored = self._store(record)
        self._signal.notify()
        return stored

    def get(self, execution_id: str, plan_id: str | None = None) -> Execution | None:
        with self._lock:
            if plan_id is not None:
                one = self._executions.get(ExecutionKey(plan_id, execution_id))
                if one is None or not has_run_of_id(one):
                    return one
            found = [each for key, each in self._executions.items() if key.execution_id == execution_id]
        return require_unique(found) if plan_id is None else pick_plan(found, plan_id)

    def update(self, execution: Execution) -> Execution:
        read = execution.stored or {}
        record = to_record(replace(execution, version=execution.version + 1))
        with self._lock:
            current = self._executions.get(execution.key)
            fields = current.stored if current else None
            if fields is None or any(fields.get(name) != read.get(name) for name in GUARDED):
                raise VersionConflict(execution.execution_id, execution.version)
            merged = {**fields, **changed_attributes(read, record)}
            for name in read.keys() - record.keys():
                merged.pop(name, None)
            stored = self._store(merged)
        self._signal.notify()
        return stored

    def open_executions(self) -> Iterator[Execution]:
        found = [each for each in self._all() if not each.closed]
        yield from sorted(found, key=lambda each: each.started_at)

    def unsettled(self, now_ms: int) -> Iterator[Execution]:
        yield from (each for each in self._all() if is_unreported(each) or is_recheck_due(each, now_ms))

    def find(
        self,
        *,
        status: Status | None = None,
        limit: int = DEFAULT_LIST_LIMIT,
        after: ListPosition | None = None,
    ) -> Sequence[Execution]:
        found = [each for each in self._all() if status is None or each.status is status]
        if after is not None:
            found = [each for each in found if list_position(each) < after]
        return sorted(found, key=list_position, reverse=True)[:limit]

    def last_change(self) -> int:
        return self._last_change

    def changes(self, after: int, *, limit: int) -> Sequence[tuple[int, Execution]]:
        with self._lock:
            found = [(number, key) for key, number in self._changes.items() if number > after][:limit]
            return [(number, self._executions[key]) for number, key in found]

    def subscribe(self, on_change: OnChange) -> ChangeSignal:
        return self._signal.subscribe(on_change)

    def write(self, record: Mapping[str, Any]) -> None:
        """Write a record as another program would, replacing what is stored."""
        with self._lock:
            self._store(deepcopy(dict(record)))
        self._signal.notify()

    def close(self) -> None:
        """Nothing to close."""

    def _store(self, record: Record) -> Execution:
        execution = parse_record(record)
        key = execution.key
        self._executions[key] = execution
        self._last_change += 1
        self._changes.pop(key, None)
        self._changes[key] = self._last_change
        return execution

    def _all(self) -> list[Execution]:
        with self._lock:
            return list(self._executions.values())

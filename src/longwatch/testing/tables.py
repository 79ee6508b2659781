"""A table in memory that behaves as DynamoDB documents, and one that fails on request."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any

from longwatch.errors import LongwatchError, Throttled, Unreachable
from longwatch.journal.dynamodb.table import ItemPage, KeyRange, PutCondition, Table
from longwatch.storage.dynamodb.errors import KEYS
from longwatch.storage.dynamodb.values import AttributeMap, AttributeValue

TableFaultPlan = Callable[[], str]
"""The result of a call: "" succeeds, "before" fails without effect, "after" takes effect and fails."""


@dataclass
class SimulatedTable:
    """A `Table` in memory. `page_items` replaces DynamoDB's page limit of 1 MB."""

    layout: str
    page_items: int = 1_000
    calls: list[str] = field(default_factory=list)
    items_read: int = 0

    def __post_init__(self) -> None:
        (self._partition, _), (self._sort, _) = KEYS[self.layout]
        self._partitions: dict[str, _Partition] = {}
        self._lock = threading.Lock()

    def put(self, item: AttributeMap, condition: PutCondition) -> AttributeMap | None:
        with self._lock:
            self.calls.append("put")
            partition = self._partitions.setdefault(item[self._partition]["S"], _Partition())
            key = _sort(item[self._sort])
            old = partition.items.get(key)
            if not self._holds(condition, old):
                return old or {}
            partition.put(key, item)
            return None

    def overwrite(self, item: AttributeMap) -> None:
        with self._lock:
            self.calls.append("overwrite")
            partition = self._partitions.setdefault(item[self._partition]["S"], _Partition())
            partition.put(_sort(item[self._sort]), item)

    def query(self, key_range: KeyRange) -> ItemPage:
        with self._lock:
            self.calls.append("query")
            low, high = _sort(key_range.low), _sort(key_range.high)
            if low > high:
                raise ValueError("BETWEEN wants the lower bound first")
            partition = self._partitions.get(key_range.partition["S"], _EMPTY)
            most = min(self.page_items, key_range.limit or self.page_items)
            start = None if key_range.start is None else _sort(key_range.start[self._sort])
            keys = partition.between(low, high, start, backward=key_range.backward, most=most)
            page = [partition.items[key] for key in keys]
            self.items_read += len(page)
            # Like DynamoDB, a full page has a next key even if no item follows.
            return ItemPage(page, self._key(page[-1]) if len(page) == most else None)

    def delete(self, keys: Sequence[AttributeMap]) -> None:
        with self._lock:
            self.calls.append("delete")
            for key in keys:
                partition = self._partitions.get(key[self._partition]["S"], _EMPTY)
                partition.remove(_sort(key[self._sort]))

    def scan(self, *, names: Mapping[str, str], projection: str, start: AttributeMap | None) -> ItemPage:
        with self._lock:
            self.calls.append("scan")
            items = self.items
            begin = 0 if start is None else 1 + [self._key(item) for item in items].index(start)
            page = items[begin : begin + self.page_items]
            selected = {names[path.split(".")[0]] for path in projection.split(", ")}
            projected = [{name: value for name, value in item.items() if name in selected} for item in page]
            return ItemPage(projected, self._key(page[-1]) if begin + len(page) < len(items) else None)

    def close(self) -> None:
        """Nothing to close."""

    @property
    def items(self) -> list[AttributeMap]:
        """All items of the table."""
        return [item for partition in self._partitions.values() for item in partition.items.values()]

    def _key(self, item: AttributeMap) -> AttributeMap:
        return {name: item[name] for name in (self._partition, self._sort)}

    def _holds(self, condition: PutCondition, old: AttributeMap | None) -> bool:
        if condition.expression == f"attribute_not_exists({self._partition})":
            return old is None
        if condition.expression == "#revision = :revision":
            return old is not None and old.get(condition.names["#revision"]) == condition.values[":revision"]
        raise ValueError(f"this condition is not simulated: {condition.expression}")


class _Partition:
    """The items of one partition, and their sort keys in order."""

    def __init__(self) -> None:
        self.items: dict[Any, AttributeMap] = {}
        self._keys: list[Any] = []  # all texts or all numbers

    def put(self, key: Any, item: AttributeMap) -> None:
        if key not in self.items:
            insort(self._keys, key)
        self.items[key] = item

    def remove(self, key: Any) -> None:
        if self.items.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]

    def between(self, low: Any, high: Any, start: Any, *, backward: bool, most: int) -> list[Any]:
        begin, end = bisect_left(self._keys, low), bisect_right(self._keys, high)
        if backward:
            end = end if start is None else min(end, bisect_left(self._keys, start))
            return self._keys[max(begin, end - most) : end][::-1]
        begin = begin if start is None else max(begin, bisect_right(self._keys, start))
        return self._keys[begin : min(end, begin + most)]


_EMPTY = _Partition()


def _sort(value: AttributeValue) -> Any:
    return Decimal(value["N"]) if "N" in value else str(value["S"])


@dataclass
class FailingTable:
    """A table whose puts and queries fail according to plans."""

    table: Table
    plan: TableFaultPlan  # of puts
    query_plan: TableFaultPlan = lambda: ""

    def put(self, item: AttributeMap, condition: PutCondition) -> AttributeMap | None:
        failure = self.plan()
        if failure == "before":
            raise throttled()
        response = self.table.put(item, condition)
        if failure == "after":
            raise lost_response()
        return response

    def overwrite(self, item: AttributeMap) -> None:
        failure = self.plan()
        if failure == "before":
            raise throttled()
        self.table.overwrite(item)
        if failure == "after":
            raise lost_response()

    def query(self, key_range: KeyRange) -> ItemPage:
        failure = self.query_plan()
        if failure == "before":
            raise throttled()
        response = self.table.query(key_range)
        if failure == "after":
            raise lost_response()
        return response

    def delete(self, keys: Sequence[AttributeMap]) -> None:
        failure = self.plan()
        if failure == "before":
            raise throttled()
        self.table.delete(keys)
        if failure == "after":
            raise lost_response()

    def scan(self, *, names: Mapping[str, str], projection: str, start: AttributeMap | None) -> ItemPage:
        return self.table.scan(names=names, projection=projection, start=start)

    def close(self) -> None:
        self.table.close()


def throttled() -> LongwatchError:
    """The error of a throttled call without effect."""
    return Throttled("throttled by the test")


def lost_response() -> LongwatchError:
    """The error of a call that took effect and whose response was lost."""
    return Unreachable("no response in time, by the test")


def failing_at(number: int, failure: str) -> TableFaultPlan:
    """A plan that fails only this call, counted from 1."""
    lock, calls = threading.Lock(), [0]

    def plan() -> str:
        with lock:
            calls[0] += 1
            return failure if calls[0] == number else ""

    return plan


def failing_by_chance(seed: int, share: float) -> TableFaultPlan:
    """A plan that fails about this share of all calls, before or after their effect."""
    random, lock = Random(seed), threading.Lock()

    def plan() -> str:
        with lock:
            return random.choice(["before", "after"]) if random.random() < share else ""

    return plan

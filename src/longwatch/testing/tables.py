"""A table in memory that answers as DynamoDB documents it: for many examples, and for failing at will."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any

from longwatch.errors import LongwatchError, Throttled, Unreachable
from longwatch.journal.dynamodb.table import ItemPage, KeyRange, PutCondition, Table
from longwatch.storage.dynamodb.errors import KEYS
from longwatch.storage.dynamodb.values import AttributeMap, AttributeValue

TableFaultPlan = Callable[[], str]
"""What becomes of a call: "" is answered, "before" does nothing and fails, "after" is done and fails."""


@dataclass
class SimulatedTable:
    """A `Table` without an engine. `page_items` stands for the 1 MB at which a page ends."""

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

    def query(self, wanted: KeyRange) -> ItemPage:
        with self._lock:
            self.calls.append("query")
            low, high = _sort(wanted.low), _sort(wanted.high)
            if low > high:
                raise ValueError("BETWEEN wants the lower bound first")
            partition = self._partitions.get(wanted.partition["S"], _EMPTY)
            most = min(self.page_items, wanted.limit or self.page_items)
            start = None if wanted.start is None else _sort(wanted.start[self._sort])
            keys = partition.between(low, high, start, backward=wanted.backward, most=most)
            page = [partition.items[key] for key in keys]
            self.items_read += len(page)
            # As DynamoDB does, go on after a page that is just full, even if nothing is left.
            return ItemPage(page, self._key(page[-1]) if len(page) == most else None)

    def scan(self, *, names: Mapping[str, str], projection: str, start: AttributeMap | None) -> ItemPage:
        with self._lock:
            self.calls.append("scan")
            items = self.items
            begin = 0 if start is None else 1 + [self._key(item) for item in items].index(start)
            page = items[begin : begin + self.page_items]
            kept = {names[path.split(".")[0]] for path in projection.split(", ")}
            shown = [{name: value for name, value in item.items() if name in kept} for item in page]
            return ItemPage(shown, self._key(page[-1]) if begin + len(page) < len(items) else None)

    def close(self) -> None:
        """Nothing to let go of."""

    @property
    def items(self) -> list[AttributeMap]:
        """Everything in the table."""
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
    """A table whose puts and queries fail as the plans say for each of them."""

    table: Table
    plan: TableFaultPlan  # of puts
    query_plan: TableFaultPlan = lambda: ""

    def put(self, item: AttributeMap, condition: PutCondition) -> AttributeMap | None:
        failure = self.plan()
        if failure == "before":
            raise throttled()
        answer = self.table.put(item, condition)
        if failure == "after":
            raise no_answer()
        return answer

    def overwrite(self, item: AttributeMap) -> None:
        failure = self.plan()
        if failure == "before":
            raise throttled()
        self.table.overwrite(item)
        if failure == "after":
            raise no_answer()

    def query(self, wanted: KeyRange) -> ItemPage:
        failure = self.query_plan()
        if failure == "before":
            raise throttled()
        answer = self.table.query(wanted)
        if failure == "after":
            raise no_answer()
        return answer

    def scan(self, *, names: Mapping[str, str], projection: str, start: AttributeMap | None) -> ItemPage:
        return self.table.scan(names=names, projection=projection, start=start)

    def close(self) -> None:
        self.table.close()


def throttled() -> LongwatchError:
    """The store asked for fewer requests, and did nothing."""
    return Throttled("asked for fewer requests, by the test")


def no_answer() -> LongwatchError:
    """The store did what it was asked for, and nobody heard of it."""
    return Unreachable("no answer in time, by the test")


def failing_at(number: int, failure: str) -> TableFaultPlan:
    """A plan that lets only this one call fail, counted from 1."""
    lock, calls = threading.Lock(), [0]

    def plan() -> str:
        with lock:
            calls[0] += 1
            return failure if calls[0] == number else ""

    return plan


def failing_by_chance(seed: int, share: float) -> TableFaultPlan:
    """A plan that lets about this share of all calls fail, before or after they were done."""
    random, lock = Random(seed), threading.Lock()

    def plan() -> str:
        with lock:
            return random.choice(["before", "after"]) if random.random() < share else ""

    return plan

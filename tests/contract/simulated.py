"""A table in memory that answers as DynamoDB documents it: for many examples, and for failing at will."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random

from longwatch.errors import LongwatchError, Throttled, Unreachable
from longwatch.journal.dynamodb.client import Answer, Condition, Range, Table
from longwatch.journal.dynamodb.failures import KEYS
from longwatch.journal.dynamodb.values import AttributeValue, Item

Sort = str | Decimal


@dataclass
class SimulatedTable:
    """A `Table` without an engine. `page_items` stands for the 1 MB at which a page ends."""

    layout: str
    page_items: int = 1_000
    calls: list[str] = field(default_factory=list)
    items_read: int = 0

    def __post_init__(self) -> None:
        (self._partition, _), (self._sort, _) = KEYS[self.layout]
        self._partitions: dict[str, dict[Sort, Item]] = {}
        self._lock = threading.Lock()

    def put(self, item: Item, condition: Condition) -> Item | None:
        with self._lock:
            self.calls.append("put")
            partition = self._partitions.setdefault(item[self._partition]["S"], {})
            key = _sort(item[self._sort])
            old = partition.get(key)
            if not self._holds(condition, old):
                return old or {}
            partition[key] = item
            return None

    def query(self, wanted: Range) -> Answer:
        with self._lock:
            self.calls.append("query")
            low, high = _sort(wanted.low), _sort(wanted.high)
            if low > high:  # type: ignore[operator]
                raise ValueError("BETWEEN wants the lower bound first")
            partition = self._partitions.get(wanted.partition["S"], {})
            keys = sorted(key for key in partition if low <= key <= high)  # type: ignore[operator]
            if wanted.backward:
                keys.reverse()
            if wanted.start is not None:
                start = _sort(wanted.start[self._sort])
                keys = [key for key in keys if (key < start if wanted.backward else key > start)]  # type: ignore[operator]
            most = min(self.page_items, wanted.limit or self.page_items)
            page = [partition[key] for key in keys[:most]]
            self.items_read += len(page)
            # As DynamoDB does, go on after a page that is just full, even if nothing is left.
            return Answer(page, self._key(page[-1]) if len(page) == most else None)

    def scan(self, *, names: Mapping[str, str], projection: str, start: Item | None) -> Answer:
        with self._lock:
            self.calls.append("scan")
            items = [partition[key] for partition in self._partitions.values() for key in partition]
            begin = 0 if start is None else 1 + [self._key(item) for item in items].index(start)
            page = items[begin : begin + self.page_items]
            kept = {names[path.split(".")[0]] for path in projection.split(", ")}
            shown = [{name: value for name, value in item.items() if name in kept} for item in page]
            return Answer(shown, self._key(page[-1]) if begin + len(page) < len(items) else None)

    def close(self) -> None:
        """Nothing to let go of."""

    @property
    def items(self) -> list[Item]:
        """Everything in the table."""
        return [item for partition in self._partitions.values() for item in partition.values()]

    def _key(self, item: Item) -> Item:
        return {name: item[name] for name in (self._partition, self._sort)}

    def _holds(self, condition: Condition, old: Item | None) -> bool:
        if condition.expression == f"attribute_not_exists({self._partition})":
            return old is None
        if condition.expression == "#revision = :revision":
            return old is not None and old.get(condition.names["#revision"]) == condition.values[":revision"]
        raise ValueError(f"this condition is not simulated: {condition.expression}")


def _sort(value: AttributeValue) -> Sort:
    return Decimal(value["N"]) if "N" in value else str(value["S"])


@dataclass
class FailingTable:
    """A table that fails as `plan` says for each put: not at all, before it, or after it was done."""

    table: Table
    plan: Callable[[], str]  # "", "before" or "after"

    def put(self, item: Item, condition: Condition) -> Item | None:
        failure = self.plan()
        if failure == "before":
            raise Throttled("asked for fewer requests, by the test")
        answer = self.table.put(item, condition)
        if failure == "after":
            raise _no_answer()
        return answer

    def query(self, wanted: Range) -> Answer:
        return self.table.query(wanted)

    def scan(self, *, names: Mapping[str, str], projection: str, start: Item | None) -> Answer:
        return self.table.scan(names=names, projection=projection, start=start)

    def close(self) -> None:
        self.table.close()


def _no_answer() -> LongwatchError:
    return Unreachable("no answer in time, by the test")


def failing_at(number: int, failure: str) -> Callable[[], str]:
    """A plan that lets only this one put fail, counted from 1."""
    lock, calls = threading.Lock(), [0]

    def plan() -> str:
        with lock:
            calls[0] += 1
            return failure if calls[0] == number else ""

    return plan


def failing_by_chance(seed: int, share: float) -> Callable[[], str]:
    """A plan that lets about this share of all puts fail, before or after they were done."""
    random, lock = Random(seed), threading.Lock()

    def plan() -> str:
        with lock:
            return random.choice(["before", "after"]) if random.random() < share else ""

    return plan

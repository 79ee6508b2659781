"""Finding a hundred open executions among more and more closed ones: it costs the same."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.executions.fixtures import execution
from benchmarks.harness import Goal, Result, interleaved, microseconds_each

from longwatch.executions.stores.dynamodb import INDEX, DynamoExecutionStore
from longwatch.executions.stores.records import to_record
from longwatch.executions.stores.sqlite import INSERT, SqliteExecutionStore
from longwatch.storage.dynamodb.values import to_attribute
from longwatch.storage.urls import TableAddress

OPEN = 100
BATCH = 25  # items that DynamoDB takes at once
KEY = (("ExecutionId", "HASH"), ("PlanId", "RANGE"))
STATUS_KEY = (("Status", "HASH"), ("StartTime", "RANGE"))
HEADINGS = ("closed", "µs", "× with the fewest")


def measure(*, quick: bool) -> list[Result]:
    """A table for each store that is here."""
    found = [_sqlite(quick=quick)]
    dynamodb = _dynamodb(quick=quick)
    return found if dynamodb is None else [*found, dynamodb]


def _sqlite(*, quick: bool) -> Result:
    sizes = (1_000, 10_000) if quick else (1_000, 10_000, 100_000)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        cases: dict[str, Callable[[], float]] = {}
        for size in sizes:
            path = Path(folder) / f"{size}.db"
            store = SqliteExecutionStore(path)
            stack.callback(store.close)
            list(store.open_executions())  # makes the table
            _fill_sqlite(path, size)
            cases[f"{size:,}"] = _timed(store, 5 if quick else 20)
        medians = interleaved(cases, rounds=3 if quick else 7)
    return Result(
        f"Finding {OPEN} open executions in SQLite",
        HEADINGS,
        _rows(medians),
        [Goal(f"time among {sizes[-1]:,} closed / among {sizes[0]:,}", _growth(medians), 1.5)],
    )


def _dynamodb(*, quick: bool) -> Result | None:
    sizes = (1_000, 3_000) if quick else (1_000, 100_000)
    with ExitStack() as stack:
        endpoint = stack.enter_context(_engine())
        if endpoint is None:
            return None
        cases: dict[str, Callable[[], float]] = {}
        units: dict[str, float] = {}
        for size in sizes:
            store = _table(endpoint, size)
            stack.callback(store.close)
            units[f"{size:,}"] = _consumed(store)
            cases[f"{size:,}"] = _timed(store, 5)
        medians = interleaved(cases, rounds=3 if quick else 7)
    rows = [(*row, units[str(row[0])]) for row in _rows(medians)]
    first, *_, last = units.values()
    return Result(
        f"Finding {OPEN} open executions by the index of DynamoDB Local",
        (*HEADINGS, "read units"),
        rows,
        [
            Goal(f"read units among {sizes[-1]:,} closed / among {sizes[0]:,}", last / first, 1.0),
            Goal(f"time among {sizes[-1]:,} closed / among {sizes[0]:,}", _growth(medians), 2.0),
        ],
    )


def _timed(store: Any, count: int) -> Callable[[], float]:
    def find() -> None:
        assert sum(1 for _ in store.open_executions()) == OPEN

    return lambda: microseconds_each(find, count)


def _rows(medians: dict[str, float]) -> list[tuple[object, ...]]:
    fewest = next(iter(medians.values()))
    return [(size, value, value / fewest) for size, value in medians.items()]


def _growth(medians: dict[str, float]) -> float:
    first, *_, last = medians.values()
    return last / first


def _records(closed: int) -> Iterator[dict[str, Any]]:
    for number in range(closed):
        yield to_record(execution(number, closed=True))
    for number in range(OPEN):
        yield to_record(execution(number, closed=False))


def _fill_sqlite(path: Path, closed: int) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.executemany(
            INSERT,
            (
                (
                    record["ExecutionId"],
                    record["PlanId"],
                    record["Status"],
                    record["StartTime"] * 1000,
                    json.dumps(record),
                )
                for record in _records(closed)
            ),
        )
    connection.close()


@contextmanager
def _engine() -> Iterator[str | None]:
    """The address of a DynamoDB Local; None where it can not be had."""
    from tests.engines.start import DynamoDbLocal, EngineFailed, EngineMissing

    engine = DynamoDbLocal()
    try:
        engine.start()
    except (EngineMissing, EngineFailed) as error:
        print(f"DynamoDB is left out: {error}", file=sys.stderr)
        yield None
        return
    try:
        yield engine.url
    finally:
        engine.stop()


def _table(endpoint: str, closed: int) -> DynamoExecutionStore:
    at = TableAddress(table=f"bench-{secrets.token_hex(4)}", region="eu-west-1", endpoint=endpoint)
    os.environ.update(AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench")
    store = DynamoExecutionStore(at)
    client: Any = store.connect()
    client.create_table(
        TableName=at.table,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": "N" if name == "StartTime" else "S"}
            for name, _ in (*KEY, *STATUS_KEY)
        ],
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in KEY],
        GlobalSecondaryIndexes=[
            {
                "IndexName": INDEX,
                "KeySchema": [{"AttributeName": name, "KeyType": kind} for name, kind in STATUS_KEY],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
    )
    puts = [
        {"PutRequest": {"Item": {name: to_attribute(value) for name, value in record.items()}}}
        for record in _records(closed)
    ]
    for begin in range(0, len(puts), BATCH):
        client.batch_write_item(RequestItems={at.table: puts[begin : begin + BATCH]})
    return store


class _CountingStore(DynamoExecutionStore):
    """Counts the read units that its searches take, all pages together."""

    units = 0.0

    def _query_page(self, request: dict[str, Any]) -> Mapping[str, Any]:
        answer = super()._query_page({**request, "ReturnConsumedCapacity": "TOTAL"})
        self.units += answer["ConsumedCapacity"]["CapacityUnits"]
        return answer


def _consumed(store: DynamoExecutionStore) -> float:
    counting = _CountingStore(store.address)
    assert sum(1 for _ in counting.open_executions()) == OPEN
    counting.close()
    return counting.units

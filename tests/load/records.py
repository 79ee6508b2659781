"""Fills a backend with executions that have ended long ago, and with some that are open."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from longwatch.executions.model import Evidence, Execution, ItemState, Job, JobState, Stage, Verdict, WorkItem
from longwatch.executions.stores.dynamodb import DynamoExecutionStore
from longwatch.executions.stores.records import Record, to_record
from longwatch.executions.stores.sqlite import SqliteExecutionStore
from longwatch.model.run import Status
from longwatch.storage.dynamodb.values import to_attribute

SERVERS = 10  # in each of two waves: a record of 3 KB. Those that have ended are small, to be filled in time
ENDS = (Status.SUCCEEDED, Status.PARTIAL, Status.FAILED, Status.CANCELLED)
BATCH = 25  # the most that BatchWriteItem takes
WRITERS = 4


def records(count: int, *, now_ms: int, is_open: bool) -> Iterator[Record]:
    """So many records, a second apart, the youngest of them now."""
    kinds = [_open(now_ms)] if is_open else [_ended(now_ms, status) for status in ENDS]
    name = "open" if is_open else "closed"
    for number in range(count):
        yield {
            **kinds[number % len(kinds)],
            "ExecutionId": f"{name}-{number:06}",
            "StartTime": now_ms // 1000 - (count - number),
        }


def fill(store: Any, found: Iterator[Record]) -> None:
    """Put the records where the store keeps them, as fast as the engine takes them."""
    if isinstance(store, SqliteExecutionStore):
        _fill_file(store, found)
    else:
        _fill_table(store, found)


def _open(now_ms: int) -> Record:
    return to_record(_execution(now_ms, ItemState.PENDING, servers=SERVERS))


def _ended(now_ms: int, status: Status) -> Record:
    verdict = Verdict(status, now_ms, (Evidence("drs:DescribeJobs", now_ms),))
    return to_record(replace(_execution(now_ms, ItemState.DONE, servers=1), verdict=verdict, closed=True))


def _execution(now_ms: int, state: ItemState, *, servers: int) -> Execution:
    waves = tuple(
        Stage(
            f"wave {number}",
            (
                Job(
                    f"drsjob-{number:017}",
                    JobState.STARTED,
                    tuple(WorkItem(f"s-{n:017}", state, since=now_ms) for n in range(servers)),
                    region="eu-west-1",
                    since=now_ms,
                ),
            ),
        )
        for number in (1, 2)
    )
    return Execution(
        execution_id="x", plan_id="p-1", started_at=now_ms, stages=waves, total_stages=2, version=1
    )


def _fill_file(store: SqliteExecutionStore, found: Iterator[Record]) -> None:
    store.find(limit=1)  # makes the file and its tables
    connection = sqlite3.connect(store.path)
    with connection:
        connection.executemany(
            "INSERT INTO executions (execution_id, plan_id, status, started_at, record) VALUES (?,?,?,?,?)",
            (
                (
                    each["ExecutionId"],
                    each["PlanId"],
                    each["Status"],
                    each["StartTime"] * 1000,
                    json.dumps(each),
                )
                for each in found
            ),
        )
    connection.close()


def _fill_table(store: DynamoExecutionStore, found: Iterator[Record]) -> None:
    client: Any = DynamoExecutionStore(store.address).connect()  # its calls are not counted

    translated: dict[int, Any] = {}  # records of a kind share their waves and verdicts

    def attribute(value: object) -> Any:
        if not isinstance(value, (list, dict)):
            return to_attribute(value)
        if id(value) not in translated:
            translated[id(value)] = to_attribute(value)
        return translated[id(value)]

    def write(some: Sequence[Record]) -> None:
        puts = [
            {"PutRequest": {"Item": {name: attribute(value) for name, value in each.items()}}}
            for each in some
        ]
        while puts:
            response = client.batch_write_item(RequestItems={store.address.table: puts})
            puts = response["UnprocessedItems"].get(store.address.table, [])

    with ThreadPoolExecutor(WRITERS) as writers:
        list(writers.map(write, _batches(found)))
    client.close()


def _batches(found: Iterator[Record]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    for each in found:
        batch.append(each)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch

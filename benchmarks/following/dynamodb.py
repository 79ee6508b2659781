"""Polls of DynamoDB runs for one second of CPU: the hub beside a bare loop of boto3 queries.

Both query a server that always returns the same response, so the measurement is almost all client. While
nothing happens, a follower's poll finds the last events of the run again; here one, and ten. The query path
is behind one seam, `Table` in longwatch/journal/dynamodb/client.py: the third row has a table there that
answers out of memory, which is what the product would cost with a client that is free.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import Any

from benchmarks.following.canned import item, server
from benchmarks.following.followers import FIRST_MS, run_name
from benchmarks.following.subject import Commands, Subject
from benchmarks.harness import Goal, Result

from longwatch.following.hub import Hub
from longwatch.following.items import CaughtUp
from longwatch.journal.dynamodb.journal import DynamoJournal
from longwatch.journal.dynamodb.table import BotoTable, ItemPage, KeyRange, PutCondition, Table
from longwatch.storage.dynamodb.values import AttributeMap
from longwatch.storage.urls import TableAddress

RUNS = 150  # polled twice a second each: some way below what one core can do
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}


def measure(*, quick: bool) -> list[Result]:
    """A table for each size of the answer."""
    return [_measured(items, quick=quick) for items in (1, 10)]


def _measured(items: int, *, quick: bool) -> Result:
    seconds, rounds = (2.0, 3) if quick else (4.0, 7)
    with ExitStack() as stack:
        canned = stack.enter_context(Subject(server, items))
        endpoint = f"http://127.0.0.1:{canned.call('port')}"
        subjects = {
            "bare boto3 query loop": stack.enter_context(Subject(bare_loop, endpoint)),
            f"longwatch, {RUNS} followed runs": stack.enter_context(Subject(through_the_hub, endpoint)),
            f"longwatch, {RUNS} followed runs, a free client": stack.enter_context(
                Subject(through_the_hub, endpoint, free_items=items)
            ),
        }
        for subject in subjects.values():
            subject.pause()
        rates: dict[str, list[float]] = {name: [] for name in subjects}
        for _ in range(rounds):
            for name, subject in subjects.items():
                rates[name].append(_polls_per_cpu_second(subject, seconds))
    rate = {name: statistics.median(values) for name, values in rates.items()}
    bare, ours, _ = rate.values()
    return Result(
        f"Polls of DynamoDB runs, {items} known event{'s' if items > 1 else ''} in the answer",
        ("case", "polls a CPU second", "CPU µs/poll", "× bare boto3"),
        [(name, value, 1e6 / value, value / bare) for name, value in rate.items()],
        [Goal("longwatch / bare boto3 loop, polls a CPU second", ours / bare, 0.8, at_most=False)],
    )


def _polls_per_cpu_second(subject: Subject, seconds: float) -> float:
    with subject.running():
        time.sleep(1)  # the polls that fell due while it stood still
        cpu, polls = subject.cpu_seconds(), subject.call("polls")
        time.sleep(seconds)
        return float((subject.call("polls") - polls) / (subject.cpu_seconds() - cpu))


class Counting:
    """Counts the queries that go through the seam."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.put, self.overwrite = table.put, table.overwrite
        self.scan, self.close, self.delete = table.scan, table.close, table.delete
        self.polls = 0
        self._lock = threading.Lock()

    def query(self, wanted: KeyRange) -> ItemPage:
        with self._lock:
            self.polls += 1
        return self._table.query(wanted)


class FreeTable:
    """Has the server's answer at hand."""

    def __init__(self, items: int) -> None:
        self._answer = ItemPage([item(number) for number in range(1, items + 1)])

    def query(self, wanted: KeyRange) -> ItemPage:
        return self._answer

    def put(self, item: AttributeMap, condition: PutCondition) -> AttributeMap | None:
        raise NotImplementedError("it is only read")

    def overwrite(self, item: AttributeMap) -> None:
        raise NotImplementedError("it is only read")

    def delete(self, keys: Sequence[AttributeMap]) -> None:
        raise NotImplementedError("it is only read")

    def scan(self, *, names: Mapping[str, str], projection: str, start: AttributeMap | None) -> ItemPage:
        raise NotImplementedError("it is only polled")

    def close(self) -> None:
        """Nothing to release."""


@asynccontextmanager
async def through_the_hub(endpoint: str, *, free_items: int | None = None) -> AsyncIterator[Commands]:
    """A follower for each run."""
    os.environ.update(CREDENTIALS)
    address = TableAddress(table="bench", region="eu-west-1", layout="workflow", endpoint=endpoint)
    table = Counting(BotoTable(address) if free_items is None else FreeTable(free_items))
    waiting = RUNS
    all_caught_up = asyncio.Event()

    async def follow(run_id: str) -> None:
        nonlocal waiting
        async for each in hub.follow(run_id):
            if isinstance(each, CaughtUp):
                waiting -= 1
                if not waiting:
                    all_caught_up.set()

    async with Hub(DynamoJournal(table, address), owns_journal=True) as hub:
        tasks = [asyncio.create_task(follow(run_name(number))) for number in range(RUNS)]
        await all_caught_up.wait()
        yield {"polls": lambda: table.polls}
    await asyncio.gather(*tasks)


@asynccontextmanager
async def bare_loop(endpoint: str) -> AsyncIterator[Commands]:
    """One thread, one connection, one query after the other."""
    os.environ.update(CREDENTIALS)
    address = TableAddress(table="bench", region="eu-west-1", layout="workflow", endpoint=endpoint)
    client: Any = BotoTable(address).connect()
    polls = 0

    def loop() -> None:
        nonlocal polls
        while True:
            client.query(
                TableName="bench",
                KeyConditionExpression="#partition = :partition AND #sort BETWEEN :low AND :high",
                ExpressionAttributeNames={"#partition": "workflow_id", "#sort": "timestamp"},
                ExpressionAttributeValues={
                    ":partition": {"S": run_name(polls % RUNS)},
                    ":low": {"N": str(FIRST_MS)},
                    ":high": {"N": "9.9E125"},
                },
                ConsistentRead=True,
                ScanIndexForward=True,
                Limit=600,
            )
            polls += 1

    threading.Thread(target=loop, daemon=True).start()
    yield {"polls": lambda: polls}

"""A thousand open executions polled once: the embedded poller beside a task for each execution.

The DRS simulator runs in its own process, and the real client calls it over the wire. The bare tasks store
nothing; the others store leases, records and transitions in a SQLite file.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.executions.fixtures import START_MS, execution, job_id_of
from benchmarks.following.subject import Commands, Subject
from benchmarks.harness import Goal, Result

from longwatch.executions.poller import Poller
from longwatch.executions.sources.drs import DrsSource
from longwatch.executions.stores.sqlite import SqliteExecutionStore
from longwatch.executions.watcher import MOST_AT_ONCE, Watcher
from longwatch.journal.sqlite import SqliteJournal
from longwatch.testing.clock import FakeClock
from longwatch.testing.drs import DrsSimulator, drill

EXECUTIONS = 1_000
THREADS = 16  # of the tasks: boto3 blocks
NEXT_SECONDS = 46.0  # everything is due again
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}

Once = Callable[[], None]


def measure(*, quick: bool) -> list[Result]:
    """The table of calls and of the cost of polling all executions once."""
    count, rounds = (200, 3) if quick else (EXECUTIONS, 5)
    os.environ.update(CREDENTIALS)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        service = stack.enter_context(Subject(simulated, count))
        url = str(service.call("url"))
        pool = stack.enter_context(ThreadPoolExecutor(THREADS))
        cases = {
            "a task each, bare: stores nothing": _bare(url, count, pool),
            "a task each, with longwatch's poller": _task_each(url, count, pool, folder / "tasks.db", stack),
            "longwatch, embedded": _embedded(url, count, folder / "embedded.db", stack),
        }
        seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
        calls: dict[str, int] = {}
        for once in cases.values():  # the first poll finds everything new; later ones are typical
            once()
        for _ in range(rounds):
            for name, once in cases.items():
                before, cpu, wall = service.call("calls"), time.process_time(), time.perf_counter()
                once()
                spent = time.process_time() - cpu, time.perf_counter() - wall
                seconds[name].append(spent)
                calls[name] = service.call("calls") - before
    rows = [
        (
            name,
            calls[name],
            statistics.median(cpu for cpu, _ in seconds[name]) / count * 1e6,
            statistics.median(wall for _, wall in seconds[name]) / count * 1e6,
        )
        for name in cases
    ]
    bare, tasks, ours = rows
    return [
        Result(
            f"{count:,} open executions polled once",
            ("case", "calls", "CPU µs/execution", "wall µs/execution"),
            rows,
            [
                Goal("calls / a task for each", ours[1] / bare[1], 1 / min(count, MOST_AT_ONCE) + 0.005),
                Goal("CPU / a task for each with the same poller", ours[2] / tasks[2], 0.7),
                Goal("CPU, with everything stored / a bare task for each", ours[2] / bare[2], 2.0),
            ],
        )
    ]


@asynccontextmanager
async def simulated(count: int) -> AsyncIterator[Commands]:
    """A DRS service with this many jobs that never end."""
    with DrsSimulator(page=1000) as drs:
        for number in range(count):
            drs.play(drill("s-1", "s-2", "s-3", pending=1e9), job_id=job_id_of(number))
        yield {"url": lambda: drs.url, "calls": drs.calls.total}


def _client(url: str) -> Any:
    import boto3
    from botocore.config import Config

    return boto3.Session().client(
        "drs", region_name="eu-west-1", endpoint_url=url, config=Config(max_pool_connections=THREADS)
    )


def _bare(url: str, count: int, pool: ThreadPoolExecutor) -> Once:
    client = _client(url)

    def poll(number: int) -> None:
        response = client.describe_jobs(filters={"jobIDs": [job_id_of(number)]})
        assert response["items"]

    return lambda: asyncio.run(_all_at_once(pool, poll, count))


def _task_each(url: str, count: int, pool: ThreadPoolExecutor, path: Path, stack: ExitStack) -> Once:
    clock, _, poller = _open_poller(url, count, path, stack)

    def once() -> None:
        clock.advance(NEXT_SECONDS)
        asyncio.run(_all_at_once(pool, lambda number: poller.poll(f"open-{number}", "plan-1"), count))

    return once


def _embedded(url: str, count: int, path: Path, stack: ExitStack) -> Once:
    clock, store, poller = _open_poller(url, count, path, stack)
    watcher = Watcher(store, poller, clock=clock)

    def once() -> None:
        clock.advance(NEXT_SECONDS)
        assert len(watcher.poll_due().polled) == count

    return once


def _open_poller(
    url: str, count: int, path: Path, stack: ExitStack
) -> tuple[FakeClock, SqliteExecutionStore, Poller]:
    clock = FakeClock(START_MS + count)
    store, journal = SqliteExecutionStore(path, clock=clock), SqliteJournal(path, clock=clock)
    client = _client(url)
    source = DrsSource(lambda region, account: client, clock=clock)
    for each in (store.close, journal.close):
        stack.callback(each)
    for number in range(count):
        store.add(execution(number, closed=False))
    return clock, store, Poller(store, journal, {"drs": source}, clock=clock)


async def _all_at_once(pool: ThreadPoolExecutor, poll: Callable[[int], object], count: int) -> None:
    loop = asyncio.get_running_loop()

    async def task(number: int) -> None:
        await loop.run_in_executor(pool, poll, number)

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(task(number))

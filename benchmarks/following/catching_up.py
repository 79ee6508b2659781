"""A follower that begins with a long history, beside a bare loop of queries that decodes what it reads."""

from __future__ import annotations

import asyncio
import functools
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.following.followers import Writer, run_name
from benchmarks.harness import Goal, Result

import longwatch
from longwatch.following.items import CaughtUp, Followed
from longwatch.journal.base import DEFAULT_READ_LIMIT
from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.sqlite.queries import READ

EVENTS = 100_000
PAYLOAD_COLUMN, POSITION_COLUMN = 5, -1


def measure(*, quick: bool) -> list[Result]:
    """The table of readers."""
    events, rounds = (20_000, 3) if quick else (EVENTS, 7)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        with Writer(path, 1, events_each=events) as writer:
            cases: dict[str, Callable[[], int]] = {
                f"raw loop, {DEFAULT_READ_LIMIT} rows a query, payloads decoded": functools.partial(
                    _raw, path
                ),
                "longwatch.follow, payloads decoded": functools.partial(_followed, writer.journal),
            }
            wall: dict[str, list[float]] = {name: [] for name in cases}
            cpu: dict[str, list[float]] = {name: [] for name in cases}
            for _ in range(rounds):
                for name, case in cases.items():
                    began, used = time.perf_counter(), time.process_time()
                    if case() != events:
                        raise RuntimeError(f"{name} has not read everything")
                    wall[name].append(events / (time.perf_counter() - began))
                    cpu[name].append(events / (time.process_time() - used))
    rate = {name: (statistics.median(wall[name]), statistics.median(cpu[name])) for name in cases}
    raw, ours = rate.values()
    return [
        Result(
            f"Catching up over {events:,} events",
            ("case", "events/s", "events a CPU second", "× raw"),
            [(name, *values, values[0] / raw[0]) for name, values in rate.items()],
            [
                Goal("longwatch / raw loop, events/s", ours[0] / raw[0], 0.5, at_most=False),
                Goal("longwatch / raw loop, events a CPU second", ours[1] / raw[1], 0.5, at_most=False),
            ],
        )
    ]


def _raw(path: Path) -> int:
    connection = sqlite3.connect(path, isolation_level=None)
    position = decoded = 0
    try:
        run = run_name(0)
        while rows := connection.execute(READ, (run, position, 0, run, DEFAULT_READ_LIMIT)).fetchall():
            for row in rows:
                decoded += "operation" in json.loads(row[PAYLOAD_COLUMN])
            position = rows[-1][POSITION_COLUMN]
    finally:
        connection.close()
    return decoded


def _followed(journal: SqliteJournal) -> int:
    async def follow() -> int:
        decoded = 0
        async for item in longwatch.follow(run_name(0), journal=journal):
            if isinstance(item, Followed):
                decoded += "operation" in item.event.payload
            elif isinstance(item, CaughtUp):
                break
        return decoded

    return asyncio.run(follow())

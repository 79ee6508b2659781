"""Durable events a second: the recorder into SQLite, beside raw sqlite3 and eventsourcing's recorder."""

from __future__ import annotations

import functools
import json
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from benchmarks.harness import Goal, Result, interleaved
from eventsourcing.persistence import StoredEvent
from eventsourcing.sqlite import SQLiteAggregateRecorder, SQLiteDatastore

from longwatch.recording.recorder import Recorder
from longwatch.settings import load_settings

PAYLOAD: dict[str, object] = {f"field_{index}": "some text that says what happened" for index in range(10)}
PAYLOAD_TEXT = json.dumps(PAYLOAD)
GROUP = 100


def measure(*, quick: bool) -> list[Result]:
    """The table of durable writers."""
    events, rounds = (5_000, 3) if quick else (20_000, 5)
    with tempfile.TemporaryDirectory(dir=os.environ.get("LONGWATCH_BENCH_DIR")) as name:
        folder = Path(name)
        cases: dict[str, Callable[[], float]] = {
            "LIMIT file write + fdatasync, 100 events": functools.partial(_file, folder, events),
            "raw sqlite3 WAL FULL, 100 a transaction": functools.partial(_sqlite, folder, events),
            "longwatch recorder, SQLite FULL, group commit": functools.partial(_longwatch, folder, events),
            "eventsourcing recorder, 1 an insert": functools.partial(_eventsourcing, folder, events // 20, 1),
            "eventsourcing recorder, 100 an insert": functools.partial(_eventsourcing, folder, events, GROUP),
        }
        rates = interleaved(cases, rounds=rounds)
    _, raw, ours, one, _ = rates.values()
    rows = [(case, rate, rate / raw) for case, rate in rates.items()]
    return [
        Result(
            f"Durable events a second, {len(PAYLOAD_TEXT)} B payload",
            ("case", "events/s", "× raw sqlite3"),
            rows,
            [
                Goal("longwatch / raw sqlite3 at 100 a transaction", ours / raw, 0.3, at_most=False),
                Goal("longwatch / eventsourcing at one an insert", ours / one, 10, at_most=False),
            ],
        )
    ]


def _file(folder: Path, events: int) -> float:
    line = (PAYLOAD_TEXT + "\n").encode()
    with (folder / f"{uuid4()}.log").open("wb", buffering=0) as file:
        started = time.perf_counter()
        for _ in range(events // GROUP):
            file.write(line * GROUP)
            os.fdatasync(file.fileno())
        return events / (time.perf_counter() - started)


def _sqlite(folder: Path, events: int) -> float:
    connection = sqlite3.connect(folder / f"{uuid4()}.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE events (id INTEGER PRIMARY KEY, run TEXT, seq INTEGER, body TEXT, UNIQUE (run, seq))"
    )
    started = time.perf_counter()
    for first in range(0, events, GROUP):
        rows = [("wf-1", number, json.dumps(PAYLOAD)) for number in range(first, first + GROUP)]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO events (run, seq, body) VALUES (?, ?, ?)", rows)
        connection.execute("COMMIT")
    rate = events / (time.perf_counter() - started)
    connection.close()
    return rate


def _longwatch(folder: Path, events: int) -> float:
    url = f"sqlite:///{folder / f'{uuid4()}.db'}"
    recorder = Recorder(url, settings=load_settings(environment={"LONGWATCH_DATA": str(folder)}))
    recorder.record("wf-0", "warm_up", {})
    recorder.flush()
    started = time.perf_counter()
    for _ in range(events):
        recorder.record("wf-1", "step", PAYLOAD, agent_name="bench")
    durable = recorder.flush(120)
    rate = events / (time.perf_counter() - started)
    stats = recorder.stats()
    recorder.close()
    if not durable or stats.dropped:
        raise RuntimeError(f"not everything was stored: {stats}")
    return rate


def _eventsourcing(folder: Path, events: int, group: int) -> float:
    datastore = SQLiteDatastore(str(folder / f"{uuid4()}.db"))
    recorder = SQLiteAggregateRecorder(datastore)
    recorder.create_table()
    origin = uuid4()
    started = time.perf_counter()
    for first in range(0, events, group):
        recorder.insert_events(
            [
                StoredEvent(origin, number + 1, "bench:Step", json.dumps(PAYLOAD).encode())
                for number in range(first, first + group)
            ]
        )
    rate = events / (time.perf_counter() - started)
    datastore.close()
    return rate

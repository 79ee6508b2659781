"""Reading the tail of one run and listing the newest runs, as the journal grows around them."""

from __future__ import annotations

import functools
import os
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import Goal, Result, interleaved, microseconds_each

from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.sqlite.journal import list_query
from longwatch.journal.sqlite.queries import READ
from longwatch.model.event import Cursor, Event
from longwatch.model.run_query import ALL_RUNS

NEW_EVENTS = 10
EVENTS_A_RUN = 100
FIRST_MS = 1_700_000_000_000


def measure(*, quick: bool) -> list[Result]:
    """Two tables: tails and lists."""
    sizes = (10_000, 100_000) if quick else (10_000, 1_000_000)
    with tempfile.TemporaryDirectory(dir=os.environ.get("LONGWATCH_BENCH_DIR")) as folder:
        journals = [_journal_of(Path(folder) / f"{size}.db", size, EVENTS_A_RUN) for size in sizes]
        tails = _tails(journals, sizes, rounds=5 if quick else 9)
        for journal in journals:
            journal.close()
        run_counts = (1_000, 10_000) if quick else (1_000, 100_000)
        lists = [_journal_of(Path(folder) / f"runs-{count}.db", count, 1) for count in run_counts]
        return [tails, _lists(lists, run_counts, rounds=5 if quick else 9)]


def _journal_of(path: Path, events: int, events_a_run: int) -> SqliteJournal:
    journal = SqliteJournal(path)
    payload = {"operation": "search", "status": "completed", "output": "x" * 400}
    runs = events // events_a_run
    batch: list[Event] = []
    for index in range(events):
        run, at = index % runs, FIRST_MS + index
        batch.append(
            Event(
                run_id=f"wf-{run:08x}",
                event_id=f"{at:012x}{index:020x}",
                type="tool_call",
                occurred_at=at,
                agent_name="agent",
                payload=payload,
                producer="bench",
                number=index + 1,
            )
        )
        if len(batch) == 5_000:
            journal.append(batch)
            batch = []
    journal.append(batch)
    return journal


def _tails(journals: list[SqliteJournal], sizes: tuple[int, ...], *, rounds: int) -> Result:
    cases: dict[str, Callable[[], float]] = {}
    for journal, size in zip(journals, sizes, strict=True):
        runs = [f"wf-{run:08x}" for run in range(0, size // EVENTS_A_RUN, max(1, size // EVENTS_A_RUN // 97))]
        places = [(run_id, _place_before_last(journal, run_id)) for run_id in runs]
        cases[f"raw indexed query, {size:,} events"] = functools.partial(_raw_tail, journal.path, places)
        cases[f"longwatch read, {size:,} events"] = functools.partial(_our_tail, journal, places)
    cost = interleaved(cases, rounds=rounds)
    raw_small, ours_small, raw_large, ours_large = cost.values()
    return Result(
        f"Reading {NEW_EVENTS} new events of one run",
        ("case", "µs", "× raw at that size"),
        [
            (name, value, value / (raw_small if index < 2 else raw_large))
            for index, (name, value) in enumerate(cost.items())
        ],
        [
            Goal(f"longwatch / raw query at {sizes[1]:,} events", ours_large / raw_large, 1.5),
            Goal(f"{sizes[1]:,} / {sizes[0]:,} events, longwatch", ours_large / ours_small, 1.5),
        ],
        [f"the raw query alone grows by {raw_large / raw_small:.2f}\n"],
    )


def _place_before_last(journal: SqliteJournal, run_id: str) -> int:
    connection = sqlite3.connect(journal.path)
    places = connection.execute(
        "SELECT position FROM events WHERE run_id = ? ORDER BY position DESC LIMIT ?",
        (run_id, NEW_EVENTS + 1),
    ).fetchall()
    connection.close()
    return int(places[-1][0])


def _raw_tail(path: Path, places: list[tuple[str, int]]) -> float:
    connection = sqlite3.connect(path, isolation_level=None)
    turn = iter(places * 20)

    def query() -> None:
        run_id, position = next(turn)
        rows = connection.execute(READ, (run_id, position, 0, run_id, 501)).fetchall()
        if len(rows) != NEW_EVENTS:
            raise RuntimeError(f"{len(rows)} rows")

    try:
        for _ in places:  # both sides start with warm pages
            query()
        return microseconds_each(query, len(places) * 10)
    finally:
        connection.close()


def _our_tail(journal: SqliteJournal, places: list[tuple[str, int]]) -> float:
    turn = iter(places * 20)

    def read() -> None:
        run_id, position = next(turn)
        page = journal.read(run_id, after=Cursor(str(position)))
        if len(page.events) != NEW_EVENTS:
            raise RuntimeError(f"{len(page.events)} events")

    for _ in places:
        read()
    return microseconds_each(read, len(places) * 10)


def _lists(journals: list[SqliteJournal], counts: tuple[int, ...], *, rounds: int) -> Result:
    cases: dict[str, Callable[[], float]] = {}
    for journal, count in zip(journals, counts, strict=True):
        cases[f"raw query, {count:,} runs"] = functools.partial(_raw_list, journal.path)
        cases[f"longwatch find_runs, {count:,} runs"] = functools.partial(
            microseconds_each, journal.find_runs, 300
        )
    cost = interleaved(cases, rounds=rounds)
    _, ours_small, _, ours_large = cost.values()
    return Result(
        "Listing the newest 50 runs",
        ("case", "µs"),
        list(cost.items()),
        [Goal(f"{counts[1]:,} / {counts[0]:,} runs, longwatch", ours_large / ours_small, 1.3)],
    )


def _raw_list(path: Path) -> float:
    connection = sqlite3.connect(path, isolation_level=None)
    sql, _ = list_query(ALL_RUNS, None)
    try:
        return microseconds_each(lambda: connection.execute(sql, (51,)).fetchall(), 300)
    finally:
        connection.close()

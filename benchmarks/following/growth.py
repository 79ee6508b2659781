"""What a follower and an event cost as the followers become more: ten thousand beside a hundred.

Ten thousand do not fit into the processor's caches, so a bare task with a queue for each run is measured as
well: it shows what that alone makes of the cost.
"""

from __future__ import annotations

import functools
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.following.followers import Writer, following, in_bare_tasks
from benchmarks.following.idle import nothing
from benchmarks.following.subject import Subject, traced
from benchmarks.harness import Goal, Result, interleaved

from longwatch.events import Event

COUNTS = (100, 1_000, 10_000)
EVENTS_A_WRITE = 50  # each for another run
GAP_SECONDS = 0.02  # between two writes, so that each is read by itself
EVENTS_TO_ALL = 10  # in one write, each for every follower


def measure(*, quick: bool) -> list[Result]:
    """Followers of a run each, then all of them followers of one run."""
    rounds, seconds, writes = (3, 2.0, 20) if quick else (7, 5.0, 50)
    with tempfile.TemporaryDirectory() as folder:
        return [
            _a_run_each(Path(folder), rounds=rounds, seconds=seconds, writes=writes),
            _one_run(Path(folder), rounds=rounds),
        ]


def _a_run_each(folder: Path, *, rounds: int, seconds: float, writes: int) -> Result:
    with ExitStack() as stack:
        floor = stack.enter_context(Subject(nothing))
        floor.pause()
        idle: dict[str, Callable[[], float]] = {"floor": functools.partial(_idle, floor, seconds)}
        busy: dict[str, Callable[[], float]] = {}
        memory: dict[str, float] = {}
        for count in COUNTS:
            path = folder / f"{count}.db"
            writer = stack.enter_context(Writer(path, count))
            few = traced(following, path, 1)
            memory[f"{count}"] = (traced(following, path, count) - few) / (count - 1) / 1024
            subject = stack.enter_context(Subject(following, path, count))
            limit = stack.enter_context(Subject(in_bare_tasks, path, count))
            subject.pause()
            limit.pause()
            idle[f"{count}"] = functools.partial(_idle, subject, seconds)
            busy[f"{count}"] = functools.partial(_events, subject, writer, count, writes)
            busy[f"bare {count}"] = functools.partial(_events, limit, writer, count, writes)
        waiting = interleaved(idle, rounds=rounds)
        cost = interleaved(busy, rounds=rounds)
    each = {count: (waiting[f"{count}"] - waiting["floor"]) / count * 1e4 for count in COUNTS}
    first, last = COUNTS[0], COUNTS[-1]
    grown, bare_grown = (cost[f"{kind}{last}"] / cost[f"{kind}{first}"] for kind in ("", "bare "))
    return Result(
        "Followers of a run each, SQLite",
        (
            "followers",
            "idle CPU % above the floor",
            "idle CPU µs a second each",
            "KB each",
            "CPU µs/event",
            "bare tasks",
        ),
        [
            (
                count,
                waiting[f"{count}"] - waiting["floor"],
                each[count],
                memory[f"{count}"],
                cost[f"{count}"],
                cost[f"bare {count}"],
            )
            for count in COUNTS
        ],
        [
            Goal(f"idle CPU each, {last:,} / {first}", each[last] / each[first], 1.2),
            Goal(f"memory each, {last:,} / {first}", memory[f"{last}"] / memory[f"{first}"], 1.2),
            Goal(f"CPU an event, {last:,} / {first}", grown, 1.2),
            Goal("the same, / that of bare tasks", grown / bare_grown, 1.2),
        ],
        [f"bare tasks alone, {last:,} / {first}: {bare_grown:.2f}\n"],
    )


def _one_run(folder: Path, *, rounds: int) -> Result:
    with ExitStack() as stack:
        cases: dict[str, Callable[[], float]] = {}
        for count in COUNTS:
            path = folder / f"one-run-{count}.db"
            writer = stack.enter_context(Writer(path, 1))
            subject = stack.enter_context(Subject(following, path, count, runs=1))
            subject.pause()
            writes = COUNTS[-1] // count  # as many deliveries in every case, and so about as much to measure
            cases[f"{count}"] = functools.partial(_deliveries, subject, writer, count, writes)
        cost = interleaved(cases, rounds=rounds)
    first, last = COUNTS[0], COUNTS[-1]
    return Result(
        "Followers of one run, SQLite",
        ("followers", "CPU µs for each event and follower"),
        [(count, cost[f"{count}"]) for count in COUNTS],
        [Goal(f"CPU a delivery, {last:,} / {first}", cost[f"{last}"] / cost[f"{first}"], 1.2)],
    )


def _idle(subject: Subject, seconds: float) -> float:
    with subject.running():
        return subject.cpu_percent(seconds)


def _events(subject: Subject, writer: Writer, runs: int, writes: int) -> float:
    batches = [
        [writer.event(run) for run in random.sample(range(runs), EVENTS_A_WRITE)] for _ in range(writes)
    ]
    return _cost_of(subject, writer, batches, expected=writes * EVENTS_A_WRITE)


def _deliveries(subject: Subject, writer: Writer, followers: int, writes: int) -> float:
    batches = [[writer.event(0) for _ in range(EVENTS_TO_ALL)] for _ in range(writes)]
    return _cost_of(subject, writer, batches, expected=writes * EVENTS_TO_ALL * followers)


def _cost_of(subject: Subject, writer: Writer, batches: list[list[Event]], *, expected: int) -> float:
    with subject.running():
        cpu, wanted = subject.cpu_seconds(), subject.ask("taken") + expected
        for batch in batches:
            writer.journal.append(batch)
            if subject.has("look"):
                subject.ask("look")
            time.sleep(GAP_SECONDS)
        while subject.ask("taken") < wanted:
            time.sleep(GAP_SECONDS)
        return 1e6 * (subject.cpu_seconds() - cpu) / expected

"""What a follower and an event cost as the followers become more: ten thousand beside a hundred.

The same events are written however many follow: to a hundred runs. Then events are written to all the runs,
which do not fit into the processor's caches when there are ten thousand; a bare task with a queue for each
shows what that alone makes of the cost. Every run has had an event before, so that nothing is measured which
happens only once; each program has a journal of its own, so that none catches up with another's events.
"""

from __future__ import annotations

import functools
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, ExitStack
from pathlib import Path

from benchmarks.following.followers import Writer, following, in_bare_tasks
from benchmarks.following.idle import nothing
from benchmarks.following.subject import Commands, Subject, traced
from benchmarks.harness import Goal, Result, interleaved

from longwatch.model.event import Event

COUNTS = (100, 1_000, 10_000)
FEW_RUNS = COUNTS[0]  # that the same events are written to
KINDS: dict[str, Callable[..., AbstractAsyncContextManager[Commands]]] = {
    "few": following,  # the same events go to a few runs, however many are followed
    "all": following,
    "bare": in_bare_tasks,  # to all, too
}
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
            for kind, program in KINDS.items():
                writer = stack.enter_context(Writer(folder / f"{kind}-{count}.db", count))
                subject = stack.enter_context(Subject(program, writer.path, count))
                subject.pause()
                runs = FEW_RUNS if kind == "few" else count
                busy[f"{kind} {count}"] = functools.partial(_events, subject, writer, runs, writes)
                if kind == "few":
                    idle[f"{count}"] = functools.partial(_idle, subject, seconds)
                    one = traced(following, writer.path, 1)
                    every = traced(following, writer.path, count)
                    memory[f"{count}"] = (every - one) / (count - 1) / 1024
                _to_each(subject, writer, count)
        waiting = interleaved(idle, rounds=rounds)
        cost = interleaved(busy, rounds=rounds)
    each = {count: (waiting[f"{count}"] - waiting["floor"]) / count * 1e4 for count in COUNTS}
    first, last = COUNTS[0], COUNTS[-1]
    few, grown, bare_grown = (cost[f"{kind} {last}"] / cost[f"{kind} {first}"] for kind in KINDS)
    return Result(
        "Followers of a run each, SQLite",
        (
            "followers",
            "idle CPU % above the floor",
            "idle CPU µs a second each",
            "KB each",
            f"CPU µs/event to {FEW_RUNS} runs",
            "to all of them",
            "to all, bare tasks",
        ),
        [
            (
                count,
                waiting[f"{count}"] - waiting["floor"],
                each[count],
                memory[f"{count}"],
                *(cost[f"{kind} {count}"] for kind in KINDS),
            )
            for count in COUNTS
        ],
        [
            Goal(f"idle CPU each, {last:,} / {first}", each[last] / each[first], 1.2),
            Goal(f"memory each, {last:,} / {first}", memory[f"{last}"] / memory[f"{first}"], 1.2),
            Goal(f"CPU an event, the same events, {last:,} / {first}", few, 1.2),
            Goal("CPU an event, events to all: growth / that of bare tasks", grown / bare_grown, 1.2),
        ],
        [f"events to all, {last:,} / {first}: {grown:.2f}; of bare tasks {bare_grown:.2f}\n"],
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


def _to_each(subject: Subject, writer: Writer, runs: int) -> None:
    """An event for every run, half of one poll's limit per write: the bare case polls once for each."""
    batches = [range(first, min(first + 500, runs)) for first in range(0, runs, 500)]
    _cost_of(subject, writer, [[writer.event(run) for run in batch] for batch in batches], expected=runs)


def _deliveries(subject: Subject, writer: Writer, followers: int, writes: int) -> float:
    batches = [[writer.event(0) for _ in range(EVENTS_TO_ALL)] for _ in range(writes)]
    return _cost_of(subject, writer, batches, expected=writes * EVENTS_TO_ALL * followers)


def _cost_of(subject: Subject, writer: Writer, batches: list[list[Event]], *, expected: int) -> float:
    with subject.running():
        cpu, wanted = subject.cpu_seconds(), subject.call("taken") + expected
        for batch in batches:
            writer.journal.append(batch)
            if subject.has("poll"):
                subject.call("poll")
            time.sleep(GAP_SECONDS)
        while subject.call("taken") < wanted:
            time.sleep(GAP_SECONDS)
        return 1e6 * (subject.cpu_seconds() - cpu) / expected

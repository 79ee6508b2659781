"""Fifty thousand runs polled every 500 ms, through the hub and by a task each, on a journal that is free.

A task per run saturates its core and then polls less often than it should, so the costs are compared for each
poll that was done as well as for each second.
"""

from __future__ import annotations

import asyncio
import heapq
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

from benchmarks.following.subject import Commands, Subject
from benchmarks.harness import Goal, Result, percentile

from longwatch.following.follower import Follower
from longwatch.following.hub import Hub
from longwatch.following.items import CaughtUp
from longwatch.journal.base import ClosesOnExit, RunPage
from longwatch.model.event import START, Cursor, Event, Page
from longwatch.model.run import RunSummary
from longwatch.model.run_query import ALL_RUNS, RunQuery

RUNS = 50_000
POLL_SECONDS = 0.5
SAMPLED_EVERY = 10  # runs, for how late they are
SETTLE_SECONDS = 2.0  # after standing still, everything is overdue


def measure(*, quick: bool) -> list[Result]:
    """The table of pollers."""
    seconds, rounds = (2.0, 2) if quick else (4.0, 5)
    with ExitStack() as stack:
        subjects = {
            "LIMIT one heap, one task": Subject(from_a_heap, RUNS),
            "longwatch, a follower of each run": Subject(through_the_hub, RUNS),
            "a task per run, asyncio.sleep": Subject(in_tasks, RUNS),
        }
        for subject in subjects.values():
            stack.enter_context(subject)
            subject.pause()
        sampled: dict[str, list[Sample]] = {name: [] for name in subjects}
        for _ in range(rounds):
            for name, subject in subjects.items():
                sampled[name].append(sample(subject, seconds))
    found = {name: Sample.median(samples) for name, samples in sampled.items()}
    _, ours, tasks = found.values()
    return [
        Result(
            f"{RUNS:,} runs polled every 500 ms, free journal",
            ("case", "CPU % of a core", "polls done % of due", "CPU µs/poll", "late p50 ms", "late p99 ms"),
            [(name, *each.row) for name, each in found.items()],
            [
                Goal("longwatch / task per run, CPU a second", ours.percent / tasks.percent, 0.5),
                Goal("longwatch / task per run, CPU a poll", ours.microseconds / tasks.microseconds, 0.5),
                Goal("longwatch, late p99 ms", ours.late_p99, 20),
                Goal("longwatch, polls done % of due", ours.done, 99, at_most=False),
            ],
        )
    ]


@dataclass(frozen=True, slots=True)
class Sample:
    """One round of one poller."""

    percent: float  # CPU, of a core
    done: float  # polls, % of those that were due
    microseconds: float  # CPU for each poll
    late_p50: float  # ms
    late_p99: float

    @property
    def row(self) -> tuple[float, ...]:
        return self.percent, self.done, self.microseconds, self.late_p50, self.late_p99

    @classmethod
    def median(cls, samples: list[Sample]) -> Sample:
        """Each figure's own."""
        return cls(
            *(statistics.median(values) for values in zip(*(each.row for each in samples), strict=True))
        )


def sample(subject: Subject, seconds: float) -> Sample:
    """First what it costs, then how late it is: writing down the times costs something too."""
    with subject.running():
        time.sleep(SETTLE_SECONDS)
        cpu, polls, began = subject.cpu_seconds(), subject.call("polls"), time.perf_counter()
        time.sleep(seconds)
        cpu, polls = subject.cpu_seconds() - cpu, subject.call("polls") - polls
        elapsed = time.perf_counter() - began
        subject.call("note")
        time.sleep(seconds)
        late = subject.call("late")
    if not polls or not late:
        raise RuntimeError(f"no poll was done within {seconds:g} s: this machine is too busy to measure it")
    return Sample(
        percent=100 * cpu / elapsed,
        done=100 * polls / (RUNS * elapsed / POLL_SECONDS),
        microseconds=1e6 * cpu / polls,
        late_p50=percentile(late, 0.5) * 1000,
        late_p99=percentile(late, 0.99) * 1000,
    )


class FreeJournal(ClosesOnExit):
    """Returns nothing, at once. Counts its polls, and logs their times on command."""

    url = "free://"
    default_ttl_seconds: int | None = None
    announce_after_ms: int | None = None

    def __init__(self) -> None:
        self._counter = count()
        self._is_noting = False
        self._noted: list[Any] = []

    def polls(self) -> int:
        """How often it was read, this question included."""
        return next(self._counter)

    def note(self) -> None:
        """Write down who reads when, from now on."""
        self._noted.clear()
        self._is_noting = True

    def noted(self) -> list[tuple[str, float]]:
        """What was written down, and that is all."""
        self._is_noting = False
        return list(zip(self._noted[::2], self._noted[1::2], strict=True))

    def append(self, events: Sequence[Event]) -> None:
        raise NotImplementedError("it is only read")

    def read(self, run_id: str, *, after: Cursor = START, limit: int = 500, thorough: bool = False) -> Page:
        next(self._counter)  # in one step, since many threads read
        if self._is_noting:
            # In one step too, and flat: three hundred thousand pairs would have the garbage collected, which
            # holds everybody up and is not what is measured.
            self._noted.extend((run_id, time.monotonic()))
        return Page((), after)

    def find_runs(
        self, query: RunQuery = ALL_RUNS, *, after: Cursor | None = None, limit: int = 50
    ) -> RunPage:
        return RunPage(())

    def find_run(self, run_id: str) -> RunSummary | None:
        return None


@asynccontextmanager
async def through_the_hub(runs: int) -> AsyncIterator[Commands]:
    """A follower for each run, as a program that watches them all would have."""
    journal = FreeJournal()
    waiting = runs
    all_caught_up = asyncio.Event()

    async def follow(follower: Follower) -> None:
        nonlocal waiting
        async for item in follower:
            if isinstance(item, CaughtUp):
                waiting -= 1
                if not waiting:
                    all_caught_up.set()

    async with Hub(journal, poll_seconds=POLL_SECONDS) as hub:
        followers = {f"wf-{number:08x}": hub.follow(f"wf-{number:08x}") for number in range(runs)}
        tasks = [asyncio.create_task(follow(each)) for each in followers.values()]
        await all_caught_up.wait()

        def late() -> list[float]:
            """A run stays due at the same times of each half second, which its follower's state contains."""
            due = {  # first: sorting out what was noted takes so long that every run would be overdue
                run_id: time.monotonic() + wait
                for run_id, follower in islice(followers.items(), 0, None, SAMPLED_EVERY)
                if (wait := follower.state.next_poll_seconds)
            }
            noted = journal.noted()
            return [(at - due[run_id]) % POLL_SECONDS for run_id, at in noted if run_id in due]

        yield {"polls": journal.polls, "note": journal.note, "late": late}
    await asyncio.gather(*tasks)


@asynccontextmanager
async def in_tasks(runs: int) -> AsyncIterator[Commands]:
    """A task for each run, which sleeps until the run is due and skips what it has missed."""
    journal, late = FreeJournal(), list[float]()
    loop = asyncio.get_running_loop()

    async def poll(run_id: str, due: float) -> None:
        while True:
            await asyncio.sleep(due - loop.time())
            now = loop.time()
            late.append(now - due)
            journal.read(run_id)
            due = next_due(due, now)

    began = loop.time() + 1
    tasks = [
        asyncio.create_task(poll(f"wf-{number:08x}", began + POLL_SECONDS * number / runs))
        for number in range(runs)
    ]
    yield {"polls": journal.polls, "note": late.clear, "late": late.copy}
    for task in tasks:
        task.cancel()


@asynccontextmanager
async def from_a_heap(runs: int) -> AsyncIterator[Commands]:
    """The least: no followers, no failures, and no threads for the reads."""
    journal, late = FreeJournal(), list[float]()
    loop = asyncio.get_running_loop()
    began = loop.time() + 1
    heap = [(began + POLL_SECONDS * number / runs, f"wf-{number:08x}") for number in range(runs)]

    async def poll() -> None:
        while True:
            await asyncio.sleep(max(heap[0][0] - loop.time(), 0.001))
            now = loop.time()
            while heap[0][0] <= now:
                due, run_id = heap[0]
                late.append(now - due)
                journal.read(run_id)
                heapq.heapreplace(heap, (next_due(due, now), run_id))

    task = asyncio.create_task(poll())
    yield {"polls": journal.polls, "note": late.clear, "late": late.copy}
    task.cancel()


def next_due(due: float, now: float) -> float:
    """Half a second after the last time, or the first such moment that is still to come."""
    due += POLL_SECONDS
    return due if due > now else due + POLL_SECONDS * ((now - due) // POLL_SECONDS + 1)

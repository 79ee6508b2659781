"""The simulator finds bugs, finds none where there is none, and does the same again for the same seed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest

from longwatch.errors import JournalUnavailable
from longwatch.following import Followed, Item
from longwatch.journal.base import Journal
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import START, Cursor, Event
from longwatch.testing import ProducerContext, Simulation, SimulationResult
from longwatch.testing.simulate import SimulationSubject, play_seeds
from longwatch.testing.simulation.stores import STORES
from longwatch.testing.simulation.virtual_loop import LoopClock
from tests.simulation.bugs import BUGS

ENOUGH_SEEDS = 60  # within which each planted bug is found; CI plays many more without one


@pytest.mark.parametrize("store", STORES)
def test_every_promise_is_kept(store: str) -> None:
    summary = play_seeds(SimulationSubject(store=store), range(1_000_000, 1_000_008))

    assert summary.failed is None
    assert summary.seeds == 8


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found_and_its_seed_is_clean_without_it(bug: str) -> None:
    subject = SimulationSubject(named=f"tests.simulation.bugs:{bug}")
    found = play_seeds(subject, range(40, 40 + ENOUGH_SEEDS)).failed

    assert found is not None
    Simulation().play(found.seed).check()


def test_the_faults_are_those_that_were_planned() -> None:
    counts = play_seeds(SimulationSubject(), range(25)).counts

    assert {
        "crashes of followers",
        "crashes of producers",
        "duplicates",
        "events of one instant",
        "late batches",
        "late events",
        "pages lost",
        "reads throttled",
        "timeouts after success",
        "writes throttled",
    } <= set(counts.faults)
    assert {"ended", "died", "silent", "stopped"} <= set(counts.endings)


def test_a_seed_replays_byte_for_byte() -> None:
    first, again = (Simulation().play(7, trace=True) for _ in range(2))

    assert first.trace == again.trace
    assert first.digest == again.digest


def test_a_seed_is_the_same_in_another_process_with_other_hashes() -> None:
    code = "from longwatch.testing import Simulation; print([Simulation().play(n).digest for n in range(4)])"

    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert printed == {f"{[Simulation().play(n).digest for n in range(4)]}\n"}


def test_a_trace_is_recorded_only_on_request() -> None:
    plain, traced = Simulation().play(3), Simulation().play(3, trace=True)

    assert plain.trace == ()
    assert traced.trace
    assert plain.digest == traced.digest


def test_several_processes_find_the_same_seed_as_one() -> None:
    subject = SimulationSubject(named="tests.simulation.bugs:no_drain")

    alone, together = (play_seeds(subject, range(30), jobs=jobs) for jobs in (1, 2))

    assert alone.failed is not None
    assert together.failed is not None
    assert (alone.seeds, alone.failed.seed, alone.failed.digest) == (
        together.seeds,
        together.failed.seed,
        together.failed.digest,
    )


def test_a_custom_journal_can_be_simulated(tmp_path: Path) -> None:
    numbers = count()

    def make(clock: LoopClock) -> Journal:
        return SqliteJournal(tmp_path / f"{next(numbers)}.db", clock=clock)

    for seed in range(3):
        Simulation(journal=make).play(seed).check()


class Adds:
    """A consumer that counts events, and saves what it has after each of them."""

    def __init__(self, run_id: str) -> None:
        self.counted = 0
        self.saved = 0, START

    def take(self, item: Item) -> None:
        if isinstance(item, Followed):
            self.counted += 1
        self.saved = self.counted, item.cursor

    def crash(self) -> Cursor:
        self.counted, cursor = self.saved
        return cursor

    def check(self, events: Sequence[Event]) -> None:
        assert self.counted == len(events), f"counted {self.counted} of {len(events)}"


class SavesTooLittle(Adds):
    """One that saves its cursor and forgets its count."""

    def crash(self) -> Cursor:
        self.counted = 0
        return self.saved[1]


def test_a_custom_consumer_is_checked() -> None:
    assert first_failure(Simulation(consumer=Adds)) is None

    failure = first_failure(Simulation(consumer=SavesTooLittle))

    assert failure is not None
    with pytest.raises(AssertionError, match="counted"):
        failure.check()


async def write(context: ProducerContext, *, patiently: bool) -> None:
    """A producer of one's own: one event after the other, each until it is stored."""
    written: int = context.disk.setdefault("written", 0)
    while not context.closing.is_set() and written < 20:
        written = context.disk["written"] = written + 1
        event = Event(
            run_id=context.run_id,
            event_id=f"{context.name}-{written}",
            type="note",
            occurred_at=context.clock.now_ms(),
            producer=context.name,
            number=written,
        )
        while True:
            try:
                await context.append([event])
            except JournalUnavailable:
                if patiently:
                    continue
            break
        context.promise([event])


async def write_patiently(context: ProducerContext) -> None:
    await write(context, patiently=True)


async def write_once(context: ProducerContext) -> None:
    await write(context, patiently=False)


def test_a_custom_producer_is_checked() -> None:
    assert first_failure(Simulation(producer=write_patiently)) is None

    failure = first_failure(Simulation(producer=write_once))

    assert failure is not None
    assert failure.problem is not None
    assert failure.problem.startswith("recorded, and not in the store")


def first_failure(simulation: Simulation) -> SimulationResult | None:
    outcomes = (simulation.play(seed) for seed in range(15))
    return next((outcome for outcome in outcomes if outcome.problem is not None), None)

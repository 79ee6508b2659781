"""Plays one seed: a few executions, two machines that poll them, their orchestrator, and bad weather."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from random import Random

from longwatch.testing.executions.bugs import Bug, planted
from longwatch.testing.executions.checks import problems
from longwatch.testing.executions.machines import (
    EmbeddedMachine,
    LambdaMachine,
    Machine,
    Meddling,
    Orchestrator,
)
from longwatch.testing.executions.oracle import GRACE
from longwatch.testing.executions.plans import draw_execution
from longwatch.testing.executions.world import CALM, PLAN_ID, Climate, World
from longwatch.testing.simulation.simulation import Outcome
from longwatch.watching.conditions import conditions
from longwatch.watching.model import Execution

EXECUTIONS = 5  # of each seed
SILENT = 600.0  # seconds
CALM_SECONDS = SILENT + 2 * GRACE + 60.0  # the longest backoff and the longest lease are in it
STEP_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSimulation:
    """Executions in virtual time; the seed alone decides what happens. `bug` is for the simulator's tests."""

    bug: Bug | None = None

    def play(self, seed: int, *, trace: bool = False) -> Outcome:
        """Play this seed. With `trace` every step is kept, to be read."""
        with quiet(), planted(self.bug) if self.bug else nullcontext():
            world, found = _play(seed, keep=trace)
        world.tally.events = sum(len(world.journal.read(each, limit=10_000).events) for each in world.plans)
        world.tally.virtual_seconds = world.seconds
        return Outcome(
            seed, found[0] if found else None, world.trace.digest, world.tally, tuple(world.trace.lines)
        )


@contextmanager
def quiet() -> Iterator[None]:
    """Let nothing be logged: faults are what is played here, and no news for anybody."""
    logger = logging.getLogger("longwatch.watching")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _play(seed: int, *, keep: bool) -> tuple[World, list[str]]:
    random = Random(f"{seed}/executions")
    plans = [draw_execution(f"e{number}", random) for number in range(EXECUTIONS)]
    world = World(seed, plans, draw_climate(random), keep=keep)
    machines = [_machine(world, name, random) for name in random.choice([("a",), ("a", "b"), ("a", "b")])]
    orchestrator = Orchestrator(world)
    orchestrator.begin()
    world.in_between = Meddling(world, machines, orchestrator)
    for machine in machines:
        machine.begin()
    world.run(max(plan.begins + plan.last for plan in plans) + 1.0)
    world.climate = CALM
    for _ in range(round(CALM_SECONDS / STEP_SECONDS)):
        world.run(world.seconds + STEP_SECONDS)
        if all(record.closed for record in _records(world)):
            break
    found = list(problems(world, orchestrator))
    if not found:
        _review(world, machines[0])
        found = list(problems(world, orchestrator))
    _count(world)
    return world, found


def draw_climate(random: Random) -> Climate:
    """From fair to foul."""
    worst = random.choice([0.0, 0.3, 1.0])
    return Climate(
        fails=0.04 * worst,
        lost=0.04 * worst,
        dies=0.01 * worst,
        between=0.05 * worst,
        stale=0.3 * worst,
        throttled=0.15 * worst,
        silent=0.1 * worst,
        late=0.05 * worst,
    )


def _machine(world: World, name: str, random: Random) -> Machine:
    kind = random.choice([LambdaMachine, EmbeddedMachine])
    return kind(world, name)


def _records(world: World) -> list[Execution]:
    return [found for each in world.plans if (found := world.store.get(each, PLAN_ID)) is not None]


def _review(world: World, machine: Machine) -> None:
    """Ask again about what is closed: later truth is told, and nothing else."""

    def review_all() -> None:
        for execution_id in world.plans:
            machine.poller.review(execution_id, PLAN_ID)

    machine.guarded(review_all)


def _count(world: World) -> None:
    for plan in world.plans.values():
        world.tally.faults.update(plan.words)
    for record in _records(world):
        names = [each.name for each in conditions(record, world.clock.now_ms())]
        word = f"{record.status}" if record.closed else f"open: {', '.join(names)}"
        world.tally.endings[word] += 1

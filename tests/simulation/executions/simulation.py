"""Plays one seed: a few executions, two machines that poll them, their orchestrator, and faults."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from random import Random

from longwatch.executions.explain import conditions
from longwatch.executions.model import Execution
from longwatch.testing.simulation.simulation import SimulationResult
from tests.simulation.executions.bugs import ExecutionBug, planted
from tests.simulation.executions.checks import problems
from tests.simulation.executions.faults import Fault, with_faults
from tests.simulation.executions.machines import (
    JUMP_MS,
    EmbeddedMachine,
    LambdaMachine,
    Machine,
    Meddling,
    Orchestrator,
)
from tests.simulation.executions.operators import Operators
from tests.simulation.executions.oracle import GRACE
from tests.simulation.executions.plans import draw_execution
from tests.simulation.executions.world import CALM, ExecutionFaultRates, ExecutionWorld

EXECUTIONS = 5  # of each seed
PLAYED_FAULTS = frozenset(Fault)
SILENT = 600.0  # seconds
PENDING_SECONDS = 1800.0 + 120.0  # nothing new is a condition after half an hour where nothing has begun
CALM_SECONDS = SILENT + 2 * GRACE + 60.0  # the longest backoff and the longest lease are in it
STEP_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSimulation:
    """Executions in virtual time; the seed alone decides what happens. `bug` is for the simulator's tests."""

    bug: ExecutionBug | None = None
    faults: frozenset[Fault] = PLAYED_FAULTS

    def play(self, seed: int, *, trace: bool = False) -> SimulationResult:
        """Play this seed. With `trace` every step is recorded, to be read."""
        with quiet(), planted(self.bug) if self.bug else nullcontext():
            world, found = _play(seed, self.faults, keep=trace)
        runs = {record.run_id for record in _records(world)}
        world.counts.events = sum(len(world.journal.read(each, limit=10_000).events) for each in runs)
        world.counts.virtual_seconds = world.seconds
        return SimulationResult(
            seed, found[0] if found else None, world.trace.digest, world.counts, tuple(world.trace.lines)
        )


@contextmanager
def quiet() -> Iterator[None]:
    """Log nothing: faults are what is played here, and no news."""
    logger = logging.getLogger("longwatch.executions")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _play(seed: int, faults: frozenset[Fault], *, keep: bool) -> tuple[ExecutionWorld, list[str]]:
    random = Random(f"{seed}/executions")
    plans = with_faults([draw_execution(f"e{number}", random) for number in range(EXECUTIONS)], faults, seed)
    if Random(f"{seed}/{Fault.CLOCKS}").random() < 0.5:
        faults -= {Fault.CLOCKS}  # so that what wrong clocks may do is not overlooked where they are right
    world = ExecutionWorld(seed, plans, draw_fault_rates(random), keep=keep, faults=faults)
    machines = [_machine(world, name, random) for name in random.choice([("a",), ("a", "b"), ("a", "b")])]
    orchestrator, operators = Orchestrator(world), Operators(world)
    orchestrator.begin()
    operators.begin()
    world.in_between = Meddling(world, machines, orchestrator)
    for machine in machines:
        machine.begin()
    world.run(max(plan.begins + plan.last for plan in plans) + 1.0)
    world.fault_rates = CALM
    _calm_down(world)
    # A recheck whose write was lost is in the journal alone until the next one, which may be hours away.
    _review(world, machines[0], [each for each in _records(world) if each.recheck_at is not None])
    found = list(problems(world, orchestrator, operators))
    if not found:
        _review(world, machines[0], _records(world))
        found = list(problems(world, orchestrator, operators))
    _count(world)
    return world, found


def _calm_down(world: ExecutionWorld) -> None:
    """Let the pollers finish: until all is closed, or a while has passed and what is open has a reason."""
    least = world.seconds + CALM_SECONDS + (JUMP_MS / 1000 if Fault.CLOCKS in world.faults else 0.0)
    most = max(least, world.seconds + PENDING_SECONDS)
    while world.seconds < most:
        world.run(world.seconds + STEP_SECONDS)
        still_open = [record for record in _records(world) if not record.closed]
        if not still_open:
            return
        now = world.clock.now_ms()
        if world.seconds >= least and all(conditions(record, now) for record in still_open):
            return


def draw_fault_rates(random: Random) -> ExecutionFaultRates:
    """From fair to foul."""
    worst = random.choice([0.0, 0.3, 1.0])
    return ExecutionFaultRates(
        fails=0.04 * worst,
        lost=0.04 * worst,
        dies=0.01 * worst,
        between=0.05 * worst,
        stale=0.3 * worst,
        throttled=0.15 * worst,
        silent=0.1 * worst,
        late=0.05 * worst,
    )


def _machine(world: ExecutionWorld, name: str, random: Random) -> Machine:
    kind = random.choice([LambdaMachine, EmbeddedMachine])
    return kind(world, name)


def _records(world: ExecutionWorld) -> list[Execution]:
    keys = world.plans
    return [found for key in keys if (found := world.store.get(key.execution_id, key.plan_id)) is not None]


def _review(world: ExecutionWorld, machine: Machine, records: Sequence[Execution]) -> None:
    """Poll those that are closed again: a later outcome is reported, and nothing else."""

    def review_all() -> None:
        for record in records:
            machine.poller.review(record.execution_id, record.plan_id)

    machine.guarded(review_all)


def _count(world: ExecutionWorld) -> None:
    for plan in world.plans.values():
        world.counts.faults.update(plan.words)
    for record in _records(world):
        names = [each.name for each in conditions(record, world.clock.now_ms())]
        word = f"{record.status}" if record.closed else f"open: {', '.join(names)}"
        world.counts.endings[word] += 1

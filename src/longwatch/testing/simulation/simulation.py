"""A simulation: what is simulated, how a seed is played, and its result."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from longwatch.testing.simulation.plan import RunEnd, draw_plan
from longwatch.testing.simulation.polling_users import ManagerUser, ServiceUser
from longwatch.testing.simulation.producers import ProducerProgram
from longwatch.testing.simulation.virtual_loop import Stuck, in_virtual_time
from longwatch.testing.simulation.watchers import SimulatedProcess, SimulatedWatcher
from longwatch.testing.simulation.world import (
    MakeConsumer,
    MakeJournal,
    SimulatedParts,
    SimulationCounts,
    World,
)
from longwatch.testing.simulation.writers import RunWork

QUIET_SECONDS = 40.0  # after which programs that have left hold nothing and poll nothing


async def play(world: World, produce: ProducerProgram | None) -> list[str]:
    """Run all programs until they end. Returns the first problem, or nothing."""
    world.loop.set_exception_handler(lambda loop, context: world.broken(_error_in(context)))
    try:
        with _logging_to(world):
            await _everything(world, produce)
    except AssertionError as error:
        world.broken(error)
    except Exception as error:  # noqa: BLE001 - any error is a result of the seed
        world.broken(RuntimeError("".join(traceback.format_exception(error)).rstrip()))
    finally:
        world.counts.virtual_seconds = world.loop.time()
        world.store.close()
    return world.problems


@contextmanager
def _logging_to(world: World) -> Iterator[None]:
    """Write the log of longwatch to the trace: its warnings are about faults of the simulation."""
    logger, handler = logging.getLogger("longwatch"), _Traced(world)
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


class _Traced(logging.Handler):
    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        self._world.mark("log", record.getMessage())


async def _everything(world: World, produce: ProducerProgram | None) -> None:
    works = [RunWork(world, plan, produce) for plan in world.plan.runs]
    processes = [
        SimulatedProcess(world, f"process-{index}", sees_processes=index == 0)
        for index in range(world.plan.processes)
    ]
    actors: list[Coroutine[Any, Any, None]] = [work.play() for work in works]
    for work in works:
        # Only one process watches for deaths, so that one of them writes the ending.
        able = processes[:1] if work.plan.end is RunEnd.DEAD else processes
        for index in range(work.plan.watchers):
            actors.append(SimulatedWatcher(world, work, able, f"{work.run_id}.w{index}").live())
    actors += [_crash(world, processes, at) for at in world.plan.process_crashes]
    actors.append(_calm(world, works))
    if world.plan.has_service:
        actors.append(ServiceUser(world, works).live())
    if world.plan.has_manager:
        actors.append(ManagerUser(world, works).live())
    await _all(world, actors)
    await _check_rest(world, works, processes)


async def _all(world: World, actors: list[Coroutine[Any, Any, None]]) -> None:
    """Wait until all have ended, or the first has failed."""
    tasks = [asyncio.create_task(actor) for actor in (*actors, world.until_broken())]
    *busy, sentinel = tasks
    try:
        while busy and not sentinel.done():
            await asyncio.wait([*busy, sentinel], return_when=asyncio.FIRST_COMPLETED)
            for task in [task for task in busy if task.done()]:
                busy.remove(task)
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _calm(world: World, works: list[RunWork]) -> None:
    """Stop all faults when all runs are over: from then on every program has to finish."""
    for work in works:
        await work.is_over.wait()
    world.faults.calm_down()
    world.is_calm.set()
    world.mark("weather", "calms down")


async def _crash(world: World, processes: list[SimulatedProcess], at: float) -> None:
    await asyncio.sleep(at)
    await world.random(f"crash at {at}").choice(processes).crash()


async def _check_rest(world: World, works: list[RunWork], processes: list[SimulatedProcess]) -> None:
    for work in works:
        stored = {event.event_id: event for event in world.store.events(work.run_id)}
        world.counts.events += len(stored)
        lost = [event_id for event_id in (each.event_id for each in work.promised) if event_id not in stored]
        assert not lost, f"recorded, and not in the store: {', '.join(lost)}"
    await asyncio.sleep(QUIET_SECONDS)
    calls = world.store.calls
    await asyncio.sleep(QUIET_SECONDS)
    assert world.store.calls == calls, (
        f"{world.store.calls - calls} requests to the store without a subscriber"
    )
    for process in processes:
        left = process.hub.leftovers()
        assert not left, f"in {process.name}: {', '.join(left)}"
        await process.hub.aclose()
    timers, tasks = world.loop.timers(), len(asyncio.all_tasks()) - 1
    assert not timers, f"{timers} timers of the event loop are left"
    assert not tasks, f"{tasks} tasks are left"


def _error_in(context: dict[str, Any]) -> Exception:
    error = context.get("exception")
    if isinstance(error, AssertionError):
        return error
    text = "".join(traceback.format_exception(error)).rstrip() if isinstance(error, Exception) else ""
    return RuntimeError(f"{context.get('message')}\n{text}".rstrip())


MAX_TRACE_LINES = 40  # in a message


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The result of one seed."""

    seed: int
    problem: str | None  # None: every promise was kept
    digest: str  # of the trace: equal for equal traces
    counts: SimulationCounts
    trace: tuple[str, ...] = field(default=(), repr=False)  # empty unless requested

    def check(self) -> None:
        """Raise AssertionError if a promise was broken."""
        if self.problem is not None:
            end = "\n".join(self.trace[-MAX_TRACE_LINES:])
            raise AssertionError(f"seed {self.seed}: {self.problem}" + (f"\n{end}" if end else ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """Writers, followers, crashes and faults in virtual time; the seed alone decides what happens.

    `journal` creates an empty journal for a seed, given the clock; without it the seed chooses one of
    longwatch's own, or the `store` of that name. `consumer` creates a consumer, given the run. `producer`
    writes events through a `ProducerContext`. `parts` is for tests of the simulator.
    """

    journal: MakeJournal | None = None
    consumer: MakeConsumer | None = None
    producer: ProducerProgram | None = None
    store: str | None = None
    parts: SimulatedParts = field(default_factory=SimulatedParts)

    def play(self, seed: int, *, trace: bool = False) -> SimulationResult:
        """Play this seed. With `trace` the result contains every step."""
        if not __debug__:
            raise RuntimeError("python -O leaves out every check of the simulation; run it without -O")
        plan = draw_plan(seed, Random(f"{seed}/plan"), store=self.store)
        worlds: list[World] = []

        async def story() -> list[str]:
            world = World(
                seed,
                plan,
                parts=self.parts,
                make_journal=self.journal,
                make_consumer=self.consumer,
                keep_trace=trace,
            )
            worlds.append(world)
            return await play(world, self.producer)

        try:
            problems = in_virtual_time(story)
        except Stuck as stuck:
            problems = [f"stuck: {stuck}"]
        (world,) = worlds
        problem = problems[0] if problems else None
        return SimulationResult(seed, problem, world.trace.digest, world.counts, tuple(world.trace.lines))

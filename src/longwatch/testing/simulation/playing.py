"""Plays one seed from its plan to the last check."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from longwatch.testing.simulation.desks import Producer
from longwatch.testing.simulation.plan import RunEnd
from longwatch.testing.simulation.polls import ManagerUser
from longwatch.testing.simulation.services import ServiceUser
from longwatch.testing.simulation.watching import Process, Watcher
from longwatch.testing.simulation.working import Work
from longwatch.testing.simulation.world import World

QUIET_SECONDS = 40.0  # after which nothing may be left of those who are gone, nor anything be asked for them


async def play(world: World, produce: Producer | None) -> list[str]:
    """Everything at once, until all is over. Returns what is wrong, which is nothing or one thing."""
    world.loop.set_exception_handler(lambda loop, context: world.broken(_complaint(context)))
    try:
        with _logging_to(world):
            await _everything(world, produce)
    except AssertionError as error:
        world.broken(error)
    except Exception as error:  # noqa: BLE001 - whatever it is, the seed that shows it is wanted
        world.broken(RuntimeError("".join(traceback.format_exception(error)).rstrip()))
    finally:
        world.tally.virtual_seconds = world.loop.time()
        world.store.close()
    return world.problems


@contextmanager
def _logging_to(world: World) -> Iterator[None]:
    """What longwatch logs belongs into the trace: a seed that fails on purpose is no news for anybody."""
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


async def _everything(world: World, produce: Producer | None) -> None:
    works = [Work(world, plan, produce) for plan in world.plan.runs]
    processes = [
        Process(world, f"process-{index}", sees_processes=index == 0) for index in range(world.plan.processes)
    ]
    actors: list[Coroutine[Any, Any, None]] = [work.play() for work in works]
    for work in works:
        # Of those who see that a process is gone, one writes the end: only one is asked to.
        able = processes[:1] if work.plan.end is RunEnd.DEAD else processes
        for index in range(work.plan.watchers):
            actors.append(Watcher(world, work, able, f"{work.run_id}.w{index}").live())
    actors += [_crash(world, processes, at) for at in world.plan.process_crashes]
    actors.append(_calm(world, works))
    if world.plan.has_service:
        actors.append(ServiceUser(world, works).live())
    if world.plan.has_manager:
        actors.append(ManagerUser(world, works).live())
    await _all(world, actors)
    await _check_rest(world, works, processes)


async def _all(world: World, actors: list[Coroutine[Any, Any, None]]) -> None:
    """Until all have ended, or the first has found something wrong."""
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


async def _calm(world: World, works: list[Work]) -> None:
    """When all runs are over, nothing goes wrong any more: whoever still waits has no excuse."""
    for work in works:
        await work.is_over.wait()
    world.weather.calm_down()
    world.is_calm.set()
    world.mark("weather", "calms down")


async def _crash(world: World, processes: list[Process], at: float) -> None:
    await asyncio.sleep(at)
    await world.random(f"crash at {at}").choice(processes).crash()


async def _check_rest(world: World, works: list[Work], processes: list[Process]) -> None:
    for work in works:
        there = {event.event_id: event for event in world.store.events(work.run_id)}
        world.tally.events += len(there)
        lost = [event_id for event_id in (each.event_id for each in work.promised) if event_id not in there]
        assert not lost, f"recorded, and not in the store: {', '.join(lost)}"
    await asyncio.sleep(QUIET_SECONDS)
    calls = world.store.calls
    await asyncio.sleep(QUIET_SECONDS)
    assert world.store.calls == calls, f"the store was asked {world.store.calls - calls} times for nobody"
    for process in processes:
        left = process.hub.leftovers()
        assert not left, f"in {process.name}: {', '.join(left)}"
        await process.hub.aclose()
    timers, tasks = world.loop.timers(), len(asyncio.all_tasks()) - 1
    assert not timers, f"{timers} timers of the event loop are left"
    assert not tasks, f"{tasks} tasks are left"


def _complaint(context: dict[str, Any]) -> Exception:
    error = context.get("exception")
    if isinstance(error, AssertionError):
        return error
    told = "".join(traceback.format_exception(error)).rstrip() if isinstance(error, Exception) else ""
    return RuntimeError(f"{context.get('message')}\n{told}".rstrip())

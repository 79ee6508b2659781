"""One run from its first event to its last: its writers, their crashes and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from longwatch.model.event import Event
from longwatch.testing.simulation.hubs import HOST
from longwatch.testing.simulation.plan import RunEnd, RunPlan, WriterPlan
from longwatch.testing.simulation.producers import (
    ProducerContext,
    ProducerProgram,
    SimulatedRecorder,
    write_foreign,
)
from longwatch.testing.simulation.virtual_loop import SkewedClock
from longwatch.testing.simulation.world import World

SETTLE_SECONDS = 900.0  # after which a producer that should have finished never will
STRAGGLE_SECONDS = 0.7  # at most between two stragglers: followers wait for 3 s

TERMINAL = {RunEnd.COMPLETE: "workflow_complete", RunEnd.FAILED: "workflow_error"}


class RunWork:
    """The writing side of one run."""

    def __init__(self, world: World, plan: RunPlan, produce: ProducerProgram | None) -> None:
        self.plan = plan
        self.run_id = plan.run_id
        self.is_over = asyncio.Event()  # all events are stored
        self.over_at: float | None = None  # since when
        self._world = world
        self._produce = produce
        self._random = world.random(f"{plan.run_id}/end")
        self._recorders: dict[ProducerContext, SimulatedRecorder] = {}  # the latest recorder of each context
        self._contexts = [
            self._make_context(f"{plan.run_id}.p{index}", each.skew_ms)
            for index, each in enumerate(plan.writers)
        ]
        self._foreign = self._make_context(f"{plan.run_id}.f", 0)

    @property
    def promised(self) -> list[Event]:
        """The events that the writers declared as recorded."""
        return [event for context in (*self._contexts, self._foreign) for event in context.promised.values()]

    async def play(self) -> None:
        """Play the whole run."""
        plan = self.plan
        await self._store(self._foreign, [self._start()])
        jobs = [
            self._run_writer(context, each)
            for context, each in zip(self._contexts, plan.writers, strict=True)
        ]
        if plan.foreign_seconds is not None:
            jobs.append(write_foreign(self._foreign, plan.foreign_seconds))
        tasks = [asyncio.create_task(job) for job in jobs]
        try:
            await asyncio.sleep(plan.seconds)
            for context in (*self._contexts, self._foreign):
                context.closing.set()
            done, late = await asyncio.wait(
                tasks, timeout=SETTLE_SECONDS, return_when=asyncio.FIRST_EXCEPTION
            )
            for task in done:
                task.result()
            assert not late, f"a producer of {self.run_id} does not finish"
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        await self._world.network.idle(self.run_id)
        await self._end()
        self._world.mark(self.run_id, "no more events")
        self.over_at = self._world.loop.time()
        self.is_over.set()

    def _make_context(self, name: str, skew_ms: int) -> ProducerContext:
        world = self._world
        return ProducerContext(
            self.run_id,
            name,
            clock=SkewedClock(skew_ms),
            journal=world.store.journal(world.faults),
            network=world.network,
            random=world.random(name),
        )

    async def _run_writer(self, context: ProducerContext, plan: WriterPlan) -> None:
        """Run one writer, through its crashes, until all of its events are stored."""
        for after, away in plan.crashes:
            if await self._crashes(context, plan, after):
                self._world.count("crashes of producers")
                context.starts += 1
                await asyncio.sleep(away)
            else:
                return
        await self._at_work(context, plan)

    async def _crashes(self, context: ProducerContext, plan: WriterPlan, after: float) -> bool:
        """Run the writer until its crash; False if it finished before."""
        task = asyncio.create_task(self._at_work(context, plan))
        try:
            await asyncio.wait([task], timeout=after)
        finally:
            finished = task.done()
            task.cancel()
            await asyncio.wait([task])
        if finished:
            task.result()
        self._world.mark(context.name, "finished" if finished else "crashed")
        return not finished

    async def _at_work(self, context: ProducerContext, plan: WriterPlan) -> None:
        self._world.mark(context.name, f"begins, {context.starts} starts before")
        if self._produce is not None:
            await self._produce(context)
            return
        recorder = self._recorders[context] = SimulatedRecorder(context, plan, self._world.count)
        await recorder.work()
        await recorder.settle()

    async def _end(self) -> None:
        """Write the terminal event, and perhaps some events after it."""
        end, recorders = self.plan.end, list(self._recorders.items())
        for context, recorder in recorders:
            if self._random.random() < 0.5:
                await self._close(context, recorder)
                del self._recorders[context]
        if end is RunEnd.DEAD:
            self._world.gone.add(self._pid)
            self._world.mark(self.run_id, "its process is gone")
        elif end is not RunEnd.OPEN:
            await self._store(self._foreign, [self._event(TERMINAL[end], "end", {"status": end.value})])
            if self.plan.stragglers:
                await self._straggle()

    async def _straggle(self) -> None:
        for context, recorder in self._recorders.items():
            if not recorder.number:
                continue  # no follower has seen it, so none waits for it
            for _ in range(self._random.randint(0, 2)):
                await asyncio.sleep(self._random.uniform(0.0, STRAGGLE_SECONDS))
                self._world.count("stragglers")
                await self._store(context, [recorder.event()])
            if self._random.random() < 0.7:
                await asyncio.sleep(self._random.uniform(0.0, STRAGGLE_SECONDS))
                await self._close(context, recorder)

    async def _close(self, context: ProducerContext, recorder: SimulatedRecorder) -> None:
        if recorder.number:
            await self._store(context, [recorder.event("producer_closed", count=recorder.number + 1)])

    async def _store(self, context: ProducerContext, events: Sequence[Event]) -> None:
        """Store these soon, without faults."""
        await asyncio.sleep(self._random.uniform(0.0, 0.02))
        self._world.store.journal(None).append(events)
        self._world.mark(context.name, f"stored {events[0].event_id}")
        context.promise(events)

    @property
    def _pid(self) -> int:
        return 1_000 + self._world.plan.runs.index(self.plan)

    def _start(self) -> Event:
        process = {"host": HOST, "pid": self._pid}
        return self._event("workflow_start", "start", {"kind": "workflow", "process": process})

    def _event(self, type_: str, name: str, payload: dict[str, object]) -> Event:
        make = partial(
            Event, run_id=self.run_id, event_id=f"{self.run_id}-{name}", type=type_, payload=payload
        )
        return make(occurred_at=self._world.clock.now_ms())

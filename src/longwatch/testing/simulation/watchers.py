"""The processes that follow runs, and their watchers, which start, stop, fall behind and crash."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from longwatch.following import Ended, Follower, Reason, WatchPhase
from longwatch.model.event import START
from longwatch.testing.simulation.consumers import CheckedConsumer
from longwatch.testing.simulation.hubs import SimulatedHub
from longwatch.testing.simulation.plan import LARGE_PAGE, RunEnd
from longwatch.testing.simulation.world import World
from longwatch.testing.simulation.writers import RunWork

PATIENCE_SECONDS = 600.0  # for a watch to end once all runs are over and nothing goes wrong
SILENT_SECONDS = 40.0  # longer than any unannounced event is delayed
LIVE_SECONDS = 60.0  # after which the cursor of a poll has dropped the history
CURSOR_CHARACTERS = 1_000  # of such a cursor, plus those of recent events without a number
CHARACTERS_A_KEY = 10
JOURNAL_AWAY = "the journal did not respond"  # in the message of a watch that may have missed late events

REASONS = {
    RunEnd.COMPLETE: {Reason.ENDED},
    RunEnd.FAILED: {Reason.ENDED},
    RunEnd.DEAD: {Reason.DIED},
    RunEnd.OPEN: {Reason.SILENT, Reason.STOPPED},
}


class SimulatedProcess:
    """A process with a hub, which is replaced after a crash."""

    def __init__(self, world: World, name: str, *, sees_processes: bool) -> None:
        self.name = name
        self.watches: dict[asyncio.Task[None], None] = {}
        self._world = world
        self._sees_processes = sees_processes
        self.hub = self._make_hub()

    async def crash(self) -> None:
        """End all watches and the hub at once."""
        self._world.count("crashes of followers")
        self._world.mark(self.name, "crashed")
        hub, self.hub = self.hub, self._make_hub()
        watches = list(self.watches)
        for task in watches:
            task.cancel()
        await hub.aclose()
        if watches:
            await asyncio.wait(watches)

    def _make_hub(self) -> SimulatedHub:
        journal = self._world.store.journal(self._world.faults)
        return self._world.hub(journal, sees_processes=self._sees_processes)


class SimulatedWatcher:
    """Follows one run to its end, through crashes and restarts."""

    def __init__(self, world: World, work: RunWork, processes: list[SimulatedProcess], name: str) -> None:
        self.name = name
        self._world = world
        self._work = work
        self._processes = processes
        self._random = world.random(name)
        self._consumer: CheckedConsumer = world.consumer(work.run_id, name)
        self._cursor = START
        self._follower: Follower | None = None

    async def live(self) -> None:
        """Follow until the watch has ended by itself."""
        random = self._random
        await asyncio.sleep(random.choice([0.0, random.uniform(0.0, 1.2) * self._work.plan.seconds]))
        leaves = random.choice([0, 0, 1, 2, 3])
        while True:
            stay = random.uniform(0.1, self._work.plan.seconds) if leaves else None
            leaves -= 1 if leaves else 0
            ended = await self._watch(stay)
            if ended is None:
                continue
            if ended.reason is Reason.SILENT and not self._is_late():
                self._resume()  # more events may arrive
                continue
            await self._work.is_over.wait()
            self._check(ended)
            return

    def _is_late(self) -> bool:
        """Whether everything was stored so long ago that it must have arrived."""
        over_at = self._work.over_at
        return over_at is not None and self._world.loop.time() >= over_at + SILENT_SECONDS - 1.0

    async def _watch(self, stay: float | None) -> Ended | None:
        """One watch; None if it was left, or its process crashed."""
        process = self._random.choice(self._processes)
        is_open = self._work.plan.end is RunEnd.OPEN
        follower = self._follower = process.hub.follow(
            self._work.run_id, after=self._cursor, silent_after_seconds=SILENT_SECONDS if is_open else None
        )
        task = asyncio.create_task(self._take(process, follower))
        process.watches[task] = None
        try:
            if stay is None:
                await self._to_the_end(task)
            else:
                await asyncio.wait([task], timeout=stay)
        finally:
            task.cancel()
            await asyncio.wait([task])
            del process.watches[task]
        if not task.cancelled():
            task.result()
            assert self._consumer.ended is not None, f"the watch of {self._work.run_id} ended without a word"
            return self._consumer.ended
        self._world.counts.endings["left or crashed"] += 1
        self._resume()
        await asyncio.sleep(self._random.choice([0.0, self._random.uniform(0.0, 20.0)]))
        return None

    async def _to_the_end(self, task: asyncio.Task[None]) -> None:
        calm = asyncio.create_task(self._world.is_calm.wait())
        try:
            await asyncio.wait([task, calm], return_when=asyncio.FIRST_COMPLETED)
            if self._work.plan.end is RunEnd.OPEN and self._random.random() < 0.5:
                await self._stop(task)
            await asyncio.wait([task], timeout=PATIENCE_SECONDS)
        finally:
            calm.cancel()
        assert task.done(), (
            f"the watch of {self._work.run_id} does not end: {self._follower and self._follower.state}"
        )

    async def _stop(self, task: asyncio.Task[None]) -> None:
        """End the watch once it must have seen everything."""
        assert self._follower is not None
        while not task.done() and self._follower.state.phase is not WatchPhase.LIVE:
            await asyncio.wait([task], timeout=1.0)
        await asyncio.wait([task], timeout=SILENT_SECONDS - 1.0)
        self._follower.stop()

    async def _take(self, process: SimulatedProcess, follower: Follower) -> None:
        slow = self._random.choice([0.0, 0.0, 0.05, 0.3])
        async with aclosing(aiter(follower)) as items:
            async for item in items:
                self._world.counts.delivered += 1
                self._world.mark(self.name, _describe(item))
                self._consumer.take(item)
                self._check_memory(process.hub, follower)
                if self._random.random() < slow and not self._world.is_calm.is_set():
                    self._world.count("slow consumers")
                    await asyncio.sleep(self._random.uniform(0.0, 3.0))

    def _resume(self) -> None:
        self._cursor = self._consumer.crash()
        self._world.mark(self.name, f"resumes from a cursor of {len(self._cursor)} characters")

    def _check_memory(self, hub: SimulatedHub, follower: Follower) -> None:
        """Check that the memory for it does not grow with the run."""
        size = hub.cursor_size(self._work.run_id, live_seconds=LIVE_SECONDS)
        remembered = LIVE_SECONDS / (self._work.plan.foreign_seconds or LIVE_SECONDS)
        limit = CURSOR_CHARACTERS + CHARACTERS_A_KEY * remembered
        comes_through = self._world.plan.page_items >= LARGE_PAGE
        assert size <= limit or not comes_through, f"the cursor of {self._work.run_id} has {size} characters"
        plan, waiting = self._world.plan, follower._inbox.waiting
        room = max(plan.buffer_events, 1_000)  # a page always finds room in an empty seat
        assert waiting <= room, f"{waiting} events wait in a seat for {plan.buffer_events}"

    def _check(self, ended: Ended) -> None:
        run, message = self._work.plan, ended.message or ""
        was_away = JOURNAL_AWAY in message
        self._world.counts.endings["ended, the journal was away" if was_away else ended.reason.value] += 1
        reasons = REASONS[run.end]
        assert ended.reason in reasons, f"the watch of {run.run_id} ended as {ended.reason}: {message}"
        self._consumer.check(self._world.store.events(run.run_id), is_complete=not was_away)


def _describe(item: object) -> str:
    event = getattr(item, "event", None)
    if event is not None:
        return f"got {event.event_id}{' late' if getattr(item, 'late', False) else ''}"
    reason = getattr(item, "reason", None)
    if reason is not None:
        return f"ended: {reason}, {getattr(item, 'status', None)}"
    return type(item).__name__

"""Producers of a simulation: their context, and a recorder.

The recorder numbers its events, keeps undelivered ones in an outbox, and announces late ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

from longwatch.errors import JournalUnavailable
from longwatch.journal.base import Journal
from longwatch.model.event import Event
from longwatch.recording.delivery import retry_seconds
from longwatch.recording.outbox import announcements
from longwatch.testing.simulation.network import Network
from longwatch.testing.simulation.plan import MAX_LATE_MS, WriterPlan
from longwatch.testing.simulation.virtual_loop import SkewedClock


class ProducerContext:
    """The environment of a producer. After a crash it is the same one, with only `disk` preserved."""

    def __init__(
        self,
        run_id: str,
        name: str,
        *,
        clock: SkewedClock,
        journal: Journal,
        network: Network,
        random: Random,
    ) -> None:
        self.run_id = run_id
        self.name = name
        self.clock = clock
        self.random = random
        self.disk: dict[str, Any] = {}
        self.starts = 0  # earlier starts of the producer
        self.closing = asyncio.Event()  # set when the producer should finish and return
        self.promised: dict[str, Event] = {}
        self.announce_after_ms = journal.announce_after_ms
        self._journal = journal
        self._network = network

    async def append(self, events: Sequence[Event]) -> None:
        """Append to the store. Raises as a journal does; some events may be stored nevertheless."""
        await self._network.append(self._journal, events)

    def promise(self, events: Sequence[Event]) -> None:
        """Declare these as recorded: every follower must receive each of them once."""
        for event in events:
            self.promised[event.event_id] = event


ProducerProgram = Callable[[ProducerContext], Awaitable[None]]
"""Writes events until `context.closing` is set, and returns when all that it promised is stored."""


SHIPPED_TOGETHER = 10  # events; larger batches rarely succeed with many faults
AGAIN_SECONDS = 12.0  # latest repetition of an append
UNNUMBERED_RETRY_MS = 8_000  # retries end before an event would have to be announced

Count = Callable[[str], None]


class SimulatedRecorder:
    """One producer until it ends or crashes."""

    def __init__(self, context: ProducerContext, plan: WriterPlan, count: Count) -> None:
        self.name = f"{context.name}.{context.starts}"
        self.number = 0
        self._context = context
        self._plan = plan
        self._count = count
        self._outbox: list[Event] = context.disk.setdefault("outbox", [])
        self._failures = 0
        self._retry_at = 0.0
        self._again: list[tuple[float, list[Event]]] = []

    async def work(self) -> None:
        """Write events and ship the outbox until `closing` is set."""
        context, plan = self._context, self._plan
        while not context.closing.is_set():
            await self._write()
            await self._send_again()
            if self._outbox and context.clock.monotonic() >= self._retry_at:
                await self._ship()
            await self._pause(context.random.expovariate(1 / plan.pause_seconds))

    async def settle(self) -> None:
        """Ship until the outbox is empty."""
        while self._outbox:
            await asyncio.sleep(max(0.0, self._retry_at - self._context.clock.monotonic()))
            await self._ship()

    def event(self, type_: str = "tool_call", *, at: int | None = None, **payload: object) -> Event:
        """The next event."""
        self.number += 1
        return Event(
            run_id=self._context.run_id,
            event_id=f"{self.name}-{self.number}",
            type=type_,
            occurred_at=self._context.clock.now_ms() if at is None else at,
            payload=payload,
            producer=self.name,
            number=self.number,
        )

    async def _write(self) -> None:
        random, plan, at = self._context.random, self._plan, self._context.clock.now_ms()
        if random.random() < plan.late:
            self._count("late events")
            at -= random.randint(1, MAX_LATE_MS)
        together = random.random() < plan.same_instant
        events = []
        for index in range(random.randint(1, plan.max_events)):
            events.append(self.event(at=at if together else at + index * random.randint(0, 3), n=index))
        if together and len(events) > 1:
            self._count("events of one instant")
        if random.random() < plan.duplicated:
            self._count("duplicates")
            self._again.append((self._context.clock.monotonic() + random.uniform(0.0, AGAIN_SECONDS), events))
        await self._deliver(events)

    async def _deliver(self, events: list[Event]) -> None:
        if self._context.clock.monotonic() < self._retry_at or not await self._send(events):
            self._outbox += events
        self._context.promise(events)

    async def _send(self, events: Sequence[Event]) -> bool:
        """Send in parallel requests, which may overtake each other."""
        parts = _parts(events, self._context.random)
        if len(parts) > 1:
            self._count("requests side by side")
        results = await asyncio.gather(*map(self._context.append, parts), return_exceptions=True)
        problems = [result for result in results if result is not None]
        if not problems:
            self._failures = 0
            return True
        for problem in problems:
            if not isinstance(problem, JournalUnavailable):
                raise problem
        self._failures += 1
        self._retry_at = self._context.clock.monotonic() + retry_seconds(self._failures)
        return False

    async def _ship(self) -> None:
        """Ship some events of the outbox and announce them; they stay in it until that is stored."""
        waiting = self._outbox[:SHIPPED_TOGETHER]
        if waiting and await self._send(waiting):
            now = self._context.clock.now_ms()
            shipped = self._context.disk["shipped"] = self._context.disk.get("shipped", 0) + 1
            announced = [
                replace(event, event_id=f"{self._context.name}-late-{shipped}")
                for event in announcements(waiting, now)
            ]
            if await self._send(announced):
                self._count("late batches")
                self._context.promise(announced)
                del self._outbox[: len(waiting)]

    async def _send_again(self) -> None:
        now = self._context.clock.monotonic()
        due = [events for at, events in self._again if at <= now]
        self._again = [(at, events) for at, events in self._again if at > now]
        for events in due:
            if not any(event in self._outbox for event in events) and now >= self._retry_at:
                await self._send(events)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._context.closing.wait()
        except TimeoutError:
            pass


async def write_foreign(context: ProducerContext, pause_seconds: float) -> None:
    """Write events without numbers and announcements."""
    number = 0
    while not context.closing.is_set():
        number += 1
        at = context.clock.now_ms()
        event = Event(
            run_id=context.run_id,
            event_id=f"{context.name}-{number}",
            type="tool_call",
            occurred_at=at,
            payload={"n": number},
        )
        while context.clock.now_ms() - at < UNNUMBERED_RETRY_MS:
            try:
                await context.append([event])
            except JournalUnavailable:
                await asyncio.sleep(0.5)
            else:
                context.promise([event])
                break
        await asyncio.sleep(context.random.uniform(0.5, 1.5) * pause_seconds)


def _parts(events: Sequence[Event], random: Random) -> list[Sequence[Event]]:
    """The events in one to three requests, in any order."""
    cuts = sorted(random.randint(0, len(events)) for _ in range(random.choice([0, 0, 1, 2])))
    edges = [0, *cuts, len(events)]
    parts = [events[begin:end] for begin, end in pairwise(edges) if begin < end]
    random.shuffle(parts)
    return parts

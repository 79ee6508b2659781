"""The world of one simulation: the state that its programs share, and the trace."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from longwatch.following.run_channel import RunChannel
from longwatch.journal.base import Journal
from longwatch.journal.dynamodb.reader import TableReader
from longwatch.model.event import Event
from longwatch.testing.simulation.consumers import CheckedConsumer, Consumer, SavingConsumer
from longwatch.testing.simulation.hubs import MakeChannel, SimulatedHub
from longwatch.testing.simulation.network import FaultModel, Network
from longwatch.testing.simulation.plan import SimulationPlan
from longwatch.testing.simulation.stores import JournalStore, MakeReader, Store, open_store
from longwatch.testing.simulation.virtual_loop import LoopClock, SimulatedThreads, VirtualLoop


@dataclass
class SimulationCounts:
    """Counts for a summary, which can be added over many seeds."""

    events: int = 0  # in the stores
    delivered: int = 0  # to followers and subscribers, including repetitions after a crash
    virtual_seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)  # by kind
    endings: Counter[str] = field(default_factory=Counter)  # of watches, by reason

    def add(self, other: SimulationCounts) -> None:
        self.events += other.events
        self.delivered += other.delivered
        self.virtual_seconds += other.virtual_seconds
        self.faults += other.faults
        self.endings += other.endings


class Trace:
    """A digest of all steps, and on request their lines."""

    def __init__(self, now: Callable[[], float], *, keep: bool) -> None:
        self.lines: list[str] = []
        self._now = now
        self._keep = keep
        self._digest = hashlib.sha256()

    def mark(self, who: str, what: str) -> None:
        """Add a step at the current time."""
        line = f"{self._now():11.6f} {who}: {what}"
        self._digest.update(line.encode())
        self._digest.update(b"\n")
        if self._keep:
            self.lines.append(line)

    @property
    def digest(self) -> str:
        """Equal for equal lines."""
        return self._digest.hexdigest()[:32]


def named(events: Iterable[object]) -> str:
    """The IDs of events, for the trace."""
    return " ".join(str(getattr(event, "event_id", event)) for event in events)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedParts:
    """The parts of longwatch that a planted bug replaces."""

    make_reader: MakeReader = TableReader
    make_channel: MakeChannel = RunChannel
    service_overrides: tuple[type, ...] = ()  # bases in front of the polling service


MakeConsumer = Callable[[str], Consumer]
MakeJournal = Callable[[LoopClock], Journal]


class World:
    """The store, faults, network, counts and trace of one seed."""

    def __init__(
        self,
        seed: int,
        plan: SimulationPlan,
        *,
        parts: SimulatedParts,
        make_journal: MakeJournal | None,
        make_consumer: MakeConsumer | None,
        keep_trace: bool,
    ) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.seed = seed
        self.plan = plan
        self.parts = parts
        self.loop = loop
        self.clock = LoopClock()
        self.counts = SimulationCounts()
        self.trace = Trace(loop.time, keep=keep_trace)
        self.problems: list[str] = []
        self._is_broken = asyncio.Event()
        self.is_calm = asyncio.Event()  # all runs are over, and faults have stopped
        self.gone: set[int] = set()  # IDs of processes that exited without reporting an outcome
        self.faults = FaultModel(plan.rates, self.random("weather"), loop.time, self.count)
        self.network = Network(self.random("network"), self.faults.delay, self._landed)
        self.faults.writes_land(self.network.land_one)
        self.store: Store
        if make_journal is None:
            self.store = open_store(
                plan.store, self.clock, page_items=plan.page_items, make_reader=parts.make_reader
            )
        else:
            self.store = JournalStore(make_journal(self.clock))
        self._make_consumer = make_consumer
        self._threads = SimulatedThreads(loop, self.faults.delays)

    def random(self, who: str) -> Random:
        """A random generator for each program, so that programs do not influence each other."""
        return Random(f"{self.seed}/{who}")

    def count(self, fault: str) -> None:
        """Count a simulated fault."""
        self.counts.faults[fault] += 1

    def broken(self, error: Exception) -> None:
        """Report a problem. Only the first counts: others may be its consequences."""
        if not self.problems:
            self.problems.append(str(error))
            self.mark("simulation", f"broken: {str(error).partition(chr(10))[0]}")
            self._is_broken.set()

    async def until_broken(self) -> None:
        """Wait for the first problem."""
        await self._is_broken.wait()

    def mark(self, who: str, what: str) -> None:
        self.trace.mark(who, what)

    def hub(
        self,
        journal: Journal,
        *,
        sees_processes: bool = False,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> SimulatedHub:
        """A hub as in a separate process."""
        kind = type("_Hub", (SimulatedHub,), {"make_channel": self.parts.make_channel})
        hub: SimulatedHub = kind(
            journal,
            clock=self.clock,
            executor=self._threads,
            buffer_events=self.plan.buffer_events,
            page_events=self.plan.page_events,
            on_failure=on_failure,
        )
        hub.gone = self.gone if sees_processes else None
        return hub

    def consumer(self, run_id: str, who: str) -> CheckedConsumer:
        """A new consumer of this run."""
        if self._make_consumer is not None:
            return CheckedConsumer(run_id, self._make_consumer(run_id))
        return CheckedConsumer(run_id, SavingConsumer(self.random(f"{who}/saving").choice([1, 1, 3, 8])))

    def _landed(self, answer: str, events: Sequence[Event]) -> None:
        self.mark("store", f"{answer} {named(events)}")

"""What simulated pollers meet: a store, a journal and a DRS, each of which may fail, and time that jumps.

Everything happens in one thread. Before and after each call of a machine to the outside, chance may let it
fail, let the machine die there, or let another program do a whole piece of work first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

from longwatch.errors import JournalUnavailable, LongwatchError, Unreachable
from longwatch.executions.model import Execution, ExecutionKey, Job, JobState
from longwatch.executions.responses import SourceResponse
from longwatch.executions.sources.base import SourceProblem, SourceResult
from longwatch.executions.sources.dates import observed_at
from longwatch.executions.sources.drs import parse_job
from longwatch.executions.stores.base import DEFAULT_LIST_LIMIT, ListPosition
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.journal.base import DEFAULT_READ_LIMIT
from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import START, Cursor, Event, Page
from longwatch.model.summary import Status
from longwatch.testing.clock import FakeClock
from longwatch.testing.simulation.world import SimulationCounts, Trace
from tests.simulation.executions.faults import Fault
from tests.simulation.executions.plans import ExecutionPlan, JobPlan

DEEPEST = 2  # pieces of work inside each other


class Died(BaseException):
    """The machine's process ended here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionFaultRates:
    """How bad it gets. Shares are of all calls."""

    fails: float = 0.0  # before anything was done
    lost: float = 0.0  # it was done, and the caller is not notified
    dies: float = 0.0
    between: float = 0.0  # another program comes in between
    stale: float = 0.0  # the index shows what was true before
    throttled: float = 0.0
    silent: float = 0.0  # the source does not respond
    late: float = 0.0  # a response is settled long after it was sent


CALM = ExecutionFaultRates()


class ExecutionWorld:
    """Time, chance, and everything that is shared."""

    def __init__(
        self,
        seed: int,
        plans: Sequence[ExecutionPlan],
        fault_rates: ExecutionFaultRates,
        *,
        keep: bool,
        faults: frozenset[Fault] = frozenset(),
    ) -> None:
        self.clock = FakeClock()
        self.start = self.clock.now_ms()
        self.plans = {plan.key: plan for plan in plans}
        self.fault_rates = fault_rates
        self.faults = faults
        self.random = Random(f"{seed}/world")
        self.store = MemoryExecutionStore()
        self.journal = MemoryJournal(clock=self.clock)
        self.counts = SimulationCounts()
        self.trace = Trace(lambda: self.seconds, keep=keep)
        self.polled_at: dict[tuple[ExecutionKey, int], float] = {}  # by execution and stamp: true seconds
        self.visible: dict[ExecutionKey, set[tuple[str, str]]] = {}  # what settled responses contained
        self.in_between: Callable[[str], None] = lambda who: None  # what another program might do
        self.depth = 0
        self._tasks: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self.shown_before: list[Execution] = []

    @property
    def seconds(self) -> float:
        return self.clock.monotonic()

    def later(self, seconds: float, task: Callable[[], None]) -> None:
        """Do this after so many seconds."""
        heappush(self._tasks, (self.seconds + max(0.0, seconds), next(self._numbers), task))

    def run(self, until: float) -> None:
        """Let time pass, task by task."""
        while self._tasks and self._tasks[0][0] <= until:
            at, _, task = heappop(self._tasks)
            self.clock.advance(max(0.0, at - self.seconds))
            task()
        self.clock.advance(max(0.0, until - self.seconds))

    def chance(self, share: float) -> bool:
        return share > 0 and self.random.random() < share

    def fault(self, kind: str) -> None:
        self.counts.faults[kind] += 1

    @contextmanager
    def call(self, who: str, what: str, error: Callable[[str], LongwatchError]) -> Iterator[None]:
        """One call to the outside, and what may befall it."""
        fault_rates = self.fault_rates
        if fault_rates is CALM:
            yield
            return
        self._maybe_between(who, what)
        if self.chance(fault_rates.dies):
            self.die(who, f"before {what}")
        if self.chance(fault_rates.fails):
            self.fault(f"{what} failed")
            raise error("not reached, by the simulation")
        yield
        if self.chance(fault_rates.dies):
            self.die(who, f"after {what}")
        if self.chance(fault_rates.lost):
            self.fault(f"{what} lost")
            raise error("done, and the answer was lost, by the simulation")
        self._maybe_between(who, what)

    def _maybe_between(self, who: str, what: str) -> None:
        if self.depth < DEEPEST and self.chance(self.fault_rates.between):
            self.fault("another program came in between")
            self.trace.mark(who, f"is interrupted at {what}")
            self.depth += 1
            try:
                self.in_between(who)
            finally:
                self.depth -= 1

    def die(self, who: str, where: str) -> None:
        self.fault("pollers died")
        self.trace.mark(who, f"dies {where}")
        raise Died

    def raw(self, plan: ExecutionPlan) -> Mapping[str, Any] | None:
        """The record as another program reads it."""
        found = self.store.get(plan.execution_id, plan.plan_id)
        return None if found is None else found.stored

    def now_of(self, plan: ExecutionPlan) -> float:
        """Seconds since the execution began."""
        return self.seconds - plan.begins


class FragileStore:
    """The store as one machine reaches it."""

    def __init__(self, world: ExecutionWorld, who: str) -> None:
        self._world, self._who = world, who

    def add(self, execution: Execution) -> Execution:
        return self._world.store.add(execution)

    def get(self, execution_id: str, plan_id: str | None = None) -> Execution | None:
        with self._world.call(self._who, "get", Unreachable):
            return self._world.store.get(execution_id, plan_id)

    def update(self, execution: Execution) -> Execution:
        with self._world.call(self._who, "update", Unreachable):
            stored = self._world.store.update(execution)
            self._world.trace.mark(self._who, f"wrote {execution.key} {stored.version}")
        return stored

    def open_executions(self) -> Iterator[Execution]:
        with self._world.call(self._who, "query", Unreachable):
            found = list(self._world.store.open_executions())
        world = self._world
        shown = world.shown_before if world.chance(world.fault_rates.stale) else found
        world.shown_before = found
        return iter(shown)

    def unsettled(self, now_ms: int) -> Iterator[Execution]:
        with self._world.call(self._who, "query", Unreachable):
            return iter(list(self._world.store.unsettled(now_ms)))

    def find(
        self,
        *,
        status: Status | None = None,
        limit: int = DEFAULT_LIST_LIMIT,
        after: ListPosition | None = None,
    ) -> Sequence[Execution]:
        with self._world.call(self._who, "query", Unreachable):
            return self._world.store.find(status=status, limit=limit, after=after)

    def close(self) -> None:
        """Nothing to close."""


class FragileJournal(MemoryJournal):
    """The journal as one machine reaches it."""

    def __init__(self, world: ExecutionWorld, who: str) -> None:
        super().__init__(clock=world.clock)
        self._world, self._who = world, who

    def append(self, events: Sequence[Event]) -> None:
        with self._world.call(self._who, "append", JournalUnavailable):
            self._world.journal.append(events)
            self._world.trace.mark(self._who, f"stored {' '.join(event.event_id for event in events)}")

    def read(
        self, run_id: str, *, after: Cursor = START, limit: int = DEFAULT_READ_LIMIT, thorough: bool = False
    ) -> Page:
        with self._world.call(self._who, "read", JournalUnavailable):
            return self._world.journal.read(run_id, after=after, limit=limit, thorough=thorough)


class SimulatedDrs:
    """A `Source` that plays the plans. It dates its responses; the polling machine has its own clock."""

    name = "drs"

    def __init__(self, world: ExecutionWorld, now_ms: Callable[[], int], who: str) -> None:
        self._world, self._now_ms, self._who = world, now_ms, who

    def poll(self, executions: Sequence[Execution]) -> Mapping[ExecutionKey, SourceResult]:
        world = self._world
        if world.fault_rates is not CALM and world.chance(world.fault_rates.dies):
            world.die(self._who, "while polling")
        problem: SourceProblem | None = None
        if world.chance(world.fault_rates.throttled):
            pause = world.random.choice([None, 3.0, 40.0])
            problem = SourceProblem("throttled, by the simulation", pause, throttled=True)
            world.fault("throttled")
        elif world.chance(world.fault_rates.silent):
            problem = SourceProblem("no answer, by the simulation")
            world.fault("responses lost")
        return {each.key: problem or self._answer(each) for each in executions}

    def _answer(self, execution: Execution) -> SourceResponse:
        plan, local = self._world.plans[execution.key], self._now_ms()
        at = observed_at(local, [self._world.clock.now_ms() // 1000 * 1000])
        seconds = self._world.now_of(plan)
        self._world.polled_at[execution.key, at] = seconds
        self._world.polled_at.setdefault((execution.key, self._now_ms()), seconds)
        jobs_by_id = {job.job_id: job for job in plan.jobs}
        jobs: dict[str, Job] = {}
        for job_id in execution.job_ids():
            description = described(jobs_by_id[job_id], seconds)
            if description is not None:
                jobs[job_id] = description
        missing = frozenset(execution.job_ids()) - jobs.keys()
        return SourceResponse("drs:DescribeJobs", at, jobs, missing, polled_at=local, is_dated=True)

    def close(self) -> None:
        """Nothing to close."""


def described(plan: JobPlan, seconds: float) -> Job | None:
    """The job as its service describes it, so many seconds after the start of the execution."""
    if seconds < plan.begins or plan.is_gone(seconds):
        return None
    item = plan.script.at(seconds - plan.begins, job_id=plan.job_id, started_at=0)
    if item is None:
        return None
    job = parse_job(item)
    cancelled = any(entry.event == "JOB_CANCEL" for entry in plan.script.log)
    return replace(job, cancelled=True) if cancelled and job.state is JobState.FINISHED else job

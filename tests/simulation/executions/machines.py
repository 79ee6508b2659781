"""Who works on simulated executions: pollers of both kinds, on machines that die, and their orchestrator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from longwatch.clock import Clock
from longwatch.errors import LongwatchError
from longwatch.executions.finder import Finder
from longwatch.executions.model import Execution, ExecutionKey
from longwatch.executions.poller import Claim, Poller, PollReport, Result
from longwatch.executions.sources.base import SourceProblem, SourceResult
from longwatch.executions.stores.records import is_set_by_others
from longwatch.executions.watcher import Watcher
from tests.simulation.executions.faults import Fault
from tests.simulation.executions.plans import ExecutionPlan, WavePlan
from tests.simulation.executions.world import (
    CALM,
    Died,
    ExecutionWorld,
    FragileJournal,
    FragileStore,
    SimulatedDrs,
)

TICK_SECONDS = 15.0
POLL_SECONDS = 8.0
CALM_TICK_SECONDS = 30.0
MAX_SKEW_MS = 2_000
FAR_SKEW_MS = 50_000  # two such clocks are up to 100 seconds apart
JUMP_MS = 600_000


class Noting(Poller):
    """A poller of which the simulation knows what it has written down."""

    def __init__(self, world: ExecutionWorld, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._world = world

    def settle(self, claim: Claim, result: SourceResult) -> PollReport:
        polled = super().settle(claim, result)
        # A late poller may find an end that another program wrote, and reports that instead of the response.
        is_written = polled.result in (Result.POLLED, Result.ENDED) and not is_set_by_others(polled.execution)
        if is_written and not isinstance(result, SourceProblem):
            seen = self._world.visible.setdefault(claim.execution.key, set())
            for job in result.jobs.values():
                seen |= {(each.item_id, each.state.value) for each in job.items}
        return polled


class Skewed:
    """A clock that is wrong by so many milliseconds, and by more from each of these moments on."""

    def __init__(self, clock: Clock, skew_ms: int, jumps: Sequence[tuple[float, int]] = ()) -> None:
        self._clock, self._skew, self._jumps = clock, skew_ms, jumps

    def now_ms(self) -> int:
        jumped = sum(by for at, by in self._jumps if at <= self._clock.monotonic())
        return self._clock.now_ms() + self._skew + jumped

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing sleeps in the simulation")


class Machine:
    """A process that polls. It dies where chance wants it, and comes back as another."""

    def __init__(self, world: ExecutionWorld, name: str) -> None:
        self.world, self.name = world, name
        self.random = Random(f"{world.random.random()}/{name}")
        self.clock = Skewed(world.clock, self.random.randint(-MAX_SKEW_MS, MAX_SKEW_MS))
        if Fault.CLOCKS in world.faults:
            self.clock = _wrong_clock(world, Random(f"{self.random.random()}/clock"))
        self._lives = 0
        self._start()

    def _start(self) -> None:
        self._lives += 1
        self.store = FragileStore(self.world, self.name)
        self.poller = Noting(
            self.world,
            self.store,
            FragileJournal(self.world, self.name),
            {"drs": SimulatedDrs(self.world, self.clock.now_ms, self.name)},
            clock=self.clock,
            holder=f"{self.name}-{self._lives}",
            report=self._count,
        )

    def guarded(self, work: Callable[[], None], *, again: Callable[[], None] | None = None) -> None:
        """Do this piece of work. A machine that died starts anew, without what it had in memory."""
        try:
            work()
        except Died:
            self._start()
        except LongwatchError as error:
            self.world.trace.mark(self.name, f"gives up: {type(error).__name__}")
        if again is not None:
            again()

    def poll(self, key: ExecutionKey) -> None:
        """Poll one execution; the response may be settled much later."""
        claim = self.poller.claim(key.execution_id, key.plan_id)
        if not isinstance(claim, Claim):
            return
        result = self.poller.poll_sources([claim])[claim.execution.key]
        if self.world.fault_rates is CALM or self.world.depth:
            self.settle(self.poller, claim, result)
            return
        is_late = self.world.chance(self.world.fault_rates.late)
        delay = self.random.uniform(20.0, 150.0) if is_late else self.random.uniform(0.0, 1.0)
        poller = self.poller
        self.world.later(delay, lambda: self.guarded(lambda: self.settle(poller, claim, result)))

    def settle(self, poller: Poller, claim: Claim, result: SourceResult) -> None:
        if poller is not self.poller:
            return  # the process that had polled is dead
        poller.settle(claim, result)

    def _pause(self, seconds: float) -> float:
        """Nothing races once it is calm, so that it is enough to poll now and then."""
        return CALM_TICK_SECONDS if self.world.fault_rates is CALM else seconds

    def _count(self, polled: PollReport) -> None:
        self.world.counts.delivered += 1
        if polled.result is not Result.EARLY:
            self.world.trace.mark(self.name, f"{polled.execution.key} {polled.result}")

    def begin(self) -> None:
        """From now on it works by itself."""


def _wrong_clock(world: ExecutionWorld, random: Random) -> Skewed:
    """A clock that is wrong by up to 50 seconds, or jumps by ten minutes and perhaps back."""
    skew = random.choice([-1, 1]) * random.randint(0, FAR_SKEW_MS)
    if random.random() < 0.5:
        return Skewed(world.clock, skew)
    world.fault("clocks that jumped")
    at, by = random.uniform(0.0, 300.0), random.choice([-1, 1]) * JUMP_MS
    back = [(at + random.uniform(10.0, 300.0), -by)] if random.random() < 0.5 else []
    return Skewed(world.clock, skew, [(at, by), *back])


class LambdaMachine(Machine):
    """A finder that hands out polls, as on AWS: late, twice, or not at all."""

    def begin(self) -> None:
        self.world.later(self.random.uniform(0.0, TICK_SECONDS), self._tick)

    def _tick(self) -> None:
        self.guarded(self._find, again=lambda: self.world.later(self._pause(TICK_SECONDS), self._tick))

    def _find(self) -> None:
        Finder(self.store, self._dispatch, clock=self.clock).run(0.0)

    def _dispatch(self, execution: Execution) -> None:
        chance = 1.0 if self.world.fault_rates is CALM else self.random.random()
        if chance < 0.03:
            self.world.fault("polls never begun")
            return
        if chance < 0.06:
            self.world.fault("polls begun twice")
        for _ in range(2 if chance < 0.06 else 1):
            self.world.later(self.random.uniform(0.0, 2.0), lambda: self._poll(execution.key))

    def _poll(self, key: ExecutionKey) -> None:
        self.guarded(lambda: self.poll(key))


class EmbeddedMachine(Machine):
    """Finder and poller in one process, which polls all executions in one request."""

    def _start(self) -> None:
        super()._start()
        self.watcher = Watcher(self.store, self.poller, clock=self.clock)

    def begin(self) -> None:
        self.world.later(self.random.uniform(0.0, POLL_SECONDS), self._round)

    def _round(self) -> None:
        self.guarded(self._poll, again=lambda: self.world.later(self._pause(POLL_SECONDS), self._round))

    def _poll(self) -> None:
        self.watcher.poll_due()


class Orchestrator:
    """The program that started the jobs. It writes to the same records, and knows nothing of versions."""

    def __init__(self, world: ExecutionWorld) -> None:
        self._world = world
        self.cancelled: set[ExecutionKey] = set()
        self.statuses: dict[ExecutionKey, str] = {}  # what it has set last, beside a cancel

    def begin(self) -> None:
        for plan in self._world.plans.values():
            self._world.later(plan.begins, lambda plan=plan: self._store(plan))  # type: ignore[misc]

    def _store(self, plan: ExecutionPlan) -> None:
        waves = [self._wave(wave, plan) for wave in plan.waves if wave.stored <= 0]
        started = self._world.clock.now_ms() / 1000
        record: dict[str, Any] = {
            "ExecutionId": plan.execution_id,
            "PlanId": plan.plan_id,
            "Status": "POLLING",
            "StartTime": started,
            "ExecutionType": plan.mode.value,
            "Waves": waves,
            "TotalWaves": len(plan.waves) if plan.states_total else None,
            "Deadline": plan.deadline,
            "Version": 1,
            "Notes": "not ours",
        }
        if plan.foreign:
            for ours in ("TotalWaves", "Deadline", "Version"):
                del record[ours]
        self._world.store.write(record)
        self._world.trace.mark("orchestrator", f"stores {plan.key}")
        for wave in plan.waves:
            if wave.stored > 0:
                self._at(wave.stored, lambda wave=wave: self._add_wave(plan, wave))  # type: ignore[misc]
            for job in wave.jobs:
                if job.begins > 0:
                    moment = max(job.begins, wave.stored)
                    self._at(moment, lambda wave=wave: self._refresh(plan, wave))  # type: ignore[misc]
        if plan.cancelled is not None:
            self._at(plan.cancelled, lambda: self.cancel(plan))
        for at, status in plan.statuses:
            self._at(at, lambda status=status: self.set_status(plan, status))  # type: ignore[misc]

    def _at(self, seconds: float, task: Callable[[], None]) -> None:
        self._world.later(seconds, task)

    def _wave(self, wave: WavePlan, plan: ExecutionPlan) -> dict[str, Any]:
        now = self._world.now_of(plan)
        return {
            "WaveName": wave.name,
            "Servers": [{"SourceServerId": each, "Owner": "not ours"} for each in wave.planned],
            "JobIds": [job.job_id for job in wave.jobs if job.begins <= now + 0.001],
        }

    def _add_wave(self, plan: ExecutionPlan, wave: WavePlan) -> None:
        self._world.fault("waves added meanwhile")
        self._change(plan, lambda waves: [*waves, self._wave(wave, plan)])

    def _refresh(self, plan: ExecutionPlan, wave: WavePlan) -> None:
        """Write the ids of the jobs that have begun into their wave."""
        ids = self._wave(wave, plan)["JobIds"]
        self._change(
            plan,
            lambda waves: [
                {**each, "JobIds": ids} if each["WaveName"] == wave.name else each for each in waves
            ],
        )

    def _change(self, plan: ExecutionPlan, change: Callable[[list[Any]], list[Any]]) -> None:
        record = self._world.raw(plan)
        if record is not None and _seems_open(record):
            self._world.store.write({**record, "Waves": change(list(record["Waves"]))})
            self._world.trace.mark("orchestrator", f"writes waves of {plan.key}")

    def cancel(self, plan: ExecutionPlan) -> None:
        """Cancel it, if it seems to be open."""
        record = self._world.raw(plan)
        if record is None or not _seems_open(record) or plan.cancelled is None:
            return
        self.cancelled.add(plan.key)
        self._world.trace.mark("orchestrator", f"cancels {plan.key}")
        now = self._world.clock.now_ms() // 1000
        self._world.store.write({**record, "Status": "CANCELLED", "EndTime": now})

    def set_status(self, plan: ExecutionPlan, status: str) -> None:
        """Set a status that longwatch does not have, if the execution seems to be open."""
        record = self._world.raw(plan)
        if record is None or not _seems_open(record):
            return
        self.statuses[plan.key] = status
        self._world.trace.mark("orchestrator", f"sets {plan.key} to {status}")
        self._world.store.write({**record, "Status": status})


def _seems_open(record: Mapping[str, Any]) -> bool:
    """Whether its status is not an end, to another program."""
    return record["Status"] not in ("COMPLETED", "PARTIAL", "FAILED", "CANCELLED", "UNKNOWN")


class Meddling:
    """The work of another machine, or of the orchestrator, done in the middle of a machine's."""

    def __init__(self, world: ExecutionWorld, machines: list[Machine], orchestrator: Orchestrator) -> None:
        self._world, self._machines, self._orchestrator = world, machines, orchestrator
        self._random = Random(f"{world.random.random()}/meddling")

    def __call__(self, who: str) -> None:
        plan = self._random.choice(list(self._world.plans.values()))
        if self._world.raw(plan) is None:
            return
        due = plan.cancelled is not None and self._world.now_of(plan) > plan.cancelled - 60
        if due and self._random.random() < 0.5:
            self._orchestrator.cancel(plan)
            return
        if plan.statuses and self._random.random() < 0.5:
            at, status = self._random.choice(plan.statuses)
            if self._world.now_of(plan) > at - 60:
                self._orchestrator.set_status(plan, status)
                return
        others = [each for each in self._machines if each.name != who]
        if others:
            other = self._random.choice(others)
            other.guarded(lambda: other.poll(plan.key))

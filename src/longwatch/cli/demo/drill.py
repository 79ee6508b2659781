"""A recovery drill beside the workflow: three waves of servers in another system, watched to their verdict.

The drill's orchestrator starts one wave after the other; longwatch only polls. One server fails to launch, so
the drill ends as partial. Drills of earlier weeks are in the journal, and the ETA is based on them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from longwatch.cli.demo.part import DemoPart
from longwatch.cli.demo.service import REGION, DrillService, FastSource, ScriptedJobs, drs_service
from longwatch.cli.render.styles import STATUS_LOOKS, Segment, StyledLine
from longwatch.cli.render.times import duration_text
from longwatch.clock import Clock
from longwatch.errors import LongwatchError
from longwatch.executions.compose import WatchingParts
from longwatch.executions.model import Evidence, Execution, Job, Stage, Verdict
from longwatch.executions.outcomes import stage_outcome
from longwatch.executions.progress import progress_of
from longwatch.executions.stores.base import ExecutionStore
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.executions.transitions import append_new, end_event, start_event
from longwatch.journal.base import Journal
from longwatch.journal.memory import MemoryJournal
from longwatch.model.summary import Status
from longwatch.settings import Settings
from longwatch.testing.clock import FakeClock
from longwatch.testing.drs.scripts import JobScript, drill, server_id_of

PLAN = "demo-east-coast"
WAVES = (
    ("databases", ("dborders", "dbusers", "dbaudit")),
    ("services", ("svcapi", "svcmail", "svcsearch", "svcbilling")),
    ("front", ("web1", "web2")),
)
LOST = "svcsearch"
WHY = "InsufficientInstanceCapacity: no r6i.large is left in eu-north-1b"
NEXT_WAVE_SECONDS = 1.5  # the waves overlap; all at the pace for people
PENDING_SECONDS, ACTIVE_SECONDS, SPREAD_SECONDS = 0.7, 1.4, 0.25
POLL_SECONDS, MIN_POLL_SECONDS = 0.3, 0.05
PAST_DRILLS = 10  # as many as an ETA needs
PAST_POLLS = (0.2, 1.2, 2.4, 5.6)  # seconds after the start, one poll for each phase and one at the end
WEEK_MS = 7 * 86_400_000
BAR_COLUMNS = 28
PLAIN_COLUMNS = 100  # without a terminal
MAX_FAILURES = 2  # of the local service: retrying does not help, and the demo has to end


class Drill(DemoPart):
    """Plays the drill, and watches it as `longwatch executions watch` would.

    A drill that is stopped is cancelled, because its service ends with this process.
    """

    def __init__(self, journal: Journal, settings: Settings, clock: Clock, *, pace: float) -> None:
        super().__init__(self._run_drill, pace=pace)
        self._journal = journal
        self._settings = settings
        self._clock = clock
        self.execution_id = f"drill-{os.urandom(3).hex()}"
        self.path = f"executions/{self.execution_id}"
        self.now: Execution | None = None  # as it was last seen

    def line(self, width: int) -> StyledLine | None:
        """Its progress, for the picture in the terminal."""
        return None if self.now is None else drill_line(self.now, now_ms=self._clock.now_ms(), width=width)

    def _run_drill(self) -> None:
        poll_seconds = max(MIN_POLL_SECONDS, POLL_SECONDS * self._pace)
        speed = 1 / self._pace
        with (
            drs_service(self._clock, speed=speed, interval_ms=round(poll_seconds * 1000)) as service,
            WatchingParts(
                replace(self._settings, ttl_hours=None),
                journal=self._journal,
                sources={"drs": service.source},
                learned=False,  # the script of the demo decides when to poll
                clock=self._clock,
            ) as parts,
        ):
            record_past_drills(parts.store, self._journal, self._clock)
            self._watch(parts, service.jobs, poll_seconds)

    def _watch(self, parts: WatchingParts, jobs: DrillService, poll_seconds: float) -> None:
        store, poller = parts.store, parts.poller
        self.now = store.add(new_drill(self.execution_id, self._clock.now_ms()))
        append_new(self._journal, [start_event(self.now)])
        orchestrator = DemoOrchestrator(jobs, NEXT_WAVE_SECONDS * self._pace, self._clock)
        while not self.now.closed and not self._stopped.is_set():
            changed = orchestrator.next_stage(self.now)
            if changed is not None:
                self.now = store.update(changed)
            polled = poller.poll(self.execution_id, self.now.plan_id)
            self.now = polled.execution
            if polled.problem is not None and self.now.failures >= MAX_FAILURES:
                raise LongwatchError(polled.problem.message)
            self._stopped.wait(poll_seconds)
        if not self.now.closed:
            self._cancel(store, self.now)

    def _cancel(self, store: ExecutionStore, execution: Execution) -> None:
        """Cancel it as its orchestrator would, so that no poller polls the real DRS for it later."""
        now = self._clock.now_ms()
        verdict = Verdict(Status.CANCELLED, now, (Evidence("demo:stopped", now),), "the demo was stopped")
        append_new(self._journal, [end_event(execution, verdict)])
        self.now = store.update(replace(execution, verdict=verdict, closed=True))


class DemoOrchestrator:
    """Starts one wave after the other, as the orchestrator of a plan does."""

    def __init__(self, jobs: DrillService, seconds: float, clock: Clock) -> None:
        self._jobs = jobs
        self._seconds = seconds
        self._clock = clock
        self._next_at = 0.0

    def next_stage(self, execution: Execution) -> Execution | None:
        """The execution with the job of the next wave, if it is due."""
        number = sum(bool(wave.jobs) for wave in execution.stages)
        if number == len(WAVES) or self._clock.monotonic() < self._next_at:
            return None
        self._next_at = self._clock.monotonic() + self._seconds
        name = f"{execution.execution_id[-6:]}w{number}"
        job_id = self._jobs.play(script_of(WAVES[number][1]), job_id=name)
        wave = replace(execution.stages[number], jobs=(Job(job_id, region=REGION),))
        return replace(execution, stages=(*execution.stages[:number], wave, *execution.stages[number + 1 :]))


def new_drill(execution_id: str, now_ms: int) -> Execution:
    """A drill with planned waves, none of which has begun."""
    waves = tuple(Stage(name, (), tuple(map(server_id_of, servers))) for name, servers in WAVES)
    return Execution(
        execution_id=execution_id,
        plan_id=PLAN,
        name="East coast drill",
        started_at=now_ms - now_ms % 1000,
        stages=waves,
        total_stages=len(waves),
    )


def script_of(
    servers: tuple[str, ...], *, pending: float = PENDING_SECONDS, slower: float = 1.0
) -> JobScript:
    """A job that launches these servers, except for the one that fails."""
    active = ACTIVE_SECONDS * slower
    script = drill(*servers, pending=pending, active=active, spread=SPREAD_SECONDS * slower)
    return script.without(LOST, after=pending + active, error=WHY) if LOST in servers else script


def record_past_drills(store: ExecutionStore, journal: Journal, clock: Clock) -> None:
    """Record drills of earlier weeks, unless they are stored already."""
    memory_store, memory = MemoryExecutionStore(), MemoryJournal()
    played = []
    for number in range(PAST_DRILLS, 0, -1):
        execution_id = f"demo-drill-{number:02}"
        if store.get(execution_id, PLAN) is None:
            played.append(
                _past_drill(memory_store, memory, execution_id, clock.now_ms() - number * WEEK_MS, number)
            )
    events = [event for each in played for event in memory.read(each.run_id).events]
    if events:
        journal.append(events)  # at once: ten drills of thirty writes each would be slow
    for each in played:
        store.add(each)


def _past_drill(
    store: ExecutionStore, journal: Journal, execution_id: str, began: int, number: int
) -> Execution:
    past = FakeClock(began - began % 1000)
    slower = 1.0 + 0.06 * (number * 5 % 7)
    jobs = ScriptedJobs(past)
    waves = []
    for at, (name, servers) in enumerate(WAVES):
        pending = (PENDING_SECONDS + at * NEXT_WAVE_SECONDS) * slower
        script = script_of(servers[:2], pending=pending, slower=slower)
        waves.append(Stage(name, (Job(jobs.play(script, job_id=f"past{number}x{at}"), region=REGION),)))
    now = store.add(replace(new_drill(execution_id, past.now_ms()), stages=tuple(waves)))
    poller = WatchingParts(
        Settings("memory://"), store=store, journal=journal, sources={"drs": FastSource(jobs, 1)}, clock=past
    ).poller
    for seconds in PAST_POLLS:
        past.set(now.started_at + round(seconds * slower * 1000))
        now = poller.poll(now.execution_id, now.plan_id).execution
    return now


def drill_line(execution: Execution, *, now_ms: int, width: int) -> StyledLine:
    """The name, a bar of the servers that are done, and the number of waves that have ended."""
    progress = progress_of(execution)
    outcomes = [stage_outcome(wave, execution.mode, execution.observed_at) for wave in execution.stages]
    over = sum(outcome is not None for outcome in outcomes)
    symbol, style = STATUS_LOOKS[execution.status]
    at = execution.verdict.at if execution.verdict else now_ms
    counts = f" {progress.text()}, {over}/{len(outcomes)} waves  "
    counts += duration_text(max(0, at - execution.started_at))
    bar = max(0, min(BAR_COLUMNS, width - len(counts) - len(execution.name or "") - 6))
    filled = bar * progress.done // max(1, progress.total)
    return [
        Segment(f"{symbol} {execution.name}  ", style),
        Segment("━" * filled, style),
        Segment("┄" * (bar - filled), "dim"),
        Segment(counts, "dim"),
    ]


def ended_lines(execution: Execution, *, now_ms: int, width: int | None) -> Iterator[StyledLine]:
    """How the drill ended: the bar, each wave, and the reasons."""
    yield drill_line(execution, now_ms=now_ms, width=width or PLAIN_COLUMNS)
    for wave in execution.stages:
        outcome = stage_outcome(wave, execution.mode, execution.observed_at)
        symbol, style = STATUS_LOOKS[outcome.status if outcome else Status.RUNNING]
        states = Counter(server.state.value for server in wave.items())
        text = ", ".join(f"{count} {state}" for state, count in states.items())
        yield [Segment(f"  {symbol} ", style), Segment(f"{wave.name:<10} "), Segment(text, "dim")]
    if execution.verdict is not None:
        symbol, style = STATUS_LOOKS[execution.status]
        yield [
            Segment(f"  {execution.status}", style),
            Segment(f": {execution.verdict.message or 'every server was launched'}", "dim"),
        ]

"""What each simulated execution does, drawn by chance: its jobs as scripts, its waves, and its cancel."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from longwatch.executions.model import ExecutionKey, Mode
from longwatch.testing.drs.scripts import ActionScript, JobScript, ServerScript, Steps, server_id_of

NEVER = float("inf")
LONGEST_PENDING, LONGEST_ACTIVE = 110.0, 130.0  # seconds; short phases, so that many can be played
GONE_FOR = (20.0, 90.0)  # seconds that a job is missing for a while


@dataclass(frozen=True, slots=True)
class JobPlan:
    """One job: when it begins, what it does, and when its service does not know it."""

    job_id: str
    begins: float  # seconds after the start of the execution
    script: JobScript
    gone: tuple[float, float] | None = None  # seconds after the start of the execution; may be for ever

    def is_gone(self, seconds: float) -> bool:
        return self.gone is not None and self.gone[0] <= seconds < self.gone[1]


@dataclass(frozen=True, slots=True)
class WavePlan:
    """One wave: its jobs, which servers the plan names, and when its orchestrator stores it.

    A job is stored when it begins.
    """

    name: str
    jobs: tuple[JobPlan, ...]
    planned: tuple[str, ...] = ()
    stored: float = 0.0  # seconds after the start of the execution


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPlan:
    """One execution, as far as chance decides it beforehand."""

    execution_id: str
    plan_id: str = "plan-1"
    mode: Mode
    begins: float  # seconds after the start of the simulation
    waves: tuple[WavePlan, ...]
    states_total: bool = True  # else the number of waves is never stated
    deadline: float | None = None  # seconds
    cancelled: float | None = None  # seconds after its start at which its orchestrator cancels it
    statuses: tuple[tuple[float, str], ...] = ()  # seconds after its start, and what another program sets
    decided: tuple[float, str] | None = None  # seconds after its start, and what an operator decides
    foreign: bool = False  # its record has nothing of ours, as an earlier phase wrote it
    words: list[str] = field(default_factory=list)  # what is odd about it, for the summary

    @property
    def key(self) -> ExecutionKey:
        return ExecutionKey(self.plan_id, self.execution_id)

    @property
    def jobs(self) -> tuple[JobPlan, ...]:
        return tuple(job for wave in self.waves for job in wave.jobs)

    @property
    def last(self) -> float:
        """Seconds after its start at which the last thing happens."""
        moments = [0.0, self.cancelled or 0.0, *(at for at, _ in self.statuses)]
        for wave in self.waves:
            moments.append(wave.stored)
            moments += [job.begins + _last_step(job.script) for job in wave.jobs]
            moments += [edge for job in wave.jobs for edge in job.gone or () if edge < NEVER]
        return max(moments)


def draw_execution(name: str, random: Random) -> ExecutionPlan:
    """An execution: mostly one that goes well, with something odd about it now and then."""
    mode = random.choice([Mode.DRILL, Mode.DRILL, Mode.RECOVERY])
    words: list[str] = []
    waves = []
    begins = 0.0
    for number in range(random.choice([1, 1, 1, 2, 3])):
        wave = _draw_wave(f"{name}w{number}", mode, begins, random, words)
        waves.append(wave)
        if random.random() < 0.5:  # the next one waits for this one
            begins = max([begins, *(job.begins + _last_step(job.script) for job in wave.jobs)])
    states_total = random.random() > 0.02
    if not states_total:
        words.append("total never stated")
    cancelled = random.uniform(0.0, 300.0) if random.random() < 0.08 else None
    if cancelled is not None:
        words.append("cancelled by its orchestrator")
    return ExecutionPlan(
        execution_id=name,
        mode=mode,
        begins=random.uniform(0.0, 60.0),
        waves=tuple(waves),
        states_total=states_total,
        deadline=random.choice([None, 60.0, 300.0, 1800.0]),
        cancelled=cancelled,
        foreign=len(waves) == 1 and states_total and random.random() < 0.2,
        words=words,
    )


def _draw_wave(name: str, mode: Mode, begins: float, random: Random, words: list[str]) -> WavePlan:
    jobs = tuple(
        _draw_job(f"{name}j{number}", mode, begins + random.uniform(0.0, 5.0), random, words)
        for number in range(random.choice([1, 1, 1, 2]))
    )
    servers = [server.server_id for job in jobs for server in job.script.servers]
    planned = tuple(servers) if random.random() < 0.4 else ()
    if planned and random.random() < 0.05:
        planned = (*planned, server_id_of(f"{name}nobody"))
        words.append("planned and never listed")
    is_late = begins > 0 and random.random() < 0.5  # else it is there from the start, and its jobs are not
    if is_late:
        words.append("wave added late")
    return WavePlan(name, jobs, planned, begins if is_late else 0.0)


def _draw_job(name: str, mode: Mode, begins: float, random: Random, words: list[str]) -> JobPlan:
    pending, active = random.uniform(1.0, LONGEST_PENDING), random.uniform(1.0, LONGEST_ACTIVE)
    count = random.choice([1, 1, 2, 3])
    servers = [
        _draw_server(f"{name}s{number}", mode, pending, active, random, words) for number in range(count)
    ]
    end = max(begun for server in servers for begun, word in server.steps if word != "TERMINATED")
    end += random.choice([0.0, 0.0, random.uniform(0.0, 40.0)])
    if random.random() < 0.06:
        after = random.choice([random.uniform(1.0, 100.0), random.uniform(200.0, 400.0)])
        words.append("launched within the grace" if after < 120 else "launched after the grace")
        steps_of_last = [(0.0, "PENDING"), (pending, "IN_PROGRESS"), (end + after, "LAUNCHED")]
        servers[-1] = replace(servers[-1], steps=steps_of_last, actions=(), listed_from=0.0)
    steps: Steps = [(0.0, "PENDING"), (pending, "STARTED"), (end, "COMPLETED")]
    chance = random.random()
    script = JobScript(servers=servers, steps=steps)
    gone = None
    if chance < 0.02:
        words.append("job never ends")
        script = replace(script, steps=steps[:2])
    elif chance < 0.05:
        words.append("finished without servers")
        script = replace(script, servers=[])
    elif chance < 0.08:
        words.append("job cancelled at its source")
        script = script.cancelled(random.uniform(0.0, pending + active))
    elif chance < 0.13:
        first = begins + random.uniform(0.0, end)
        gone = (first, first + random.uniform(*GONE_FOR))
        words.append("missing for a while")
    elif chance < 0.14:
        gone = (begins + random.uniform(0.0, end * 1.5), NEVER)
        words.append("missing for ever")
    elif chance < 0.17:
        gone = (begins + end + random.uniform(100.0, 600.0), NEVER)
        words.append("forgotten after its end")
    return JobPlan(name, begins, script, gone)


def _draw_server(
    name: str, mode: Mode, pending: float, active: float, random: Random, words: list[str]
) -> ServerScript:
    begun = pending + random.uniform(0.0, 10.0)
    done = begun + active * random.uniform(0.5, 1.0)
    steps: list[tuple[float, str]] = [(0.0, "PENDING"), (begun, "IN_PROGRESS"), (done, "LAUNCHED")]
    listed_from = 0.0
    chance = random.random()
    if chance < 0.10:
        words.append("server failed")
        steps[-1] = (done, "FAILED")
    elif chance < 0.14:
        words.append("server tried again")
        steps[-1:] = [(done, "FAILED"), (done + 20, "IN_PROGRESS"), (done + 50, "LAUNCHED")]
    elif chance < 0.18:
        words.append("server never ends")
        steps = steps[: random.choice([1, 2])]
    elif chance < 0.22:
        words.append("server terminated afterwards")
        steps.append((done + random.uniform(5.0, 200.0), "TERMINATED"))
    elif chance < 0.26:
        words.append("server listed late")
        listed_from = random.uniform(0.0, begun)
    elif chance < 0.30:
        words.append("unseen phase")
        steps = [(0.0, "PENDING"), (begun, "LAUNCHED")]
    actions = _draw_actions(steps, random, words) if mode is Mode.RECOVERY else ()
    return ServerScript(server_id=server_id_of(name), steps=steps, actions=actions, listed_from=listed_from)


def _draw_actions(steps: Steps, random: Random, words: list[str]) -> tuple[ActionScript, ...]:
    launched = [after for after, word in steps if word == "LAUNCHED"]
    if not launched or random.random() < 0.3:
        return ()
    actions = []
    begins = launched[-1] + (random.uniform(0.0, 60.0) if random.random() < 0.3 else 0.0)
    for number in range(random.choice([1, 2])):
        ends: float | None = begins + random.uniform(1.0, 90.0)
        status = "SUCCEEDED"
        if random.random() < 0.1:
            status = "FAILED"
            words.append("launch action failed")
        elif random.random() < 0.02:
            ends = None
            words.append("launch action never ends")
        actions.append(ActionScript(name=f"action-{number}", begins=begins, ends=ends, status=status))
    return tuple(actions)


def _last_step(script: JobScript) -> float:
    moments = [after for after, _ in script.steps]
    for server in script.servers:
        moments += [after for after, _ in server.steps]
        moments += [action.ends or action.begins for action in server.actions]
    return max(moments)

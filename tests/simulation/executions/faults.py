"""Faults that a simulation adds to its executions, each switched on by its name.

They are drawn by their own chance, so that what one of them does is the same with and without the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from random import Random

from longwatch.testing.drs.scripts import ActionScript, JobScript, ServerScript
from tests.simulation.executions.plans import ExecutionPlan, JobPlan

OTHER_STATUSES = ("CANCELLING", "PAUSED", "TIMEOUT", "COMPLETED_WITH_WARNINGS", "ON_HOLD", "cancelling")
OTHER_PLAN_ID = "plan/2"
UNKNOWN_STATUSES = ("HIBERNATED", "COMPLETED_WITH_WARNINGS", "LAUNCHED_PARTIALLY", "SUCCESS")


class Fault(StrEnum):
    """What goes wrong beside what always does."""

    OTHER_STATUSES = "other-statuses"  # another program writes a status that longwatch does not have
    SAME_ID = "same-id"  # two plans have an execution of the same id
    CLOCKS = "clocks"  # clocks of pollers differ by 100 seconds, and jump by ten minutes
    UNKNOWN_VALUES = "unknown-values"  # the source reports statuses that no table has
    OPERATORS = "operators"  # operators close executions and stop watching them meanwhile


def with_faults(plans: Iterable[ExecutionPlan], faults: frozenset[Fault], seed: int) -> list[ExecutionPlan]:
    """The plans with these faults."""
    found = list(plans)
    if Fault.UNKNOWN_VALUES in faults:
        random = Random(f"{seed}/{Fault.UNKNOWN_VALUES}")
        found = [_with_unknown_values(plan, random) for plan in found]
    if Fault.OTHER_STATUSES in faults:
        random = Random(f"{seed}/{Fault.OTHER_STATUSES}")
        found = [_with_other_statuses(plan, random) for plan in found]
    if Fault.OPERATORS in faults:
        random = Random(f"{seed}/{Fault.OPERATORS}")
        found = [_with_operator(plan, random) for plan in found]
    if Fault.SAME_ID in faults and Random(f"{seed}/{Fault.SAME_ID}").random() < 0.5:
        found[-1] = replace(found[-1], execution_id=found[0].execution_id, plan_id=OTHER_PLAN_ID)
        found[-1].words.append("id of another plan's execution")
    return found


def _with_other_statuses(plan: ExecutionPlan, random: Random) -> ExecutionPlan:
    """Statuses of another program: mostly one, near the end, where the poller's last write is."""
    if random.random() > 0.3:
        return plan
    last = plan.last
    moments = sorted(random.uniform(0.0, last + 60.0) for _ in range(random.choice([1, 1, 2])))
    plan.words.append("status of another program")
    return replace(plan, statuses=tuple((each, random.choice(OTHER_STATUSES)) for each in moments))


def _with_operator(plan: ExecutionPlan, random: Random) -> ExecutionPlan:
    if random.random() > 0.15:
        return plan
    decision = random.choice(["close", "close", "stop"])
    plan.words.append(f"operator: {decision}")
    return replace(plan, decided=(random.uniform(0.0, plan.last + 60.0), decision))


def _with_unknown_values(plan: ExecutionPlan, random: Random) -> ExecutionPlan:
    waves = tuple(
        replace(wave, jobs=tuple(_odd_job(job, random, plan.words) for job in wave.jobs))
        for wave in plan.waves
    )
    return replace(plan, waves=waves)


def _odd_job(job: JobPlan, random: Random, words: list[str]) -> JobPlan:
    script, chance = job.script, random.random()
    if chance < 0.02:
        words.append("unknown job status")
        script = _with_job_status(script, random)
    elif chance < 0.07 and script.servers:
        at = random.randrange(len(script.servers))
        servers = list(script.servers)
        servers[at] = _odd_server(servers[at], random, words)
        script = replace(script, servers=servers)
    return replace(job, script=script)


def _with_job_status(script: JobScript, random: Random) -> JobScript:
    """An unknown status before the job's end, or instead of it."""
    word, steps = random.choice(UNKNOWN_STATUSES), list(script.steps)
    if random.random() < 0.5 and steps[-1][1] == "COMPLETED":
        steps[-1] = (steps[-1][0], word)
    else:
        begins, _ = steps[0]
        steps.insert(1, ((begins + steps[1][0]) / 2, word))
    return replace(script, steps=steps)


def _odd_server(server: ServerScript, random: Random, words: list[str]) -> ServerScript:
    """An unknown launch action or launch status: at the end or before it, with an instance or without."""
    word = random.choice(UNKNOWN_STATUSES)
    if server.actions and random.random() < 0.5:
        words.append("unknown action status")
        first: ActionScript = server.actions[0]
        return replace(server, actions=(replace(first, status=word), *server.actions[1:]))
    words.append("unknown launch status")
    steps = list(server.steps)
    with_instance = server.with_instance | ({word} if random.random() < 0.5 else set())
    if random.random() < 0.6:
        steps[-1] = (steps[-1][0], word)
    else:
        steps.insert(1, (steps[0][0] + 0.5, word))
    return replace(server, steps=steps, with_instance=with_instance)

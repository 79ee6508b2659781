"""Operators of simulated executions: they decide by the real commands, and their processes die as well."""

from __future__ import annotations

from random import Random

from longwatch.errors import LongwatchError
from longwatch.executions.model import ExecutionKey
from longwatch.executions.operators import OUTCOMES, Operator, Statement
from longwatch.model.summary import Status
from tests.simulation.executions.plans import ExecutionPlan
from tests.simulation.executions.world import Died, ExecutionWorld, FragileJournal, FragileStore

NAME = "operator"
WHY = Statement("ana", "decided by the simulation")


class Operators:
    """Decides about executions at the times of their plans."""

    def __init__(self, world: ExecutionWorld) -> None:
        self._world = world
        self._random = Random(f"{world.random.random()}/operators")
        self._operator = Operator(FragileStore(world, NAME), FragileJournal(world, NAME), clock=world.clock)
        self.decided: dict[ExecutionKey, Status] = {}  # decisions of operators whose command returned success
        self.tried: set[ExecutionKey] = set()

    def begin(self) -> None:
        for plan in self._world.plans.values():
            if plan.decided is not None:
                at, decision = plan.decided
                moment = plan.begins + at
                self._world.later(
                    moment,
                    lambda plan=plan, decision=decision: self._decide(plan, decision),  # type: ignore[misc]
                )

    def _decide(self, plan: ExecutionPlan, decision: str) -> None:
        record = self._world.store.get(plan.execution_id, plan.plan_id)
        if record is None:
            return
        self.tried.add(plan.key)
        try:
            if decision == "stop":
                done = self._operator.stop_watching(record, WHY)
            else:
                done = self._operator.close(record, self._random.choice(OUTCOMES), WHY)
        except (Died, LongwatchError) as error:
            self._world.trace.mark(NAME, f"did not {decision} {plan.key}: {type(error).__name__}")
        else:
            self._world.trace.mark(NAME, f"{decision}: {plan.key} is {done.status}")
            self.decided[plan.key] = done.status

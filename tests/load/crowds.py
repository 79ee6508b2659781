"""Many executions at once, of four kinds whose ends are known beforehand."""

from __future__ import annotations

from dataclasses import dataclass

from longwatch.clock import Clock
from longwatch.executions.model import Execution, Job, Mode, Stage
from longwatch.executions.stores.base import ExecutionStore
from longwatch.model.run import Status
from longwatch.testing.drs import DrsSimulator, JobScript, drill, recovery
from tests.load.sizes import FULL

WAVES = 2
# Seconds. All of it is the drill that was observed; the short one has the same phases.
PENDING, ACTIVE = (808.0, 376.0) if FULL else (60.0, 60.0)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of execution: what its jobs do, how it ends, and how often it is polled until then."""

    name: str
    mode: Mode
    script: JobScript
    ends: Status
    polls: int


_PLAIN = drill("s-1", "s-2", pending=PENDING, active=ACTIVE)
_BROKEN = PENDING + ACTIVE / 2

# Every 45 s while pending, every 15 s in transition, every 30 s once a server is done. In short:
#   drill     0, 45, 90, 105, 120 s
#   partial   0, 45, 90, 120 s: one has failed at 90
#   recovery  0, 45, 90, 105, 120, 150, 180 s: launched at 120, its actions end at 165
KINDS = (
    Kind("drill", Mode.DRILL, _PLAIN, Status.SUCCEEDED, 44 if FULL else 5),
    Kind("partial", Mode.DRILL, _PLAIN.without("s-2", after=_BROKEN), Status.PARTIAL, 38 if FULL else 4),
    Kind(
        "failed",
        Mode.DRILL,
        _PLAIN.without("s-1", after=_BROKEN).without("s-2", after=_BROKEN),
        Status.FAILED,
        38 if FULL else 4,
    ),
    Kind(
        "recovery",
        Mode.RECOVERY,
        recovery("s-1", "s-2", pending=PENDING, active=ACTIVE, actions={"check": 45.0}),
        Status.SUCCEEDED,
        46 if FULL else 7,
    ),
)


def crowd(count: int, store: ExecutionStore, drs: DrsSimulator, clock: Clock) -> dict[str, Kind]:
    """Start so many executions now, of all kinds in turn, and return the kind of each by its id."""
    started = {}
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        jobs = [drs.play(kind.script) for _ in range(WAVES)]
        store.add(
            Execution(
                execution_id=f"x-{number:04}",
                plan_id=f"p-{kind.name}",
                mode=kind.mode,
                started_at=clock.now_ms(),
                stages=tuple(
                    Stage(f"wave {n}", (Job(job, region="eu-west-1"),)) for n, job in enumerate(jobs, 1)
                ),
                total_stages=WAVES,
            )
        )
        started[f"x-{number:04}"] = kind
    return started

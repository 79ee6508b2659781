"""Past executions to learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from benchmarks.cadence.durations import DRILL, GivenDurations

from longwatch.executions import transitions
from longwatch.executions.cadence.history import ExecutionKind, ExecutionSize, Sample
from longwatch.executions.due import ExecutionPhase
from longwatch.executions.model import Evidence, Execution, ItemState, Job, JobState, Stage, Verdict, WorkItem
from longwatch.model.event import Event
from longwatch.model.summary import Status

START_MS = 1_794_736_931_000
DRILLS = ExecutionKind("drs", "DRILL", "plan-1")


def sample(
    *seconds: float,
    kind: ExecutionKind = DRILLS,
    status: Status = Status.SUCCEEDED,
    shape: ExecutionSize | None = None,
) -> Sample:
    """An execution whose phases took so long."""
    return Sample(kind, status, dict(zip(ExecutionPhase, seconds, strict=False)), sum(seconds), shape)


def drills(count: int, *, spread: float = 0.25, seed: int = 1) -> Sequence[Sample]:
    """The journal's events of so many drills of one server."""
    return [
        replace(each, shape=ExecutionSize(1, 1))
        for each in GivenDurations(DRILL, spread).past(Random(seed), count)
    ]


def execution(*states: ItemState, at: int = START_MS, **fields: object) -> Execution:
    """An execution with a server in each of these states since `at`."""
    servers = tuple(WorkItem(f"s-{number}", state, since=at) for number, state in enumerate(states))
    job = Job("job-1", JobState.STARTED, servers, since=at)
    values: dict[str, object] = {
        "execution_id": "ex-1",
        "plan_id": "plan-1",
        "started_at": START_MS,
        "stages": (Stage("web", (job,)),),
        "total_stages": 1,
    }
    return Execution(**(values | fields))  # type: ignore[arg-type]


def story(
    *moments: tuple[float, tuple[ItemState, ...]],
    ended: float | None,
    status: Status = Status.SUCCEEDED,
    execution_id: str = "ex-1",
    started_at: int = START_MS,
) -> list[Event]:
    """The events of an execution: at so many seconds its servers were seen like this."""
    before = execution(started_at=started_at, execution_id=execution_id)
    events = [transitions.start_event(before)]
    for seconds, states in moments:
        at = started_at + round(seconds * 1000)
        after = execution(*states, at=at, started_at=started_at, execution_id=execution_id)
        events += transitions.transition_events(before, after, at)
        before = after
    if ended is not None:
        at = started_at + round(ended * 1000)
        events.append(transitions.end_event(before, Verdict(status, at, (Evidence("drs:DescribeJobs", at),))))
    return events

"""What has to be true of every simulated execution, whatever went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from longwatch.events import START, Event
from longwatch.summaries import Status
from longwatch.testing.executions.machines import Orchestrator
from longwatch.testing.executions.oracle import changes_after_the_end, status_at, visits
from longwatch.testing.executions.plans import NEVER, ExecutionPlan
from longwatch.testing.executions.world import PLAN_ID, World
from longwatch.watching.conditions import conditions
from longwatch.watching.model import Execution, Verdict
from longwatch.watching.stores.records import is_foreign

MOST_EVENTS = 10_000


def problems(world: World, orchestrator: Orchestrator) -> Iterator[str]:
    """Every promise that was broken."""
    for plan in world.plans.values():
        record = world.store.get(plan.execution_id, PLAN_ID)
        if record is None:
            yield f"{plan.execution_id} is gone"
            continue
        events = sorted(
            world.journal.read(plan.execution_id, after=START, limit=MOST_EVENTS).events,
            key=lambda event: event.order,
        )
        for problem in _of_one(world, orchestrator, plan, record, events):
            yield f"{plan.execution_id} ({', '.join(plan.words) or 'nothing odd'}): {problem}"


def _of_one(
    world: World, orchestrator: Orchestrator, plan: ExecutionPlan, record: Execution, events: list[Event]
) -> Iterator[str]:
    yield from _verdict(world, orchestrator, plan, record)
    yield from _ending(world, orchestrator, plan, record, events)
    yield from _transitions(world, orchestrator, plan, record, events)
    if (record.stored or {}).get("Notes") != "not ours":
        yield "what another program wrote into the record is gone"


def _verdict(
    world: World, orchestrator: Orchestrator, plan: ExecutionPlan, record: Execution
) -> Iterator[str]:
    verdict = record.verdict
    if plan.execution_id in orchestrator.cancelled:
        if verdict is None or verdict.status is not Status.CANCELLED:
            yield f"its orchestrator cancelled it, and it is {record.status}"
        return
    if verdict is None:
        return
    if is_foreign(record):
        yield f"nobody else ended it, and it is {record.status}"
        return
    asked = world.asked_at.get((plan.execution_id, verdict.evidence[0].at))
    if asked is None:
        yield "its verdict cites an answer that nobody gave"
        return
    truth = status_at(plan, asked)
    if truth is None:
        yield f"false verdict {verdict.status} from {asked:.0f} s: nothing was certain then"
    elif truth is Status.UNKNOWN:
        if not any("no longer known" in warning for warning in verdict.warnings):
            yield f"verdict {verdict.status} on a job that was lost, without a warning"
    elif truth is not verdict.status:
        yield f"false verdict {verdict.status} from {asked:.0f} s: it was {truth}"
    if verdict.late != _is_late(record, verdict):
        yield f"late is {verdict.late}, and its deadline says otherwise"


def _is_late(record: Execution, verdict: Verdict) -> bool:
    return record.deadline_ms is not None and verdict.at > record.started_at + record.deadline_ms


def _ending(
    world: World, orchestrator: Orchestrator, plan: ExecutionPlan, record: Execution, events: list[Event]
) -> Iterator[str]:
    ends = [event for event in events if event.type == "execution_ended"]
    corrections = [event for event in events if event.type == "execution_corrected"]
    if len(ends) > 1:
        yield f"{len(ends)} ends were told"
    may_change = changes_after_the_end(plan) or plan.execution_id in orchestrator.cancelled
    if corrections and not may_change:
        yield "an end was corrected, and nothing had changed"
    if len(corrections) > 1:
        yield f"{len(corrections)} corrections were told"
    if not record.closed:
        yield from _is_open(world, plan, record, ends)
        return
    if plan.execution_id in orchestrator.cancelled and record.version == 0:
        return  # it was cancelled before anybody had watched it
    if len(ends) != 1:
        yield f"it is closed, and {len(ends)} ends were told"
    run = world.journal.find_run(plan.execution_id)
    if run is None or run.status is not record.status:
        yield f"its record says {record.status}, its journal {run.status if run else 'nothing'}"


def _is_open(world: World, plan: ExecutionPlan, record: Execution, ends: list[Event]) -> Iterator[str]:
    if ends:
        yield "an end was told, and it is open"
    names = {each.name for each in conditions(record, world.clock.now_ms())}
    if not names:
        yield "it is open, and nothing says why"
    if is_lost(plan) and "missing" in names:
        return
    truth = status_at(plan, world.now_of(plan))
    if truth is not None:
        yield f"it has been {truth} for long, and is still open ({', '.join(sorted(names))})"


def is_lost(plan: ExecutionPlan) -> bool:
    """Whether a job of it is forgotten for ever, perhaps before anybody has seen its end."""
    return any(job.gone is not None and job.gone[1] == NEVER for job in plan.jobs)


def _transitions(
    world: World, orchestrator: Orchestrator, plan: ExecutionPlan, record: Execution, events: list[Event]
) -> Iterator[str]:
    told: Counter[tuple[str, str]] = Counter()
    last: dict[str, str] = {}
    for event in events:
        if event.type == "server_transition":
            server_id, state = str(event.payload["server_id"]), str(event.payload["to"])
            told[server_id, state] += 1
            last[server_id] = state
    lost = world.visible.get(plan.execution_id, set()) - told.keys()
    if lost:
        yield f"seen and never told: {sorted(lost)}"
    possible = visits(plan)
    twice = {key: times for key, times in told.items() if times > possible.get(key, 0)}
    if twice:
        yield f"told more often than it was so: {twice}"
    kept = {
        server.server_id: server.state.value
        for wave in record.waves
        for job in wave.jobs
        for server in job.servers
    }
    if plan.execution_id in orchestrator.cancelled:
        # Nothing is written to a record after it was cancelled, and what was seen by then is told.
        if not kept.items() <= told.keys():
            yield f"the record has what its events have not: {kept}"
    elif kept != last:
        yield f"the record is not what its events add up to: {kept} and {last}"

"""What has to be true of every simulated execution, whatever went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from longwatch.executions.explain import conditions
from longwatch.executions.model import Execution, Verdict
from longwatch.executions.stores.records import is_set_by_others
from longwatch.model.event import START, Event
from longwatch.model.summary import Status
from tests.simulation.executions.faults import Fault
from tests.simulation.executions.machines import Orchestrator
from tests.simulation.executions.operators import Operators
from tests.simulation.executions.oracle import changes_after_the_end, status_at, visits
from tests.simulation.executions.plans import NEVER, ExecutionPlan
from tests.simulation.executions.world import ExecutionWorld

MOST_EVENTS = 10_000


@dataclass(frozen=True, slots=True)
class Case:
    """One execution after the simulation: what was planned, what others did, and what is left of it."""

    world: ExecutionWorld
    plan: ExecutionPlan
    record: Execution
    events: list[Event]
    is_cancelled: bool  # by its orchestrator
    other_status: str | None  # set by its orchestrator, beside a cancel
    is_tried: bool  # by an operator, who may have died in the middle of it
    decided: Status | None  # by an operator, whose command returned success

    @property
    def is_by_operator(self) -> bool:
        return self.record.verdict is not None and self.record.verdict.is_by_operator


def problems(world: ExecutionWorld, orchestrator: Orchestrator, operators: Operators) -> Iterator[str]:
    """Every promise that was broken."""
    for key, plan in world.plans.items():
        record = world.store.get(plan.execution_id, plan.plan_id)
        if record is None:
            yield f"{plan.key} is gone"
            continue
        events = sorted(
            world.journal.read(record.run_id, after=START, limit=MOST_EVENTS).events,
            key=lambda event: event.order,
        )
        case = Case(
            world,
            plan,
            record,
            events,
            is_cancelled=key in orchestrator.cancelled,
            other_status=orchestrator.statuses.get(key),
            is_tried=key in operators.tried,
            decided=operators.decided.get(key),
        )
        for check in (_verdict, _status, _ending, _transitions, _rest):
            for problem in check(case):
                yield f"{plan.key} ({', '.join(plan.words) or 'nothing odd'}): {problem}"


def _rest(case: Case) -> Iterator[str]:
    if (case.record.stored or {}).get("Notes") != "not ours":
        yield "what another program wrote into the record is gone"


def _status(case: Case) -> Iterator[str]:
    """A status of another program is never overwritten, unless an operator states the outcome."""
    there = (case.record.stored or {}).get("Status")
    if case.other_status is None or case.is_cancelled or case.is_by_operator:
        return
    if there != case.other_status:
        yield f"another program set {case.other_status}, and the record says {there}"


def _verdict(case: Case) -> Iterator[str]:
    record, verdict = case.record, case.record.verdict
    if case.is_cancelled and not case.is_by_operator:
        if verdict is None or verdict.status is not Status.CANCELLED:
            yield f"its orchestrator cancelled it, and it is {record.status}"
        return
    if case.decided is not None and (not case.is_by_operator or record.status is not case.decided):
        yield f"an operator decided {case.decided}, and it is {record.status}"
    if case.is_by_operator:
        if not case.is_tried:
            yield f"no operator decided, and it is {record.status} by one"
    elif is_set_by_others(record):
        yield f"no other program ended it, and it is {record.status}"
    elif verdict is not None:
        yield from _own_verdict(case, verdict)


def _own_verdict(case: Case, verdict: Verdict) -> Iterator[str]:
    polled_at = case.world.polled_at.get((case.plan.key, verdict.evidence[0].at))
    if polled_at is None:
        yield "its verdict cites a response that was never sent"
        return
    truth = status_at(case.plan, polled_at)
    if truth is None:
        yield f"false verdict {verdict.status} from {polled_at:.0f} s: nothing was certain then"
    elif truth is Status.UNKNOWN:
        if not any("is no longer listed" in warning for warning in verdict.warnings):
            yield f"verdict {verdict.status} on a job that was lost, without a warning"
    elif truth is not verdict.status:
        yield f"false verdict {verdict.status} from {polled_at:.0f} s: it was {truth}"
    if verdict.late != _is_late(case.record, verdict):
        yield f"late is {verdict.late}, and its deadline says otherwise"


def _is_late(record: Execution, verdict: Verdict) -> bool:
    return record.deadline_ms is not None and verdict.at > record.started_at + record.deadline_ms


def _ending(case: Case) -> Iterator[str]:
    record = case.record
    ends = [event for event in case.events if event.type == "execution_ended"]
    corrections = [event for event in case.events if event.type == "execution_corrected"]
    if len(ends) > 1:
        yield f"{len(ends)} ends were reported"
    if corrections and not (changes_after_the_end(case.plan) or case.is_cancelled):
        yield "an end was corrected, and nothing had changed"
    # The same correction comes again if the record did not take it the first time.
    if len({(each.payload["corrects"], each.payload["status"]) for each in corrections}) > 1:
        yield f"{len(corrections)} corrections were reported"
    if not record.closed:
        yield from _is_open(case, ends)
        return
    if (case.is_cancelled or case.other_status) and record.version == 0:
        return  # another program took it before any poller had watched it
    if len(ends) != 1 and not case.is_tried:
        yield f"it is closed, and {len(ends)} ends were reported"
    run = case.world.journal.find_run(record.run_id)
    if _may_be_behind(case):
        return
    if run is None or run.status is not record.status:
        yield f"its record says {record.status}, its journal {run.status if run else 'nothing'}"


def _is_open(case: Case, ends: list[Event]) -> Iterator[str]:
    if ends:
        yield "an end was reported, and it is open"
    names = {each.name for each in conditions(case.record, case.world.clock.now_ms())}
    if not names:
        yield "it is open, and nothing says why"
    if is_lost(case.plan) and "missing" in names:
        return
    truth = status_at(case.plan, case.world.now_of(case.plan))
    if truth is not None:
        yield f"it has been {truth} for long, and is still open ({', '.join(sorted(names))})"


def is_lost(plan: ExecutionPlan) -> bool:
    """Whether a job of it is forgotten for ever, perhaps before any poller has seen its end."""
    return any(job.gone is not None and job.gone[1] == NEVER for job in plan.jobs)


def _may_be_behind(case: Case) -> bool:
    """Whether a recheck may be in the journal alone: its write was lost, and the source forgot the job."""
    return case.record.closed and changes_after_the_end(case.plan) and is_lost(case.plan)


def _transitions(case: Case) -> Iterator[str]:
    reported: Counter[tuple[str, str]] = Counter()
    last: dict[str, str] = {}
    for event in case.events:
        if event.type == "server_transition":
            server_id, state = str(event.payload["server_id"]), str(event.payload["to"])
            reported[server_id, state] += 1
            last[server_id] = state
    lost = case.world.visible.get(case.plan.key, set()) - reported.keys()
    if lost:
        yield f"seen and never reported: {sorted(lost)}"
    possible = visits(case.plan)
    twice = {key: times for key, times in reported.items() if times > possible.get(key, 0)}
    # A poller whose clock is far off takes a lease that another one has, and may report a change again.
    if twice and Fault.CLOCKS not in case.world.faults:
        yield f"reported more often than it happened: {twice}"
    stored = {
        server.item_id: server.state.value
        for wave in case.record.stages
        for job in wave.jobs
        for server in job.items
    }
    if case.is_cancelled or case.is_by_operator:
        # Nothing is written to a record after another program ended it, and earlier changes are reported.
        if not stored.items() <= reported.keys():
            yield f"the record has what its events have not: {stored}"
    elif stored != last and not _may_be_behind(case):
        yield f"the record is not what its events add up to: {stored} and {last}"

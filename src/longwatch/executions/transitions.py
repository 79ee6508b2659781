"""Transitions of an execution as events, and the replay of events that its record does not contain yet.

The id of a change is made from what changed, never from who saw it or when. So two pollers that see the same
change write one event, and one that died after writing does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from longwatch.errors import EventConflict, RunDeleted
from longwatch.executions.model import (
    OPERATOR_CLOSED,
    Evidence,
    Execution,
    ItemState,
    Job,
    JobState,
    Stage,
    Step,
    StepState,
    Verdict,
    WorkItem,
)
from longwatch.executions.truncation import fit_payload
from longwatch.journal.base import Journal
from longwatch.model.event import START, Event, number_of, text_of
from longwatch.model.summary import Status


def append_new(journal: Journal, events: Sequence[Event], *, ttl_seconds: int | None = None) -> int:
    """Append the events that the journal does not have yet, and return their number.

    An event's id states what changed, not which poller saw it or when. A table stores events by time and
    would accept the same change again from a poller that saw it a second later, so the run is read first.
    Nothing is appended to a deleted run: the execution continues in its record alone.
    """
    if not events:
        return 0
    new: list[Event] = []
    try:
        stored = event_ids(journal, events[0].run_id)
        new = [_with_ttl(event, ttl_seconds) for event in events if event.event_id not in stored]
        if new:
            journal.append(new)
    except EventConflict:
        pass  # another poller appended the same change first; the rest is stored
    except RunDeleted:
        return 0
    return len(new)


def event_ids(journal: Journal, run_id: str) -> set[str]:
    """The ids of all events of a run."""
    ids: set[str] = set()
    cursor, more = START, True
    while more:
        page = journal.read(run_id, after=cursor)
        ids.update(event.event_id for event in page.events)
        cursor, more = page.cursor, page.more
    return ids


def _with_ttl(event: Event, seconds: int | None) -> Event:
    return event if seconds is None else replace(event, ttl=event.occurred_at // 1000 + seconds)


STARTED = "execution_started"
JOB = "job_transition"
SERVER = "server_transition"
ACTION = "action_transition"
ASKED = "execution_asked"
ENDED = "execution_ended"
CORRECTED = "execution_corrected"
CLOSED = "execution_closed"
WATCH_STOPPED = "watch_stopped"
WAVE_ADDED = "wave_added"
WAVE_COUNT_SET = "wave_count_set"

_RANKS = {
    kind: rank
    for rank, kind in enumerate(
        (
            STARTED,
            JOB,
            SERVER,
            ACTION,
            ASKED,
            ENDED,
            CORRECTED,
            CLOSED,
            WATCH_STOPPED,
            WAVE_ADDED,
            WAVE_COUNT_SET,
        )
    )
}


def start_event(execution: Execution) -> Event:
    """The first event of an execution."""
    return _event(
        execution,
        STARTED,
        "start",
        execution.started_at,
        {
            "name": execution.name or execution.plan_id,
            "kind": "execution",
            "plan_id": execution.plan_id,
            "execution_id": execution.execution_id,
            "mode": execution.mode.value,
            "source": execution.source,
            "total_waves": execution.total_stages,
            "deadline_ms": execution.deadline_ms,
            "waves": [
                {"name": stage.name, "jobs": [job.job_id for job in stage.jobs]} for stage in execution.stages
            ],
        },
    )


def transition_events(before: Execution, after: Execution, at: int) -> Iterator[Event]:
    """An event for each job, item and step whose state has changed."""
    earlier = {(stage.name, job.job_id): job for stage in before.stages for job in stage.jobs}
    for stage in after.stages:
        for job in stage.jobs:
            yield from _job_events(after, stage, earlier.get((stage.name, job.job_id)), job, at)


def deadline_event(execution: Execution, evidence: Evidence, at: int) -> Event:
    """The first response after the deadline. Once for each deadline."""
    payload = {"deadline_ms": execution.deadline_ms, "evidence": _evidence_payload(evidence)}
    return _event(execution, ASKED, f"deadline:{execution.deadline_ms}", at, payload)


def end_event(execution: Execution, verdict: Verdict) -> Event:
    """The end, or its correction: the same event from every poller that appends the verdict of the record."""
    payload: dict[str, object] = {
        "status": verdict.status.value,
        "evidence": [_evidence_payload(each) for each in verdict.evidence],
        "late": verdict.late,
        "warnings": list(verdict.warnings),
    }
    if verdict.assumed:
        payload["assumed"] = list(verdict.assumed)
    if verdict.message:
        payload["message" if verdict.status is Status.SUCCEEDED else "error_message"] = verdict.message
    if verdict.corrects is not None:
        payload["corrects"] = verdict.corrects.value
    if verdict.is_by_operator:
        return _operator_event(execution, verdict, payload)
    if verdict.corrects is None:
        return _event(execution, ENDED, "end", verdict.at, payload)
    return _event(
        execution, CORRECTED, f"{verdict.corrects}:{verdict.status}@{verdict.at}", verdict.at, payload
    )


def disowned_run_event(execution: Execution) -> Event:
    """Disowns the run that the execution id alone names: it has events of several plans, so no end counts."""
    shared = replace(execution, own_run_id=execution.execution_id)
    message = (
        f"Several plans have an execution {execution.execution_id}, and this run has events of each. "
        f"The execution of plan {execution.plan_id} continues in the run {execution.run_id}."
    )
    payload = {"status": Status.UNKNOWN.value, "error_message": message, "evidence": [], "warnings": []}
    return _event(shared, CORRECTED, "shared run", execution.observed_at, payload)


def _operator_event(execution: Execution, verdict: Verdict, payload: Mapping[str, object]) -> Event:
    """The end that an operator stated, or left open by stopping the watch."""
    cited = verdict.evidence[0]
    kind = CLOSED if cited.call == OPERATOR_CLOSED else WATCH_STOPPED
    subject = f"{cited.fields.get('operator')}:{verdict.status}@{verdict.at}"
    return _event(execution, kind, subject, verdict.at, {**payload, **cited.fields})


def stage_added_event(execution: Execution, stage: Stage, by: Mapping[str, object], at: int) -> Event:
    """An operator added this stage, which the execution already has."""
    payload = {
        "wave": stage.name,
        "jobs": [job.job_id for job in stage.jobs],
        "servers": list(stage.expected_items),
        "region": next((job.region for job in stage.jobs), None),
        "account": next((job.account for job in stage.jobs), None),
        "total_waves": execution.total_stages,
        **by,
    }
    return _event(execution, WAVE_ADDED, f"{stage.name}@{at}", at, payload)


def stage_count_event(execution: Execution, before: int | None, by: Mapping[str, object], at: int) -> Event:
    """An operator stated how many stages the execution has."""
    payload = {"from": before, "total_waves": execution.total_stages, **by}
    return _event(execution, WAVE_COUNT_SET, f"{execution.total_stages}@{at}", at, payload)


def _job_events(
    execution: Execution, stage: Stage, before: Job | None, after: Job, at: int
) -> Iterator[Event]:
    if before is not None and _is_unseen(before):
        before = None
    if before is None or before.state is not after.state:
        came_from = before.state.value if before else None
        payload = {
            "wave": stage.name,
            "job_id": after.job_id,
            "from": came_from,
            "to": after.state.value,
            "word": after.source_status,
            "cancelled": after.cancelled or None,
        }
        # A state can recur (a job that is missing twice): the start of the state before tells them apart.
        since = before.since if before else None
        subject = f"{stage.name}:{after.job_id}:{came_from}@{since}:{after.state}"
        yield _event(execution, JOB, subject, at, payload)
    before_by_id = {item.item_id: item for item in before.items} if before else {}
    for item in after.items:
        yield from _item_events(execution, stage, after, before_by_id.get(item.item_id), item, at)


def _is_unseen(job: Job) -> bool:
    """Whether it is only stored: no response has reported it."""
    return job.since is None and job.state is JobState.PENDING and not job.items


def _item_events(
    execution: Execution, stage: Stage, job: Job, before: WorkItem | None, after: WorkItem, at: int
) -> Iterator[Event]:
    where: dict[str, object] = {"wave": stage.name, "job_id": job.job_id, "server_id": after.item_id}
    name = f"{stage.name}:{job.job_id}:{after.item_id}"
    if before is None or before.state is not after.state:
        came_from = before.state.value if before else None
        payload = where | {
            "from": came_from,
            "to": after.state.value,
            "word": after.source_status,
            "instance_id": after.instance_id,
            "reason": after.reason,
        }
        since = before.since if before else None
        yield _event(execution, SERVER, f"{name}:{came_from}@{since}:{after.state}", at, payload)
    before_by_id = {step.run_id: step for step in before.steps} if before else {}
    for step in after.steps:
        earlier = before_by_id.get(step.run_id)
        if earlier is None or earlier.state is not step.state:
            came_from = earlier.state.value if earlier else None
            payload = where | {
                "action": step.name,
                "run_id": step.run_id,
                "from": came_from,
                "to": step.state.value,
                "word": step.source_status,
                "reason": step.reason,
            }
            since = earlier.since if earlier else None
            subject = f"{name}:{step.run_id}:{came_from}@{since}:{step.state}"
            yield _event(execution, ACTION, subject, at, payload)


def _event(execution: Execution, kind: str, subject: str, at: int, payload: Mapping[str, object]) -> Event:
    named = f"{execution.execution_id}\0{execution.plan_id}\0{kind}\0{subject}"
    return Event(
        run_id=execution.run_id,
        # One poll may report many changes at one moment, and readers sort those by id: the end comes last.
        event_id=f"x{_RANKS[kind]:x}-{sha256(named.encode()).hexdigest()[:32]}",
        type=kind,
        occurred_at=at,
        payload=fit_payload({key: value for key, value in payload.items() if value is not None}),
    )


def _evidence_payload(evidence: Evidence) -> dict[str, object]:
    return {"call": evidence.call, "at": evidence.at, "fields": dict(evidence.fields)}


_REPLAYED = (JOB, SERVER, ACTION, WAVE_ADDED, WAVE_COUNT_SET)


def unapplied_events(execution: Execution, journal: Journal) -> list[Event]:
    """The changes in the journal that are later than the last response in the record, in order."""
    last_at = execution.last_answer_at or 0
    try:
        changes = [event for event in _read_changes(journal, execution.run_id) if event.occurred_at > last_at]
    except RunDeleted:
        return []
    return sorted(changes, key=lambda event: event.order)


def replay_events(execution: Execution, events: Iterable[Event]) -> Execution:
    """Replay changes on the execution, in order. Changes of jobs that it does not have are skipped."""
    events = list(events)
    if not events:
        return execution
    for event in events:
        execution = _replay_decision(execution, event)
    jobs = {(stage.name, job.job_id): job for stage in execution.stages for job in stage.jobs}
    last = execution.last_change_at
    for event in events:
        key = (event.payload.get("wave"), event.payload.get("job_id"))
        if key in jobs:
            jobs[key] = _replay_on_job(jobs[key], event)
            last = max(last or 0, event.occurred_at)
    stages = tuple(_replace_jobs(stage, jobs) for stage in execution.stages)
    return replace(execution, stages=stages, last_change_at=last)


def _read_changes(journal: Journal, run_id: str) -> Iterable[Event]:
    cursor, more = START, True
    while more:
        page = journal.read(run_id, after=cursor)
        yield from (event for event in page.events if event.type in _REPLAYED)
        cursor, more = page.cursor, page.more


def _replay_decision(execution: Execution, event: Event) -> Execution:
    """The execution with the stage that an operator added, or the stage count that was set."""
    if event.type not in (WAVE_ADDED, WAVE_COUNT_SET):
        return execution
    payload, total = event.payload, number_of(event.payload, "total_waves")
    execution = replace(execution, total_stages=None if total is None else int(total))
    name = text_of(payload, "wave")
    if name is None or name in {stage.name for stage in execution.stages}:
        return execution
    region, account = text_of(payload, "region"), text_of(payload, "account")
    jobs = tuple(Job(job_id, region=region, account=account) for job_id in _texts(payload, "jobs"))
    return replace(execution, stages=(*execution.stages, Stage(name, jobs, _texts(payload, "servers"))))


def _texts(payload: Mapping[str, Any], name: str) -> tuple[str, ...]:
    return tuple(map(str, payload.get(name) or ()))


def _replace_jobs(stage: Stage, jobs: Mapping[tuple[Any, Any], Job]) -> Stage:
    return replace(stage, jobs=tuple(jobs[stage.name, job.job_id] for job in stage.jobs))


def _replay_on_job(job: Job, event: Event) -> Job:
    payload, at = event.payload, event.occurred_at
    if event.type == JOB:
        state = JobState(str(payload["to"]))
        finished = (job.finished_at or at) if state is JobState.FINISHED else job.finished_at
        cancelled = job.cancelled or bool(payload.get("cancelled"))
        return replace(
            job,
            state=state,
            since=at,
            source_status=_text(payload, "word"),
            finished_at=finished,
            cancelled=cancelled,
        )
    by_id = {item.item_id: item for item in job.items}
    item_id = str(payload["server_id"])
    item = by_id.get(item_id, WorkItem(item_id))
    if event.type == SERVER:
        item = replace(
            item,
            state=ItemState(str(payload["to"])),
            since=at,
            source_status=_text(payload, "word"),
            instance_id=_text(payload, "instance_id") or item.instance_id,
            reason=_text(payload, "reason"),
        )
    else:
        item = replace(item, steps=_replay_on_step(item.steps, payload, at))
    by_id[item_id] = item
    return replace(job, items=tuple(by_id.values()))


def _replay_on_step(steps: tuple[Step, ...], payload: Mapping[str, Any], at: int) -> tuple[Step, ...]:
    name = str(payload["action"])
    run_id = _text(payload, "run_id")
    if run_id is None:
        return steps  # an old event without a run id: the next response lists it
    by_id = {step.run_id: step for step in steps}
    state = StepState(str(payload["to"]))
    by_id[run_id] = Step(name, run_id, state, _text(payload, "reason"), at, _text(payload, "word"))
    return tuple(by_id.values())


def _text(payload: Mapping[str, Any], name: str) -> str | None:
    value = payload.get(name)
    return None if value is None else str(value)

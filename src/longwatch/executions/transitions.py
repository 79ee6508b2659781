"""Transitions of an execution as events, and the replay of events that its record does not contain yet.

The id of a change is made from what changed, never from who saw it or when. So two pollers that see the same
change write one event, and one that died after writing does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from longwatch.errors import EventConflict
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
    """Append those that are not there yet, to live so long or for good; return how many that were.

    An event's id says what changed, not who saw it or when. A table keeps events by their time, and would
    take the same change again from somebody who saw it a second later: so it is read first.
    """
    if not events:
        return 0
    known = event_ids(journal, events[0].run_id)
    fresh = [_with_ttl(event, ttl_seconds) for event in events if event.event_id not in known]
    if fresh:
        try:
            journal.append(fresh)
        except EventConflict:
            pass  # another poller was quicker with the same change, and the rest is stored
    return len(fresh)


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
                {"name": wave.name, "jobs": [job.job_id for job in wave.jobs]} for wave in execution.stages
            ],
        },
    )


def transition_events(before: Execution, after: Execution, at: int) -> Iterator[Event]:
    """An event for each job, server and launch action that is not what it was."""
    known = {(wave.name, job.job_id): job for wave in before.stages for job in wave.jobs}
    for wave in after.stages:
        for job in wave.jobs:
            yield from _job_changes(after, wave, known.get((wave.name, job.job_id)), job, at)


def deadline_event(execution: Execution, evidence: Evidence, at: int) -> Event:
    """Past its deadline the source was asked; this is what it said. Once for each deadline."""
    payload = {"deadline_ms": execution.deadline_ms, "evidence": _cited(evidence)}
    return _event(execution, ASKED, f"deadline:{execution.deadline_ms}", at, payload)


def end_event(execution: Execution, verdict: Verdict) -> Event:
    """The end, or what later truth makes of it: the same whoever tells the verdict that is in the record."""
    payload: dict[str, object] = {
        "status": verdict.status.value,
        "evidence": [_cited(each) for each in verdict.evidence],
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
        return _decided(execution, verdict, payload)
    if verdict.corrects is None:
        return _event(execution, ENDED, "end", verdict.at, payload)
    return _event(
        execution, CORRECTED, f"{verdict.corrects}:{verdict.status}@{verdict.at}", verdict.at, payload
    )


def disowned_run_event(execution: Execution) -> Event:
    """Of the run that the execution id alone names: it has events of several plans, so no end counts."""
    shared = replace(execution, own_run_id=execution.execution_id)
    message = (
        f"Several plans have an execution {execution.execution_id}, and this run has events of each. "
        f"The execution of plan {execution.plan_id} continues in the run {execution.run_id}."
    )
    payload = {"status": Status.UNKNOWN.value, "error_message": message, "evidence": [], "warnings": []}
    return _event(shared, CORRECTED, "shared run", execution.observed_at, payload)


def _decided(execution: Execution, verdict: Verdict, payload: Mapping[str, object]) -> Event:
    """The end that an operator stated, or that nobody states because an operator stopped the watching."""
    cited = verdict.evidence[0]
    kind = CLOSED if cited.call == OPERATOR_CLOSED else WATCH_STOPPED
    subject = f"{cited.fields.get('operator')}:{verdict.status}@{verdict.at}"
    return _event(execution, kind, subject, verdict.at, {**payload, **cited.fields})


def stage_added_event(execution: Execution, wave: Stage, by: Mapping[str, object], at: int) -> Event:
    """An operator added this wave, which the execution has by now."""
    payload = {
        "wave": wave.name,
        "jobs": [job.job_id for job in wave.jobs],
        "servers": list(wave.expected_items),
        "region": next((job.region for job in wave.jobs), None),
        "account": next((job.account for job in wave.jobs), None),
        "total_waves": execution.total_stages,
        **by,
    }
    return _event(execution, WAVE_ADDED, f"{wave.name}@{at}", at, payload)


def stage_count_event(execution: Execution, before: int | None, by: Mapping[str, object], at: int) -> Event:
    """An operator said how many waves the execution has."""
    payload = {"from": before, "total_waves": execution.total_stages, **by}
    return _event(execution, WAVE_COUNT_SET, f"{execution.total_stages}@{at}", at, payload)


def _job_changes(
    execution: Execution, wave: Stage, before: Job | None, after: Job, at: int
) -> Iterator[Event]:
    if before is not None and _was_never_seen(before):
        before = None
    if before is None or before.state is not after.state:
        came_from = before.state.value if before else None
        payload = {
            "wave": wave.name,
            "job_id": after.job_id,
            "from": came_from,
            "to": after.state.value,
            "word": after.source_status,
            "cancelled": after.cancelled or None,
        }
        # A state can come again (a job that is missing twice): since when the last one was tells them apart.
        since = before.since if before else None
        subject = f"{wave.name}:{after.job_id}:{came_from}@{since}:{after.state}"
        yield _event(execution, JOB, subject, at, payload)
    known = {server.item_id: server for server in before.items} if before else {}
    for server in after.items:
        yield from _server_changes(execution, wave, after, known.get(server.item_id), server, at)


def _was_never_seen(job: Job) -> bool:
    """Whether it is only stored: its source has not been asked about it."""
    return job.since is None and job.state is JobState.PENDING and not job.items


def _server_changes(
    execution: Execution, wave: Stage, job: Job, before: WorkItem | None, after: WorkItem, at: int
) -> Iterator[Event]:
    where: dict[str, object] = {"wave": wave.name, "job_id": job.job_id, "server_id": after.item_id}
    name = f"{wave.name}:{job.job_id}:{after.item_id}"
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
    known = {action.run_id: action for action in before.steps} if before else {}
    for action in after.steps:
        earlier = known.get(action.run_id)
        if earlier is None or earlier.state is not action.state:
            came_from = earlier.state.value if earlier else None
            payload = where | {
                "action": action.name,
                "run_id": action.run_id,
                "from": came_from,
                "to": action.state.value,
                "word": action.source_status,
                "reason": action.reason,
            }
            since = earlier.since if earlier else None
            subject = f"{name}:{action.run_id}:{came_from}@{since}:{action.state}"
            yield _event(execution, ACTION, subject, at, payload)


def _event(execution: Execution, kind: str, subject: str, at: int, payload: Mapping[str, object]) -> Event:
    named = f"{execution.execution_id}\0{execution.plan_id}\0{kind}\0{subject}"
    return Event(
        run_id=execution.run_id,
        # One poll sees many changes at one moment, and readers sort those by id: the end comes last.
        event_id=f"x{_RANKS[kind]:x}-{sha256(named.encode()).hexdigest()[:32]}",
        type=kind,
        occurred_at=at,
        payload=fit_payload({key: value for key, value in payload.items() if value is not None}),
    )


def _cited(evidence: Evidence) -> dict[str, object]:
    return {"call": evidence.call, "at": evidence.at, "fields": dict(evidence.fields)}


_FOLDED = (JOB, SERVER, ACTION, WAVE_ADDED, WAVE_COUNT_SET)


def unapplied_events(execution: Execution, journal: Journal) -> list[Event]:
    """The changes that were told of an execution later than its record knows, in their order."""
    known = execution.last_answer_at or 0
    told = [event for event in _changes(journal, execution.run_id) if event.occurred_at > known]
    return sorted(told, key=lambda event: event.order)


def replay_events(execution: Execution, events: Iterable[Event]) -> Execution:
    """The execution with these changes, in their order. One of a job that it does not have is left out."""
    events = list(events)
    if not events:
        return execution
    for event in events:
        execution = _with_decision(execution, event)
    jobs = {(wave.name, job.job_id): job for wave in execution.stages for job in wave.jobs}
    last = execution.last_change_at
    for event in events:
        key = (event.payload.get("wave"), event.payload.get("job_id"))
        if key in jobs:
            jobs[key] = _changed(jobs[key], event)
            last = max(last or 0, event.occurred_at)
    waves = tuple(_with_jobs(wave, jobs) for wave in execution.stages)
    return replace(execution, stages=waves, last_change_at=last)


def _changes(journal: Journal, run_id: str) -> Iterable[Event]:
    cursor, more = START, True
    while more:
        page = journal.read(run_id, after=cursor)
        yield from (event for event in page.events if event.type in _FOLDED)
        cursor, more = page.cursor, page.more


def _with_decision(execution: Execution, event: Event) -> Execution:
    """The execution with the wave that an operator added, or the wave count that was set."""
    if event.type not in (WAVE_ADDED, WAVE_COUNT_SET):
        return execution
    said, total = event.payload, number_of(event.payload, "total_waves")
    execution = replace(execution, total_stages=None if total is None else int(total))
    name = text_of(said, "wave")
    if name is None or name in {wave.name for wave in execution.stages}:
        return execution
    region, account = text_of(said, "region"), text_of(said, "account")
    jobs = tuple(Job(job_id, region=region, account=account) for job_id in _texts(said, "jobs"))
    return replace(execution, stages=(*execution.stages, Stage(name, jobs, _texts(said, "servers"))))


def _texts(said: Mapping[str, Any], name: str) -> tuple[str, ...]:
    return tuple(map(str, said.get(name) or ()))


def _with_jobs(wave: Stage, jobs: Mapping[tuple[Any, Any], Job]) -> Stage:
    return replace(wave, jobs=tuple(jobs[wave.name, job.job_id] for job in wave.jobs))


def _changed(job: Job, event: Event) -> Job:
    said, at = event.payload, event.occurred_at
    if event.type == JOB:
        state = JobState(str(said["to"]))
        finished = (job.finished_at or at) if state is JobState.FINISHED else job.finished_at
        cancelled = job.cancelled or bool(said.get("cancelled"))
        return replace(
            job,
            state=state,
            since=at,
            source_status=_text(said, "word"),
            finished_at=finished,
            cancelled=cancelled,
        )
    known = {server.item_id: server for server in job.items}
    server_id = str(said["server_id"])
    server = known.get(server_id, WorkItem(server_id))
    if event.type == SERVER:
        server = replace(
            server,
            state=ItemState(str(said["to"])),
            since=at,
            source_status=_text(said, "word"),
            instance_id=_text(said, "instance_id") or server.instance_id,
            reason=_text(said, "reason"),
        )
    else:
        server = replace(server, steps=_with_action(server.steps, said, at))
    known[server_id] = server
    return replace(job, items=tuple(known.values()))


def _with_action(actions: tuple[Step, ...], said: Mapping[str, Any], at: int) -> tuple[Step, ...]:
    name = str(said["action"])
    run_id = _text(said, "run_id")
    if run_id is None:
        return actions  # told before events named the run: the next answer lists it
    known = {action.run_id: action for action in actions}
    state = StepState(str(said["to"]))
    known[run_id] = Step(name, run_id, state, _text(said, "reason"), at, _text(said, "word"))
    return tuple(known.values())


def _text(said: Mapping[str, Any], name: str) -> str | None:
    value = said.get(name)
    return None if value is None else str(value)

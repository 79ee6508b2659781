"""What the journal knows and the record does not: a poller or an operator died between the two writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from longwatch.journal.base import Journal
from longwatch.model.event import START, Event, number_of, text_of
from longwatch.watching.model import (
    Action,
    ActionState,
    Execution,
    Job,
    JobState,
    Server,
    ServerState,
    Wave,
)
from longwatch.watching.transitions import ACTION, JOB, SERVER, WAVE_ADDED, WAVE_COUNT_SET

_FOLDED = (JOB, SERVER, ACTION, WAVE_ADDED, WAVE_COUNT_SET)


def untaken(execution: Execution, journal: Journal) -> list[Event]:
    """The changes that were told of an execution later than its record knows, in their order."""
    known = execution.last_answer_at or 0
    told = [event for event in _changes(journal, execution.run_id) if event.occurred_at > known]
    return sorted(told, key=lambda event: event.order)


def folded(execution: Execution, events: Iterable[Event]) -> Execution:
    """The execution with these changes, in their order. One of a job that it does not have is left out."""
    events = list(events)
    if not events:
        return execution
    for event in events:
        execution = _with_decision(execution, event)
    jobs = {(wave.name, job.job_id): job for wave in execution.waves for job in wave.jobs}
    last = execution.last_change_at
    for event in events:
        key = (event.payload.get("wave"), event.payload.get("job_id"))
        if key in jobs:
            jobs[key] = _changed(jobs[key], event)
            last = max(last or 0, event.occurred_at)
    waves = tuple(_with_jobs(wave, jobs) for wave in execution.waves)
    return replace(execution, waves=waves, last_change_at=last)


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
    execution = replace(execution, total_waves=None if total is None else int(total))
    name = text_of(said, "wave")
    if name is None or name in {wave.name for wave in execution.waves}:
        return execution
    region, account = text_of(said, "region"), text_of(said, "account")
    jobs = tuple(Job(job_id, region=region, account=account) for job_id in _texts(said, "jobs"))
    return replace(execution, waves=(*execution.waves, Wave(name, jobs, _texts(said, "servers"))))


def _texts(said: Mapping[str, Any], name: str) -> tuple[str, ...]:
    return tuple(map(str, said.get(name) or ()))


def _with_jobs(wave: Wave, jobs: Mapping[tuple[Any, Any], Job]) -> Wave:
    return replace(wave, jobs=tuple(jobs[wave.name, job.job_id] for job in wave.jobs))


def _changed(job: Job, event: Event) -> Job:
    said, at = event.payload, event.occurred_at
    if event.type == JOB:
        state = JobState(str(said["to"]))
        finished = (job.finished_at or at) if state is JobState.FINISHED else job.finished_at
        cancelled = job.cancelled or bool(said.get("cancelled"))
        return replace(
            job, state=state, since=at, word=_text(said, "word"), finished_at=finished, cancelled=cancelled
        )
    known = {server.server_id: server for server in job.servers}
    server_id = str(said["server_id"])
    server = known.get(server_id, Server(server_id))
    if event.type == SERVER:
        server = replace(
            server,
            state=ServerState(str(said["to"])),
            since=at,
            word=_text(said, "word"),
            instance_id=_text(said, "instance_id") or server.instance_id,
            reason=_text(said, "reason"),
        )
    else:
        server = replace(server, actions=_with_action(server.actions, said, at))
    known[server_id] = server
    return replace(job, servers=tuple(known.values()))


def _with_action(actions: tuple[Action, ...], said: Mapping[str, Any], at: int) -> tuple[Action, ...]:
    name = str(said["action"])
    run_id = _text(said, "run_id")
    if run_id is None:
        return actions  # told before events named the run: the next answer lists it
    known = {action.run_id: action for action in actions}
    state = ActionState(str(said["to"]))
    known[run_id] = Action(name, run_id, state, _text(said, "reason"), at, _text(said, "word"))
    return tuple(known.values())


def _text(said: Mapping[str, Any], name: str) -> str | None:
    value = said.get(name)
    return None if value is None else str(value)

"""Every change between two states of an execution, as events whose ids all pollers agree on.

The id of a change is made from what changed, never from who saw it or when. So two pollers that see the same
change write one event, and one that died after writing does no harm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256

from longwatch.model.event import Event
from longwatch.model.summary import Status
from longwatch.watching.model import (
    OPERATOR_CLOSED,
    Evidence,
    Execution,
    Job,
    JobState,
    Server,
    Verdict,
    Wave,
)
from longwatch.watching.shortening import fitted

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


def started(execution: Execution) -> Event:
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
            "total_waves": execution.total_waves,
            "deadline_ms": execution.deadline_ms,
            "waves": [
                {"name": wave.name, "jobs": [job.job_id for job in wave.jobs]} for wave in execution.waves
            ],
        },
    )


def changes(before: Execution, after: Execution, at: int) -> Iterator[Event]:
    """An event for each job, server and launch action that is not what it was."""
    known = {(wave.name, job.job_id): job for wave in before.waves for job in wave.jobs}
    for wave in after.waves:
        for job in wave.jobs:
            yield from _job_changes(after, wave, known.get((wave.name, job.job_id)), job, at)


def asked(execution: Execution, evidence: Evidence, at: int) -> Event:
    """Past its deadline the source was asked; this is what it said. Once for each deadline."""
    payload = {"deadline_ms": execution.deadline_ms, "evidence": _cited(evidence)}
    return _event(execution, ASKED, f"deadline:{execution.deadline_ms}", at, payload)


def ended(execution: Execution, verdict: Verdict) -> Event:
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


def run_disowned(execution: Execution) -> Event:
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


def wave_added(execution: Execution, wave: Wave, by: Mapping[str, object], at: int) -> Event:
    """An operator added this wave, which the execution has by now."""
    payload = {
        "wave": wave.name,
        "jobs": [job.job_id for job in wave.jobs],
        "servers": list(wave.expected_servers),
        "region": next((job.region for job in wave.jobs), None),
        "account": next((job.account for job in wave.jobs), None),
        "total_waves": execution.total_waves,
        **by,
    }
    return _event(execution, WAVE_ADDED, f"{wave.name}@{at}", at, payload)


def wave_count_set(execution: Execution, before: int | None, by: Mapping[str, object], at: int) -> Event:
    """An operator said how many waves the execution has."""
    payload = {"from": before, "total_waves": execution.total_waves, **by}
    return _event(execution, WAVE_COUNT_SET, f"{execution.total_waves}@{at}", at, payload)


def _job_changes(
    execution: Execution, wave: Wave, before: Job | None, after: Job, at: int
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
            "word": after.word,
            "cancelled": after.cancelled or None,
        }
        # A state can come again (a job that is missing twice): since when the last one was tells them apart.
        since = before.since if before else None
        subject = f"{wave.name}:{after.job_id}:{came_from}@{since}:{after.state}"
        yield _event(execution, JOB, subject, at, payload)
    known = {server.server_id: server for server in before.servers} if before else {}
    for server in after.servers:
        yield from _server_changes(execution, wave, after, known.get(server.server_id), server, at)


def _was_never_seen(job: Job) -> bool:
    """Whether it is only stored: its source has not been asked about it."""
    return job.since is None and job.state is JobState.PENDING and not job.servers


def _server_changes(
    execution: Execution, wave: Wave, job: Job, before: Server | None, after: Server, at: int
) -> Iterator[Event]:
    where: dict[str, object] = {"wave": wave.name, "job_id": job.job_id, "server_id": after.server_id}
    name = f"{wave.name}:{job.job_id}:{after.server_id}"
    if before is None or before.state is not after.state:
        came_from = before.state.value if before else None
        payload = where | {
            "from": came_from,
            "to": after.state.value,
            "word": after.word,
            "instance_id": after.instance_id,
            "reason": after.reason,
        }
        since = before.since if before else None
        yield _event(execution, SERVER, f"{name}:{came_from}@{since}:{after.state}", at, payload)
    known = {action.run_id: action for action in before.actions} if before else {}
    for action in after.actions:
        earlier = known.get(action.run_id)
        if earlier is None or earlier.state is not action.state:
            came_from = earlier.state.value if earlier else None
            payload = where | {
                "action": action.name,
                "run_id": action.run_id,
                "from": came_from,
                "to": action.state.value,
                "word": action.word,
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
        payload=fitted({key: value for key, value in payload.items() if value is not None}),
    )


def _cited(evidence: Evidence) -> dict[str, object]:
    return {"call": evidence.call, "at": evidence.at, "fields": dict(evidence.fields)}

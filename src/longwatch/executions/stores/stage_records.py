"""Waves, jobs and servers as maps in an execution's record, and back.

A wave of another writer names its jobs (`JobId`, `JobIds`, or `JobId` in its servers) and its servers
(`SourceServerId`). longwatch adds `Jobs` with a map for each job, and to each server its status
in the job that decides about it, with the time. Earlier attempts are stored in their jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from longwatch.executions.model import (
    ItemState,
    Job,
    JobKind,
    JobState,
    Mode,
    Stage,
    Step,
    StepState,
    WorkItem,
)
from longwatch.executions.outcomes import stage_outcome
from longwatch.model.summary import Status

_WAVE_STATUSES = {
    Status.SUCCEEDED: "COMPLETED",
    Status.PARTIAL: "PARTIAL",
    Status.FAILED: "FAILED",
    Status.CANCELLED: "CANCELLED",
    Status.UNKNOWN: "UNKNOWN",
}


def parse_wave(entry: Mapping[str, Any], number: int) -> Stage:
    """Parse a wave; one without a name is named by its number."""
    listed = entry.get("Servers") or ()
    ids = list(dict.fromkeys(server_id_of(each) for each in listed))
    not_planned = _not_planned(listed)
    jobs = _jobs(entry)
    only = jobs[0]["JobId"] if len(jobs) == 1 else None
    return Stage(
        name=str(entry.get("WaveName") or entry.get("Name") or f"wave {number}"),
        jobs=tuple(_parse_job(job, listed, only, entry.get("Region")) for job in jobs),
        expected_items=tuple(each for each in ids if each and each not in not_planned),
    )


def wave_record(wave: Stage, read: Mapping[str, Any], mode: Mode, at: int) -> dict[str, Any]:
    """The map of a wave: the one that was read, with its changes."""
    decided = wave.attempts()
    record: dict[str, Any] = {**read}
    if not read:
        record["WaveName"] = wave.name
    record["Status"] = _wave_status(wave, mode, at)
    listed = list(read.get("Servers") or ())
    ids_listed = Counter(server_id_of(each) for each in listed)
    shown = [
        _shown_attempt(each, wave, decided, several=ids_listed[server_id_of(each)] > 1) for each in listed
    ]
    listed += [{"SourceServerId": each} for each in wave.expected_items if each not in ids_listed]
    planned = {*ids_listed, *wave.expected_items}
    listed += [{"SourceServerId": each, "Planned": False} for each in decided if each not in planned]
    shown += [decided.get(server_id_of(each)) for each in listed[len(shown) :]]
    record["Servers"] = [
        _server_record(each, *(found or (None, None))) for each, found in zip(listed, shown, strict=True)
    ]
    in_list = {(found[0].job_id, found[1].item_id) for found in shown if found}
    record["Jobs"] = [_job_record(job, _same(job.job_id, "JobId", _jobs(read)), in_list) for job in wave.jobs]
    return record


def _shown_attempt(
    entry: Any, wave: Stage, decided: Mapping[str, tuple[Job, WorkItem]], *, several: bool
) -> tuple[Job, WorkItem] | None:
    """The attempt of an entry: the one that decides, or the one it names if each attempt has an entry."""
    server_id = server_id_of(entry)
    if several:
        for job in wave.jobs:
            for server in job.items:
                if server.item_id == server_id and job.job_id in _job_ids(entry):
                    return job, server
        return None
    return decided.get(server_id)


def _jobs(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The wave's jobs, each as a map: those in `Jobs`, and others that the wave or its servers name."""
    found: dict[str, Mapping[str, Any]] = {}
    for each in [*(entry.get("Jobs") or ()), *_job_ids(entry)]:
        job = each if isinstance(each, Mapping) else {"JobId": each}
        if job.get("JobId"):
            found.setdefault(str(job["JobId"]), job)
    for server in entry.get("Servers") or ():
        for job_id in _job_ids(server):
            where = {name: server[name] for name in ("Region", "AccountId") if server.get(name)}
            found.setdefault(job_id, {"JobId": job_id, **where})
    return list(found.values())


def _job_ids(entry: Any) -> list[str]:
    """The ids of jobs that a wave or a server names."""
    if not isinstance(entry, Mapping):
        return []
    named = [*(entry.get("JobIds") or ()), entry.get("JobId"), entry.get("JobID")]
    return [str(each) for each in named if each]


def _parse_job(entry: Mapping[str, Any], listed: Sequence[Any], only: object, region: object) -> Job:
    job_id = str(entry["JobId"])
    in_job = [{**each, "JobId": job_id} for each in entry.get("Servers") or ()]
    seen = [
        each
        for each in (*listed, *in_job)
        if isinstance(each, Mapping) and each.get("StatusSince") is not None
    ]
    since = from_seconds(entry.get("StatusSince"))
    state = JobState.PENDING
    if since is not None:  # a status of another writer has no meaning here
        state = JobState(str(entry.get("Status") or "pending").lower())
    return Job(
        job_id=job_id,
        state=state,
        items=tuple(_parse_server(each) for each in seen if _is_of(each, job_id, only)),
        region=_text(entry.get("Region") or region),
        account=_text(entry.get("AccountId")),
        finished_at=from_seconds(entry.get("FinishedTime")),
        finished_polls=int(entry.get("FinishedPolls") or 0),
        finished_for_ms=from_seconds(entry.get("FinishedFor")),
        cancelled=bool(entry.get("Cancelled")),
        source_status=_source_status(entry, state),
        since=since,
        kind=JobKind(str(entry.get("Type") or JobKind.LAUNCH).lower()),
        created_at=from_seconds(entry.get("CreatedTime")),
    )


def _is_of(server: Mapping[str, Any], job_id: str, only: object) -> bool:
    """Whether a server belongs to this job; without a job id, to the only job."""
    return str(server.get("JobId") or server.get("JobID") or only) == job_id


def _job_record(job: Job, read: Mapping[str, Any], in_list: set[tuple[str, str]]) -> dict[str, Any]:
    """The map of a job, with the servers that the wave's list shows in another job."""
    beside = [each for each in job.items if (job.job_id, each.item_id) not in in_list]
    return _set_values(
        {**read, "JobId": job.job_id},
        {
            "Status": job.state.value.upper(),
            "StatusSince": seconds(job.since),
            "Region": job.region,
            "AccountId": job.account,
            "FinishedTime": seconds(job.finished_at),
            "FinishedPolls": job.finished_polls or None,
            "FinishedFor": seconds(job.finished_for_ms),
            "Cancelled": job.cancelled or None,
            "Word": job.source_status,
            "Type": None if job.kind is JobKind.LAUNCH else job.kind.value.upper(),
            "CreatedTime": seconds(job.created_at),
            "Servers": [_server_record({}, None, each) for each in beside] or None,
        },
    )


def _parse_server(entry: Mapping[str, Any]) -> WorkItem:
    state = ItemState(str(entry.get("Status") or "pending").lower())
    return WorkItem(
        item_id=server_id_of(entry),
        state=state,
        instance_id=entry.get("RecoveryInstanceId"),
        steps=tuple(_parse_action(each) for each in entry.get("LaunchActions") or ()),
        source_status=_source_status(entry, state),
        reason=entry.get("Reason"),
        since=from_seconds(entry.get("StatusSince")),
    )


def _server_record(read: Any, job: Job | None, server: WorkItem | None) -> Any:
    if server is None:
        return read
    return _set_values(
        {**(read if isinstance(read, Mapping) else {}), "SourceServerId": server.item_id},
        {
            "JobId": job.job_id if job else None,
            "Status": server.state.value.upper(),
            "StatusSince": seconds(server.since),
            "RecoveryInstanceId": server.instance_id,
            "LaunchActions": [_action_record(action) for action in server.steps] or None,
            "Word": server.source_status,
            "Reason": server.reason,
        },
    )


def _parse_action(entry: Mapping[str, Any]) -> Step:
    state = StepState(str(entry.get("Status") or "in_progress").lower())
    name = str(entry.get("Name") or "action")
    return Step(
        name=name,
        run_id=str(entry.get("RunId") or name),
        state=state,
        reason=entry.get("Reason"),
        since=from_seconds(entry.get("StatusSince")),
        source_status=_source_status(entry, state),
    )


def _source_status(entry: Mapping[str, Any], state: JobState | ItemState | StepState) -> str | None:
    """The source's own status, or the stored one where this version does not have it."""
    status = entry.get("Word")
    if status is None and state.value == "unknown":
        status = entry.get("Status")
    return _text(status)


def _action_record(action: Step) -> dict[str, Any]:
    return _set_values(
        {"Name": action.name, "RunId": action.run_id, "Status": action.state.value.upper()},
        {"Reason": action.reason, "StatusSince": seconds(action.since), "Word": action.source_status},
    )


def _wave_status(wave: Stage, mode: Mode, at: int) -> str:
    outcome = stage_outcome(wave, mode, at)
    if outcome is not None:
        return _WAVE_STATUSES[outcome.status]
    begun = any(job.state is not JobState.PENDING for job in wave.jobs)
    return "IN_PROGRESS" if begun else "PENDING"


def _not_planned(listed: Sequence[Any]) -> set[str]:
    """The ids of servers that a job named, rather than the plan."""
    return {
        server_id_of(each) for each in listed if isinstance(each, Mapping) and each.get("Planned") is False
    }


def server_id_of(entry: Any) -> str:
    """The id of a server, in each spelling that other writers use."""
    if isinstance(entry, Mapping):
        return str(entry.get("SourceServerId") or entry.get("SourceServerID") or entry.get("ServerId") or "")
    return str(entry)


def _same(wanted: str, name: str, among: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return next((each for each in among if each.get(name) == wanted), {})


def _set_values(record: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Set these values; None removes one."""
    for name, value in values.items():
        if value is None:
            record.pop(name, None)
        else:
            record[name] = value
    return record


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def seconds(ms: int | None) -> float | int | None:
    """Epoch seconds, with milliseconds as decimals where ids_listed are any."""
    if ms is None:
        return None
    return ms // 1000 if ms % 1000 == 0 else ms / 1000


def from_seconds(value: object) -> int | None:
    """Whole milliseconds."""
    return None if value is None else round(Decimal(str(value)) * 1000)

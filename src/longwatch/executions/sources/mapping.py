"""Maps responses of a system to the model, by its declaration."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from longwatch.executions.model import (
    Execution,
    ItemState,
    Job,
    JobState,
    Mode,
    Stage,
    Step,
    StepState,
    WorkItem,
)
from longwatch.executions.sources.base import SourceProblem
from longwatch.executions.sources.dates import iso_seconds, time_ms
from longwatch.executions.sources.declarations import (
    Declaration,
    HttpCall,
    Items,
    Meaning,
    Operation,
    normalize,
)
from longwatch.executions.sources.expressions import value_at
from longwatch.executions.sources.outcome_fields import qualifiers_of, qualify_status
from longwatch.executions.truncation import LONGEST_STATUS, storable_text

LONGEST_REASON = 500  # characters; a service may send a whole stack trace
LONGEST_PLAN = 1000  # characters; it may be a URL
MOST_ITEMS = 200  # of one job, so that a record can hold them

_STATES: Mapping[Meaning | None, tuple[JobState, ItemState]] = {
    Meaning.PENDING: (JobState.PENDING, ItemState.PENDING),
    Meaning.RUNNING: (JobState.STARTED, ItemState.IN_PROGRESS),
    Meaning.SUCCEEDED: (JobState.FINISHED, ItemState.DONE),
    Meaning.FAILED: (JobState.FINISHED, ItemState.FAILED),
    Meaning.CANCELLED: (JobState.FINISHED, ItemState.CANCELLED),
    Meaning.ENDED: (JobState.FINISHED, ItemState.ENDED),
    None: (JobState.UNKNOWN, ItemState.UNKNOWN),
}
_STEP_STATES: Mapping[Meaning, StepState] = {
    Meaning.SUCCEEDED: StepState.SUCCEEDED,
    Meaning.FAILED: StepState.FAILED,
    Meaning.CANCELLED: StepState.FAILED,
    Meaning.ENDED: StepState.SUCCEEDED,
}


@dataclass(frozen=True, slots=True)
class RawJob:
    """One job as the system returned it."""

    fields: Any  # the response, or the part of it about this job
    source_status: str | None = None  # where it is not in a field
    declaration: Declaration | None = None  # where this job is read in another way than the source's others
    items: Sequence[Any] | None = None  # where another call lists them
    retry_after_seconds: float | None = None  # requested by the system
    date: int | None = None  # epoch ms; the `Date` of the response


@dataclass(frozen=True, slots=True)
class MappedStatus:
    """The status of one job and its meaning."""

    source_status: str
    meaning: Meaning | None  # None: the status is in no table
    reason: str | None = None
    items: tuple[Step, ...] = field(default=())


def map_status(declaration: Declaration, raw: RawJob) -> MappedStatus | None:
    """Map the status of a job; None if the response has no status."""
    declaration = raw.declaration or declaration
    source_status = _source_status(declaration, raw)
    if source_status is None:
        return None
    meaning = declaration.statuses.get(normalize(source_status))
    if meaning is not None and meaning.is_end:
        beside = qualifiers_of(declaration, raw.fields)
        meaning = qualify_status(source_status, meaning, beside)
        source_status = ", ".join(
            dict.fromkeys([source_status, *(str(each) for each in beside if each.value != source_status)])
        )
    if meaning is Meaning.FAILED and any(_is_true(raw, path) for path in declaration.cancelled):
        meaning = Meaning.CANCELLED
    stage = normalize(value_at(raw.fields, declaration.stage)) if declaration.stage else ""
    if meaning is Meaning.RUNNING and stage in declaration.waiting:
        meaning = Meaning.PENDING
    items = map_steps(declaration.items, raw) if declaration.items else ()
    return MappedStatus(
        storable_text(source_status, LONGEST_STATUS), meaning, _reason(declaration, raw, items), items
    )


def map_job(job: Job, mapped: MappedStatus, *, item_name: str | None = None) -> Job:
    """Map a job to one item, whose steps are the job's own."""
    job_state, server_state = _STATES[mapped.meaning]
    # Many sources report the reason only while the job fails. Success needs none.
    reason = mapped.reason or next((each.reason for each in job.items if each.reason), None)
    reason = None if mapped.meaning is Meaning.SUCCEEDED else reason
    if reason is None and server_state in (ItemState.FAILED, ItemState.ENDED):
        reason = f"its status is {mapped.source_status}"
    name = item_name or short_id(job.job_id)
    item = WorkItem(name, server_state, steps=mapped.items, source_status=mapped.source_status, reason=reason)
    return Job(
        job.job_id,
        job_state,
        (item,),
        cancelled=mapped.meaning is Meaning.CANCELLED,
        source_status=mapped.source_status,
    )


def short_id(job_id: str) -> str:
    """A short name of a job: of an ARN, only what follows the resource type."""
    if not job_id.startswith("arn:") or job_id.count(":") < 5:
        return job_id
    return re.split("[:/]", job_id.split(":", 5)[5], maxsplit=1)[-1]


def mark_superseded(
    declaration: Declaration, execution: Execution, raw: RawJob, mapped: MappedStatus
) -> MappedStatus:
    """Mark a job as ended if its status belongs to a later run or operation: its own outcome was not seen.

    A status in no table does not show which operation it belongs to, so it ends none.
    """
    if mapped.meaning is None or not _is_of_another(declaration, execution, raw, mapped):
        return mapped
    return MappedStatus(
        mapped.source_status,
        Meaning.ENDED,
        f"ended unseen: its status is now {mapped.source_status}, of a later run",
        mapped.items,
    )


def new_execution(
    declaration: Declaration,
    job_id: str,
    raw: RawJob,
    mapped: MappedStatus,
    *,
    region: str | None,
    account: str | None,
    now: int,
) -> Execution:
    """The execution to watch for this id."""
    operation = next(
        (each for each in declaration.operations if normalize(mapped.source_status) in each.statuses), None
    )
    label = iso_seconds(now) if declaration.repeats else run_label(declaration, raw, operation)
    own = value_at(raw.fields, declaration.own_id) if declaration.own_id else None
    plan = value_at(raw.fields, declaration.plan) if declaration.plan else None
    began = time_ms(value_at(raw.fields, operation.since)) if operation else None
    if began is None and declaration.began:
        began = time_ms(value_at(raw.fields, declaration.began))
    if plan is None and declaration.repeats:  # all runs behind one URL are of one kind
        plan = re.split("[#?]", job_id, maxsplit=1)[0]
    if plan is None and isinstance(declaration.call, HttpCall) and declaration.call.divider:
        plan = job_id.rpartition(declaration.call.divider)[0]
    deadline = declaration.deadline_seconds
    job = Job(str(own or job_id), region=region, account=account)
    return Execution(
        execution_id=f"{declaration.prefix}{job_id}" + (f"@{label}" if label else ""),
        plan_id=storable_text(plan or declaration.name, LONGEST_PLAN),
        source=declaration.name,
        mode=Mode.JOB,
        started_at=min(began or now, now) // 1000 * 1000,
        stages=(Stage(operation.name if operation else declaration.name, (job,)),),
        total_stages=1,
        deadline_ms=None if deadline is None else round(deadline * 1000),
    )


def run_label(declaration: Declaration, raw: RawJob, operation: Operation | None) -> str | None:
    """What distinguishes this run from others of the same id; None: there is only one."""
    if operation is not None:
        since = time_ms(value_at(raw.fields, operation.since))
        return operation.name if since is None else f"{operation.name}-{iso_seconds(since)}"
    value = value_at(raw.fields, declaration.since) if declaration.since else None
    if value is None:
        return None
    since = time_ms(value)
    return storable_text(value, LONGEST_STATUS) if since is None else iso_seconds(since)


def _is_of_another(declaration: Declaration, execution: Execution, raw: RawJob, mapped: MappedStatus) -> bool:
    """Whether the response is about a later run. Only an id that `new_execution` made names the run.

    A status that is in no table belongs to no operation, so it never ends one.
    """
    if mapped.meaning is None:
        return False
    execution_id = execution.execution_id
    names = {stage.name for stage in execution.stages}
    operation = next((each for each in declaration.operations if each.name in names), None)
    label = run_label(declaration, raw, operation)
    if operation is not None:
        is_ours = execution_id.startswith(declaration.prefix) and "@" in execution_id
        return normalize(mapped.source_status) not in operation.statuses or (
            is_ours and not execution_id.endswith(f"@{label}")
        )
    base = next((f"{declaration.prefix}{job_id}" for job_id in execution.job_ids()), "")
    if declaration.since is None or execution_id.partition("@")[0] != base.partition("@")[0]:
        return False
    return execution_id != base + (f"@{label}" if label else "")


def map_steps(items: Items, raw: RawJob) -> tuple[Step, ...]:
    """Map the steps of a job. One without a status, or with one in no table, is in progress."""
    listed = raw.items if raw.items is not None else value_at(raw.fields, items.at)
    found: dict[str, Step] = {}
    for each in listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ():
        named = value_at(each, items.name)
        if named is None or str(named) in items.left_out or len(found) >= MOST_ITEMS:
            continue
        name = storable_text(named, LONGEST_STATUS)
        meaning = items.statuses.get(normalize(value_at(each, items.status)))
        reason = value_at(each, items.reason) if items.reason else None
        number = 1
        while (run_id := name if number == 1 else f"{name}#{number}") in found:
            number += 1
        found[run_id] = Step(
            name,
            run_id,
            StepState.IN_PROGRESS if meaning is None else _STEP_STATES.get(meaning, StepState.IN_PROGRESS),
            storable_text(reason, LONGEST_REASON) if reason else None,
        )
    return tuple(found.values())


def no_status(declaration: Declaration, job_id: str, raw: RawJob) -> SourceProblem:
    """The problem for a response without a status."""
    has = ", ".join(str(name) for name in raw.fields) if isinstance(raw.fields, Mapping) else ""
    has = storable_text(has, 200)
    path = (raw.declaration or declaration).status
    where = f"at {path}" if path else "in it"
    return SourceProblem(
        f"The response of {declaration.call.name} about {job_id} has no status {where}"
        + (f"; it has {has}" if has else ""),
        lasting=True,
    )


def _source_status(declaration: Declaration, raw: RawJob) -> str | None:
    if raw.source_status is not None:
        return raw.source_status
    path = declaration.status
    value = value_at(raw.fields, path) if path is not None else None
    if value is None or isinstance(value, Mapping | list):
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _reason(declaration: Declaration, raw: RawJob, items: tuple[Step, ...]) -> str | None:
    parts = [str(value) for path in declaration.reason if (value := value_at(raw.fields, path))]
    if not parts:
        parts = [
            f"{each.name}: {each.reason}" for each in items if each.state is StepState.FAILED and each.reason
        ]
        parts = parts[:1]
    return storable_text(": ".join(dict.fromkeys(parts)), LONGEST_REASON) or None


def _is_true(raw: RawJob, path: str) -> bool:
    return value_at(raw.fields, path) is True

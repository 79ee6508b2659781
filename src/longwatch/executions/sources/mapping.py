"""From what a system said to our model, by its declaration: which words mean what, and which job it is."""

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

LONGEST_REASON = 500  # characters; a service may put a whole stack trace there
LONGEST_PLAN = 1000  # characters; it may be an address
MOST_ITEMS = 200  # steps of one job: a record has to hold them

_STATES: Mapping[Meaning | None, tuple[JobState, ItemState]] = {
    Meaning.PENDING: (JobState.PENDING, ItemState.PENDING),
    Meaning.RUNNING: (JobState.STARTED, ItemState.IN_PROGRESS),
    Meaning.SUCCEEDED: (JobState.FINISHED, ItemState.DONE),
    Meaning.FAILED: (JobState.FINISHED, ItemState.FAILED),
    Meaning.CANCELLED: (JobState.FINISHED, ItemState.CANCELLED),
    Meaning.ENDED: (JobState.FINISHED, ItemState.ENDED),
    None: (JobState.UNKNOWN, ItemState.UNKNOWN),
}
_ACTIONS: Mapping[Meaning, StepState] = {
    Meaning.SUCCEEDED: StepState.SUCCEEDED,
    Meaning.FAILED: StepState.FAILED,
    Meaning.CANCELLED: StepState.FAILED,
    Meaning.ENDED: StepState.SUCCEEDED,
}


@dataclass(frozen=True, slots=True)
class RawJob:
    """What a system said about one job."""

    fields: Any  # the answer, or the part of it that is about this job
    word: str | None = None  # the status, where it is in no field
    declaration: Declaration | None = None  # the source's, unless this job is read in a way of its own
    items: Sequence[Any] | None = None  # where they were asked for by a call of their own
    again_seconds: float | None = None  # the system's wish for the next question
    date: int | None = None  # epoch ms; the `Date` of the response


@dataclass(frozen=True, slots=True)
class MappedStatus:
    """The status of one job, understood."""

    word: str
    meaning: Meaning | None  # None: the word is in no table
    reason: str | None = None
    items: tuple[Step, ...] = field(default=())


def map_status(declaration: Declaration, thing: RawJob) -> MappedStatus | None:
    """What the system said, in our words; None if it said no status at all."""
    declaration = thing.declaration or declaration
    word = _status_word(declaration, thing)
    if word is None:
        return None
    meaning = declaration.statuses.get(normalize(word))
    if meaning is not None and meaning.is_end:
        beside = qualifiers_of(declaration, thing.fields)
        meaning = qualify_status(word, meaning, beside)
        word = ", ".join(dict.fromkeys([word, *(str(each) for each in beside if each.value != word)]))
    if meaning is Meaning.FAILED and any(_is_true(thing, path) for path in declaration.cancelled):
        meaning = Meaning.CANCELLED
    stage = normalize(value_at(thing.fields, declaration.stage)) if declaration.stage else ""
    if meaning is Meaning.RUNNING and stage in declaration.waiting:
        meaning = Meaning.PENDING
    items = map_steps(declaration.items, thing) if declaration.items else ()
    return MappedStatus(
        storable_text(word, LONGEST_STATUS), meaning, _reason(declaration, thing, items), items
    )


def map_job(job: Job, said: MappedStatus, *, called: str | None = None) -> Job:
    """The job as the source has it now: one server, whose launch actions are the job's own steps."""
    job_state, server_state = _STATES[said.meaning]
    # What was the reason while it failed is often not said any more once it has. Success needs none.
    reason = said.reason or next((each.reason for each in job.items if each.reason), None)
    reason = None if said.meaning is Meaning.SUCCEEDED else reason
    if reason is None and server_state in (ItemState.FAILED, ItemState.ENDED):
        reason = f"its status is {said.word}"
    name = called or short_id(job.job_id)
    item = WorkItem(name, server_state, steps=said.items, source_status=said.word, reason=reason)
    return Job(
        job.job_id,
        job_state,
        (item,),
        cancelled=said.meaning is Meaning.CANCELLED,
        source_status=said.word,
    )


def short_id(job_id: str) -> str:
    """What people call it: of an ARN only what follows the kind of thing."""
    if not job_id.startswith("arn:") or job_id.count(":") < 5:
        return job_id
    return re.split("[:/]", job_id.split(":", 5)[5], maxsplit=1)[-1]


def mark_superseded(
    declaration: Declaration, execution: Execution, thing: RawJob, said: MappedStatus
) -> MappedStatus:
    """What it means if something else is being done by now: the first has ended, and nobody saw how.

    A status in no table does not say which operation it belongs to, so it ends none.
    """
    if said.meaning is None or not _is_of_another(declaration, execution, thing, said):
        return said
    return MappedStatus(
        said.word,
        Meaning.ENDED,
        f"it has ended, and how was not seen: its status is {said.word} by now, of something later",
        said.items,
    )


def new_execution(
    declaration: Declaration,
    what: str,
    thing: RawJob,
    said: MappedStatus,
    *,
    region: str | None,
    account: str | None,
    now: int,
) -> Execution:
    """The execution that people mean when they type this id now."""
    operation = next((each for each in declaration.operations if normalize(said.word) in each.statuses), None)
    label = iso_seconds(now) if declaration.repeats else run_label(declaration, thing, operation)
    own = value_at(thing.fields, declaration.own_id) if declaration.own_id else None
    plan = value_at(thing.fields, declaration.plan) if declaration.plan else None
    began = time_ms(value_at(thing.fields, operation.since)) if operation else None
    if began is None and declaration.began:
        began = time_ms(value_at(thing.fields, declaration.began))
    if plan is None and declaration.repeats:  # all runs behind one address are of a kind
        plan = re.split("[#?]", what, maxsplit=1)[0]
    if plan is None and isinstance(declaration.call, HttpCall) and declaration.call.divider:
        plan = what.rpartition(declaration.call.divider)[0]
    deadline = declaration.deadline_seconds
    job = Job(str(own or what), region=region, account=account)
    return Execution(
        execution_id=f"{declaration.prefix}{what}" + (f"@{label}" if label else ""),
        plan_id=storable_text(plan or declaration.name, LONGEST_PLAN),
        source=declaration.name,
        mode=Mode.JOB,
        started_at=min(began or now, now) // 1000 * 1000,
        stages=(Stage(operation.name if operation else declaration.name, (job,)),),
        total_stages=1,
        deadline_ms=None if deadline is None else round(deadline * 1000),
    )


def run_label(declaration: Declaration, thing: RawJob, operation: Operation | None) -> str | None:
    """What tells this run from others of the same id; None: there is only one."""
    if operation is not None:
        since = time_ms(value_at(thing.fields, operation.since))
        return operation.name if since is None else f"{operation.name}-{iso_seconds(since)}"
    value = value_at(thing.fields, declaration.since) if declaration.since else None
    if value is None:
        return None
    since = time_ms(value)
    return storable_text(value, LONGEST_STATUS) if since is None else iso_seconds(since)


def _is_of_another(declaration: Declaration, execution: Execution, thing: RawJob, said: MappedStatus) -> bool:
    """Whether the answer tells of a later run. Only an id that `begun` made says which one is meant.

    A word that is in no table belongs to no operation, so it never ends one.
    """
    if said.meaning is None:
        return False
    execution_id = execution.execution_id
    names = {stage.name for stage in execution.stages}
    operation = next((each for each in declaration.operations if each.name in names), None)
    label = run_label(declaration, thing, operation)
    if operation is not None:
        is_ours = execution_id.startswith(declaration.prefix) and "@" in execution_id
        return normalize(said.word) not in operation.statuses or (
            is_ours and not execution_id.endswith(f"@{label}")
        )
    base = next((f"{declaration.prefix}{job_id}" for job_id in execution.job_ids()), "")
    if declaration.since is None or execution_id.partition("@")[0] != base.partition("@")[0]:
        return False
    return execution_id != base + (f"@{label}" if label else "")


def map_steps(items: Items, thing: RawJob) -> tuple[Step, ...]:
    """The steps of a job. One without a status, or with one in no table, is in progress."""
    listed = thing.items if thing.items is not None else value_at(thing.fields, items.at)
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
            StepState.IN_PROGRESS if meaning is None else _ACTIONS.get(meaning, StepState.IN_PROGRESS),
            storable_text(reason, LONGEST_REASON) if reason else None,
        )
    return tuple(found.values())


def no_status(declaration: Declaration, what: str, thing: RawJob) -> SourceProblem:
    """The problem that an answer without a status is."""
    has = ", ".join(str(name) for name in thing.fields) if isinstance(thing.fields, Mapping) else ""
    has = storable_text(has, 200)
    path = (thing.declaration or declaration).status
    where = f"at {path}" if path else "in it"
    return SourceProblem(
        f"the answer of {declaration.call.name} about {what} has no status {where}"
        + (f"; it has {has}" if has else ""),
        lasting=True,
    )


def _status_word(declaration: Declaration, thing: RawJob) -> str | None:
    if thing.word is not None:
        return thing.word
    path = declaration.status
    value = value_at(thing.fields, path) if path is not None else None
    if value is None or isinstance(value, Mapping | list):
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _reason(declaration: Declaration, thing: RawJob, items: tuple[Step, ...]) -> str | None:
    parts = [str(value) for path in declaration.reason if (value := value_at(thing.fields, path))]
    if not parts:
        parts = [
            f"{each.name}: {each.reason}" for each in items if each.state is StepState.FAILED and each.reason
        ]
        parts = parts[:1]
    return storable_text(": ".join(dict.fromkeys(parts)), LONGEST_REASON) or None


def _is_true(thing: RawJob, path: str) -> bool:
    return value_at(thing.fields, path) is True

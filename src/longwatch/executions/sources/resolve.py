"""Resolves a target on the command line to an execution: one that is stored already, or a new one."""

from __future__ import annotations

from dataclasses import replace

from longwatch.errors import AlreadyThere, AmbiguousExecution
from longwatch.executions.model import Execution, Job, Mode, Stage
from longwatch.executions.responses import SourceResponse
from longwatch.executions.sources.base import Source, SourceProblem, Starter
from longwatch.executions.sources.declared import DeclaredSource, region_in
from longwatch.executions.stores.base import ExecutionStore
from longwatch.model.event import MAX_RUN_ID_BYTES, RESERVED_PREFIX


def resolve_execution(
    store: ExecutionStore,
    source: Source,
    target: str,
    job_id: str,
    *,
    region: str | None = None,
    account: str | None = None,
) -> Execution | SourceProblem | None:
    """The stored execution of a target such as `aws:codebuild:demo:1`, whose job id is `job_id`.

    An open execution is resumed. For one that has ended, the source is polled for a new run of the same id.
    None: the source does not have it.
    """
    stored = _only(store, target) or _open(store, target)
    if stored is not None and stored.execution_id == target and (stored.is_open or _repeats(source)):
        return stored  # the id of a run at a URL is not a URL itself
    new = begin(source, target, job_id, region=region, account=account)
    if isinstance(new, SourceProblem) or new is None:
        return stored or new
    if stored is not None and stored.is_open and _repeats(source):
        return stored  # runs of one id cannot be distinguished: resume the open one
    # A plan that is read from the source may have been renamed, as after an exec of a process.
    existing = store.get(new.execution_id, new.plan_id) or _only(store, new.execution_id)
    if existing is not None:
        return existing
    try:
        return store.add(_with_own_run(store, new))
    except AlreadyThere:  # another process stored it just now
        return store.get(new.execution_id, new.plan_id)


def begin(
    source: Source, target: str, job_id: str, *, region: str | None, account: str | None
) -> Execution | SourceProblem | None:
    """A new execution after one poll. For a source that cannot create one, it has one job with this id."""
    if isinstance(source, Starter):
        return source.begin(job_id, region=region, account=account)
    return one_job(source, target, job_id, region=region, account=account)


def one_job(
    source: Source, execution_id: str, job_id: str, *, region: str | None, account: str | None
) -> Execution | SourceProblem | None:
    """An execution of one job, if its source has it."""
    new = Execution(
        execution_id=execution_id,
        plan_id=source.name,
        source=source.name,
        # DRS does not report whether it is a drill: the stricter rule waits for its launch actions.
        mode=Mode.RECOVERY if source.name == "drs" else Mode.JOB,
        started_at=0,
        stages=(Stage(source.name, (Job(job_id, region=region or region_in(job_id), account=account),)),),
        total_stages=1,
    )
    result = source.poll([new])[new.key]
    if not isinstance(result, SourceResponse):
        return result
    return None if result.missing else replace(new, started_at=result.at // 1000 * 1000)


def _with_own_run(store: ExecutionStore, new: Execution) -> Execution:
    """The execution with its id as run id, if that is free: the id is job_id users type."""
    try:
        is_used = store.get(new.execution_id) is not None
    except AmbiguousExecution:
        is_used = True
    text = new.execution_id
    fits = len(text.encode()) <= MAX_RUN_ID_BYTES and not text.startswith(RESERVED_PREFIX)
    return replace(new, own_run_id=text) if fits and not is_used else new


def _only(store: ExecutionStore, execution_id: str) -> Execution | None:
    """The only execution of this id; None where several plans have one."""
    try:
        return store.get(execution_id)
    except AmbiguousExecution:
        return None


def _open(store: ExecutionStore, target: str) -> Execution | None:
    """The newest open execution whose id is this target with a run label."""
    found = [each for each in store.open_executions() if each.execution_id.startswith(f"{target}@")]
    return max(found, key=lambda each: each.started_at, default=None)


def _repeats(source: Source) -> bool:
    return isinstance(source, DeclaredSource) and source.declaration.repeats

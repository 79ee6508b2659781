"""From what people type to the execution that is meant: the one that is watched already, or a new one."""

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
    what: str,
    *,
    region: str | None = None,
    account: str | None = None,
) -> Execution | SourceProblem | None:
    """The execution behind a target such as `aws:codebuild:demo:1`, whose id is `what`, in the store.

    One that is open is gone on with. For one that has ended its source is asked whether the same id means
    something new by now. None: the source does not know it.
    """
    known = _only(store, target) or _open(store, target)
    if known is not None and known.execution_id == target and (known.is_open or _repeats(source)):
        return known  # the id of a run behind an address is no address itself
    fresh = begin(source, target, what, region=region, account=account)
    if isinstance(fresh, SourceProblem) or fresh is None:
        return known or fresh
    if known is not None and known.is_open and _repeats(source):
        return known  # nothing tells two runs of one id apart, so the one that is open is meant
    # A plan that is read from the source may have another name by now, as after an exec of a process.
    there = store.get(fresh.execution_id, fresh.plan_id) or _only(store, fresh.execution_id)
    if there is not None:
        return there
    try:
        return store.add(_with_own_run(store, fresh))
    except AlreadyThere:  # another process began to watch it just now
        return store.get(fresh.execution_id, fresh.plan_id)


def begin(
    source: Source, target: str, what: str, *, region: str | None, account: str | None
) -> Execution | SourceProblem | None:
    """A new execution, asked about once. A source that can not name one gets one job of this id."""
    if isinstance(source, Starter):
        return source.begin(what, region=region, account=account)
    return one_job(source, target, what, region=region, account=account)


def one_job(
    source: Source, execution_id: str, what: str, *, region: str | None, account: str | None
) -> Execution | SourceProblem | None:
    """An execution of one job, if its source knows it."""
    fresh = Execution(
        execution_id=execution_id,
        plan_id=source.name,
        source=source.name,
        # Whether it is a drill is not told: the stricter rule waits for its launch actions in any case.
        mode=Mode.RECOVERY if source.name == "drs" else Mode.JOB,
        started_at=0,
        stages=(Stage(source.name, (Job(what, region=region or region_in(what), account=account),)),),
        total_stages=1,
    )
    told = source.poll([fresh])[fresh.key]
    if not isinstance(told, SourceResponse):
        return told
    return None if told.missing else replace(fresh, started_at=told.at // 1000 * 1000)


def _with_own_run(store: ExecutionStore, fresh: Execution) -> Execution:
    """The execution whose id alone names its run: it says what is watched, and is what people type."""
    try:
        is_taken = store.get(fresh.execution_id) is not None
    except AmbiguousExecution:
        is_taken = True
    text = fresh.execution_id
    fits = len(text.encode()) <= MAX_RUN_ID_BYTES and not text.startswith(RESERVED_PREFIX)
    return replace(fresh, own_run_id=text) if fits and not is_taken else fresh


def _only(store: ExecutionStore, execution_id: str) -> Execution | None:
    """The only execution of this id; None where several plans have one: the source names the plan then."""
    try:
        return store.get(execution_id)
    except AmbiguousExecution:
        return None


def _open(store: ExecutionStore, target: str) -> Execution | None:
    """The newest open one whose id is this target and a mark of its own."""
    found = [each for each in store.open_executions() if each.execution_id.startswith(f"{target}@")]
    return max(found, key=lambda each: each.started_at, default=None)


def _repeats(source: Source) -> bool:
    return isinstance(source, DeclaredSource) and source.declaration.repeats

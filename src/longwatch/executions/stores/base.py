"""The protocol of execution stores. Each promise is a contract test that every adapter inherits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from longwatch.errors import AmbiguousExecution
from longwatch.executions.model import Execution, ExecutionKey
from longwatch.model.summary import Status
from longwatch.storage.change_signal import ChangeSignal, OnChange

DEFAULT_LIST_LIMIT = 50
PLANS_READ = 20  # with an execution of one id: two are ambiguous, the rest is for the message

ListPosition = tuple[int, str, str]
"""The position of an execution in a list: its start, then its ids, which order executions of one moment."""


def list_position(execution: Execution) -> ListPosition:
    """The position of an execution in the list of the newest."""
    return execution.started_at, execution.execution_id, execution.plan_id


def require_unique(found: Sequence[Execution]) -> Execution | None:
    """The one execution among those of one id; `AmbiguousExecution` if several plans have one."""
    if len(found) > 1:
        plans = sorted(each.plan_id for each in found)
        keys = [str(ExecutionKey(plan, found[0].execution_id)) for plan in plans]
        raise AmbiguousExecution(found[0].execution_id, plans, keys)
    return found[0] if found else None


def pick_plan(found: Sequence[Execution], plan_id: str) -> Execution | None:
    """The execution of this plan among those of one id.

    Records from before run ids were stored share a run if their ids are equal. Such a run belongs to
    none of them: each execution has the run of its key instead.
    """
    execution = next((each for each in found if each.plan_id == plan_id), None)
    if execution is None or len(found) == 1 or not has_run_of_id(execution):
        return execution
    return replace(execution, own_run_id=None)


def has_run_of_id(execution: Execution) -> bool:
    """Whether longwatch wrote the record before it stored run ids, so that the execution id names its run."""
    is_stored = "RunId" in (execution.stored or {})
    return not is_stored and execution.own_run_id == execution.execution_id


def resolve(store: ExecutionStore, name: str) -> Execution | None:
    """The execution of a name: `plan/execution`, else the only one with this execution id.

    `AmbiguousExecution` is raised where several plans have an execution of this id.
    """
    key = ExecutionKey.parse(name)
    found = store.get(key.execution_id, key.plan_id) if key else None
    return found or store.get(name)


class ExecutionStore(Protocol):
    """Records of executions. Orchestrators of other makers write to them as well."""

    def add(self, execution: Execution) -> Execution:
        """Store a new execution and return it as it is stored. Raises `AlreadyThere` if its id exists."""

    def get(self, execution_id: str, plan_id: str | None = None) -> Execution | None:
        """The execution as it is now.

        Without a plan: the only one of this id. `AmbiguousExecution` is raised where several plans have one.
        """

    def update(self, execution: Execution) -> Execution:
        """Store a changed execution that was read here, and return it as it is stored.

        The version, the status and the stages must be as they were read, or `VersionConflict` is raised and
        nothing is stored. Other attributes that longwatch does not define stay as they are, including those
        written in between.
        """

    def open_executions(self) -> Iterator[Execution]:
        """Executions that seem open, oldest first. A hint: read one again before deciding anything."""

    def unsettled(self, now_ms: int) -> Iterator[Execution]:
        """Executions that need a poll now and that `open_executions` may not list. A hint.

        Another writer ended them, their recheck is due, or another writer replaced the record of an open one.
        """

    def find(
        self,
        *,
        status: Status | None = None,
        limit: int = DEFAULT_LIST_LIMIT,
        after: ListPosition | None = None,
    ) -> Sequence[Execution]:
        """The newest executions first; with a status, only those that have it. A hint as well.

        An execution under a status of another writer is listed by its verdict, or as running while it has
        none. With `after`, only those after this position: resuming from the last one of each page lists
        every execution once.
        """

    def close(self) -> None:
        """Close files and connections."""


@runtime_checkable
class ServerClock(Protocol):
    """A store whose server dates its responses: a clock that all pollers share. Optional."""

    def server_time_ms(self) -> int | None:
        """The server's time now, in epoch ms, by its last response and the time since; None: unknown."""


@runtime_checkable
class ChangeLog(Protocol):
    """A store that numbers its writes, so that one read returns what has changed. Optional."""

    @property
    def generation(self) -> int:
        """Grows when the store is replaced: numbers of an earlier generation are invalid."""

    def last_change(self) -> int:
        """The number of the latest write; 0 while there is none."""

    def changes(self, after: int, *, limit: int) -> Sequence[tuple[int, Execution]]:
        """The executions that were written past this number, as they are now, in the order of last writes."""

    def subscribe(self, on_change: OnChange) -> ChangeSignal:
        """Call `on_change`, from any thread, after each write of this process to this store."""

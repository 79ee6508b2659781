"""The promises every execution store keeps. Each is a test in tests/contract that every adapter inherits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from longwatch.errors import AmbiguousExecution
from longwatch.executions.model import Execution, ExecutionKey
from longwatch.model.summary import Status
from longwatch.storage.change_signal import ChangeSignal, OnChange

DEFAULT_LIST_LIMIT = 50
PLANS_READ = 20  # with an execution of one id: two are ambiguous, the others are for the message

ListPosition = tuple[int, str, str]
"""Where an execution stands in a list: its start, then its ids, so that two of one moment have an order."""


def list_position(execution: Execution) -> ListPosition:
    """Where this one stands among the newest."""
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

    Records from before run ids were stored share a run if their ids are equal. Such a run is nobody's: each
    execution has the run of its key instead.
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
    """The execution that a name means: `plan/execution`, else the only one with this execution id.

    `AmbiguousExecution` is raised where several plans have an execution of this id.
    """
    key = ExecutionKey.parse(name)
    found = store.get(key.execution_id, key.plan_id) if key else None
    return found or store.get(name)


class ExecutionStore(Protocol):
    """Records of executions, which orchestrators of other makes write to as well."""

    def add(self, execution: Execution) -> Execution:
        """Store a new execution and return it as it is stored. Raises `AlreadyThere` if its id is taken."""

    def get(self, execution_id: str, plan_id: str | None = None) -> Execution | None:
        """The execution as it is now.

        Without a plan: the only one of this id. `AmbiguousExecution` is raised where several plans have one.
        """

    def update(self, execution: Execution) -> Execution:
        """Store what has become of an execution that was read here, and return it as it is stored.

        Only if nobody has written in between: the version, the status and the waves have to be as they were
        read, or `VersionConflict` is raised and nothing is stored. Attributes that longwatch does not know
        stay as they are, also those that were written in between.
        """

    def open_executions(self) -> Iterator[Execution]:
        """All that seem to be open, oldest first. A hint: read one again before deciding anything."""

    def unsettled(self, now_ms: int) -> Iterator[Execution]:
        """Those that need a poller now and that `open_executions` may not list. A hint.

        Another writer ended them, their recheck is due, or another writer replaced an open one's record.
        """

    def find(
        self,
        *,
        status: Status | None = None,
        limit: int = DEFAULT_LIST_LIMIT,
        after: ListPosition | None = None,
    ) -> Sequence[Execution]:
        """The newest executions, newest first; with a status, those that stand so. A hint as well.

        One under a status of another writer that longwatch does not know is listed by its verdict, or as
        running while it has none.

        With `after`, only those that stand after this place: going on from each page's last one lists every
        execution once.
        """

    def close(self) -> None:
        """Let go of files and connections."""


@runtime_checkable
class ServerClock(Protocol):
    """A store whose server dates its responses: a clock that all pollers share. Optional."""

    def server_time_ms(self) -> int | None:
        """The server's time now, in epoch ms, by its last response and the time since; None: not known."""


@runtime_checkable
class ChangeLog(Protocol):
    """A store that numbers what is written to it: one look tells everybody what has changed. Optional."""

    @property
    def generation(self) -> int:
        """Grows when the store was replaced by another: numbers from before mean nothing there."""

    def last_change(self) -> int:
        """The number of the latest write; 0 while there is none."""

    def changes(self, after: int, *, limit: int) -> Sequence[tuple[int, Execution]]:
        """The executions that were written past this number, as they are now, in the order of last writes."""

    def subscribe(self, on_change: OnChange) -> ChangeSignal:
        """Call `on_change`, from any thread, after each write of this process to this store."""

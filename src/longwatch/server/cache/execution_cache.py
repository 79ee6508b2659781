"""The executions that a server shows: their store, opened at the first request, and the learned cadence.

Nothing here starts, stops or polls an execution. What is read stays in memory until the store is written to,
if the store reports that.
"""

from __future__ import annotations

import base64
import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from longwatch.clock import Clock
from longwatch.errors import (
    ExecutionNotFound,
    InvalidCursor,
    JournalUnusable,
    LongwatchError,
    TableProblem,
)
from longwatch.executions.cadence.cadence import LearnedCadence, read_cadence
from longwatch.executions.model import Execution, Mode
from longwatch.executions.stores.base import ChangeLog, ExecutionStore, ListPosition, list_position, resolve
from longwatch.journal.base import Journal
from longwatch.model.summary import Status

READ_AT_ONCE = 200
MOST_READS = 25  # for one page of a list, which may then be shorter than requested
LEARN_SECONDS = 300.0  # what was learned holds for so long
MAX_CACHED = 64  # results

HINT = (
    "No execution is here yet. Add one with `longwatch executions add --plan PLAN --wave NAME=JOB`, and let "
    "`longwatch executions watch` poll it."
)

log = logging.getLogger("longwatch.server")

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionQuery:
    """Which executions to list. Everything given must hold."""

    status: Status | None = None
    mode: Mode | None = None
    source: str = ""
    text: str = ""  # part of the id, the name or the plan, in any case

    @property
    def is_for_all(self) -> bool:
        return self == ExecutionQuery()

    def accepts(self, execution: Execution) -> bool:
        if self.status is not None and execution.status is not self.status:
            return False
        if self.mode is not None and execution.mode is not self.mode:
            return False
        if self.source and execution.source != self.source:
            return False
        wanted = self.text.casefold()
        names = (execution.execution_id, execution.plan_id, execution.name or "")
        return not wanted or any(wanted in name.casefold() for name in names)


@dataclass(frozen=True, slots=True)
class ExecutionPage:
    """Some executions, newest first; `cursor` is None at the end."""

    executions: Sequence[Execution]
    cursor: str | None = None
    hint: str | None = None  # why there is nothing, and what to do


class ExecutionCache:
    """Reads executions for all requests. Blocking; threads share it."""

    def __init__(self, open_store: Callable[[], ExecutionStore], journal: Journal, clock: Clock) -> None:
        self._open_store = open_store
        self._journal = journal
        self._clock = clock
        self._lock = threading.Lock()
        self._store: ExecutionStore | None = None
        self._cached: OrderedDict[object, tuple[tuple[int, int], Any]] = OrderedDict()
        self._lessons: LearnedCadence | None = None
        self._learning = threading.Lock()
        self._learned_at: float | None = None

    def store(self) -> ExecutionStore:
        """The store itself."""
        with self._lock:
            if self._store is None:
                self._store = self._open_store()
            return self._store

    def find(self, query: ExecutionQuery, *, after: str = "", limit: int) -> ExecutionPage:
        """A page of the list. Where there is no table, nothing and the reason."""
        position = parse_cursor(after) if after else None
        try:
            return self._unless_changed((query, position, limit), lambda: self._find(query, position, limit))
        except TableProblem as problem:
            if problem.kind != "not-found":
                raise
            return ExecutionPage((), hint=str(problem))

    def get(self, name: str, plan_id: str | None = None) -> Execution:
        """One execution as it is now. Without a plan the name is `plan/execution` or the id of only one."""
        try:
            found = self._unless_changed((name, plan_id), lambda: self._get(name, plan_id))
        except TableProblem as problem:
            if problem.kind != "not-found":
                raise
            raise ExecutionNotFound(f"No execution {name[:100]!r}. {problem}") from problem
        if found is None:
            raise ExecutionNotFound(f"No execution {name[:100]!r}. GET /api/executions lists them.")
        return found

    def lessons_for(self, executions: Iterable[Execution]) -> LearnedCadence | None:
        """The learned cadence, if one of these is still open. Learned again every few minutes."""
        if not any(each.is_open for each in executions):
            return None
        with self._learning:
            now = self._clock.monotonic()
            if self._learned_at is None or now - self._learned_at > LEARN_SECONDS:
                self._learned_at = now
                try:
                    self._lessons = read_cadence(self._journal)
                except LongwatchError as error:  # the cadence learned before still holds
                    log.debug("past executions cannot be read: %s", error)
            return self._lessons

    def close(self) -> None:
        """Close the store."""
        with self._lock:
            if self._store is not None:
                self._store.close()

    def _get(self, name: str, plan_id: str | None) -> Execution | None:
        return resolve(self.store(), name) if plan_id is None else self.store().get(name, plan_id)

    def _find(self, query: ExecutionQuery, position: ListPosition | None, limit: int) -> ExecutionPage:
        is_first, found = position is None, list[Execution]()
        filtered = ExecutionQuery(status=query.status) != query
        size = READ_AT_ONCE if filtered else limit + 1
        for _ in range(MOST_READS):
            page = self.store().find(status=query.status, limit=size, after=position)
            for each in page:
                if query.accepts(each):
                    if len(found) == limit:
                        return ExecutionPage(found, cursor_at(list_position(found[-1])))
                    found.append(each)
                position = list_position(each)
            if len(page) < size:
                hint = HINT if is_first and not found and query.is_for_all else None
                return ExecutionPage(found, hint=hint)
        return ExecutionPage(found, cursor_at(position) if position else None)

    def _unless_changed(self, key: object, read: Callable[[], A]) -> A:
        """The last result, if the store reports that nothing was written since."""
        store = self.store()
        if not isinstance(store, ChangeLog):
            return read_valid(read)
        change = (
            store.last_change(),
            store.generation,
        )  # a file that replaced another may have the same number
        with self._lock:
            cached = self._cached.get(key)
        if cached is not None and cached[0] == change:
            result: A = cached[1]
            return result
        result = read_valid(read)  # after the number: a write in between makes the result outdated
        with self._lock:
            self._cached[key] = (change, result)
            self._cached.move_to_end(key)
            while len(self._cached) > MAX_CACHED:
                self._cached.popitem(last=False)
        return result


def read_valid(read: Callable[[], A]) -> A:
    """Read records. One that another writer has damaged raises `JournalUnusable`."""
    try:
        return read()
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise JournalUnusable(
            f"A record of an execution is invalid ({error!r}). Repair it in the store."
        ) from error


def cursor_at(position: ListPosition) -> str:
    """The position as text that is safe in a URL."""
    return base64.urlsafe_b64encode(json.dumps(position, separators=(",", ":")).encode()).decode().rstrip("=")


def parse_cursor(cursor: str) -> ListPosition:
    """The position in such a cursor."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        started_at, execution_id, plan_id = json.loads(base64.b64decode(padded, b"-_", validate=True))
        f"{execution_id}{plan_id}".encode()  # half a character, which JSON can name, is in no id
    except (ValueError, TypeError, RecursionError) as error:
        raise _invalid_cursor(cursor) from error
    if type(started_at) is not int or abs(started_at) > 2**60:
        raise _invalid_cursor(cursor)
    if not isinstance(execution_id, str) or not isinstance(plan_id, str):
        raise _invalid_cursor(cursor)
    return started_at, execution_id, plan_id


def _invalid_cursor(cursor: str) -> InvalidCursor:
    return InvalidCursor(
        f"Invalid cursor {cursor[:40]!r} of executions. Leave it out to start from the newest."
    )

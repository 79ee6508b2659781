"""The executions that a server shows: their store, opened when first asked for, and what the past says.

Nothing here starts, stops or asks about an execution. What is read stays in memory until the store has been
written to, where the store can tell that.
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
MOST_READS = 25  # for one page of a list: past them it is shorter than asked for, and goes on from its cursor
LEARN_SECONDS = 300.0  # what was learned holds for so long
REMEMBERED = 64  # questions whose answers are kept

HINT = (
    "No execution is here yet. Add one with `longwatch executions add --plan PLAN --wave NAME=JOB`, and let "
    "`longwatch executions watch` ask about it."
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
    """Reads executions for everybody. Blocking; threads share it."""

    def __init__(self, open_store: Callable[[], ExecutionStore], journal: Journal, clock: Clock) -> None:
        self._open_store = open_store
        self._journal = journal
        self._clock = clock
        self._lock = threading.Lock()
        self._store: ExecutionStore | None = None
        self._remembered: OrderedDict[object, tuple[tuple[int, int], Any]] = OrderedDict()
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
        place = place_from(after) if after else None
        try:
            return self._unless_changed((query, place, limit), lambda: self._find(query, place, limit))
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
        """What the past says, if one of these is still open. Learned every few minutes, by one for all."""
        if not any(each.is_open for each in executions):
            return None
        with self._learning:
            now = self._clock.monotonic()
            if self._learned_at is None or now - self._learned_at > LEARN_SECONDS:
                self._learned_at = now
                try:
                    self._lessons = read_cadence(self._journal)
                except LongwatchError as error:  # what was known before still holds
                    log.debug("past executions cannot be read: %s", error)
            return self._lessons

    def close(self) -> None:
        """Let go of the store."""
        with self._lock:
            if self._store is not None:
                self._store.close()

    def _get(self, name: str, plan_id: str | None) -> Execution | None:
        return resolve(self.store(), name) if plan_id is None else self.store().get(name, plan_id)

    def _find(self, query: ExecutionQuery, place: ListPosition | None, limit: int) -> ExecutionPage:
        is_first, found = place is None, list[Execution]()
        filtered = ExecutionQuery(status=query.status) != query
        size = READ_AT_ONCE if filtered else limit + 1
        for _ in range(MOST_READS):
            page = self.store().find(status=query.status, limit=size, after=place)
            for each in page:
                if query.accepts(each):
                    if len(found) == limit:
                        return ExecutionPage(found, cursor_at(list_position(found[-1])))
                    found.append(each)
                place = list_position(each)
            if len(page) < size:
                hint = HINT if is_first and not found and query.is_for_all else None
                return ExecutionPage(found, hint=hint)
        return ExecutionPage(found, cursor_at(place) if place else None)

    def _unless_changed(self, question: object, ask: Callable[[], A]) -> A:
        """The answer of last time, where the store can tell that nothing was written since."""
        store = self.store()
        if not isinstance(store, ChangeLog):
            return understood(ask)
        change = (
            store.last_change(),
            store.generation,
        )  # a file that replaced another may have the same number
        with self._lock:
            known = self._remembered.get(question)
        if known is not None and known[0] == change:
            answer: A = known[1]
            return answer
        answer = understood(ask)  # after the number: what is written meanwhile makes the answer old
        with self._lock:
            self._remembered[question] = (change, answer)
            self._remembered.move_to_end(question)
            while len(self._remembered) > REMEMBERED:
                self._remembered.popitem(last=False)
        return answer


def understood(ask: Callable[[], A]) -> A:
    """What others write into records may make no sense: that is told in words."""
    try:
        return ask()
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise JournalUnusable(
            f"A record of executions can not be understood ({error!r}). Whoever wrote it has to mend it."
        ) from error


def cursor_at(place: ListPosition) -> str:
    """Where a list goes on, as text that is safe in an address."""
    return base64.urlsafe_b64encode(json.dumps(place, separators=(",", ":")).encode()).decode().rstrip("=")


def place_from(cursor: str) -> ListPosition:
    """The place in such a cursor."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        started_at, execution_id, plan_id = json.loads(base64.b64decode(padded, b"-_", validate=True))
        f"{execution_id}{plan_id}".encode()  # half a character, which JSON can name, is in no id
    except (ValueError, TypeError, RecursionError) as error:
        raise _no_cursor(cursor) from error
    if type(started_at) is not int or abs(started_at) > 2**60:
        raise _no_cursor(cursor)
    if not isinstance(execution_id, str) or not isinstance(plan_id, str):
        raise _no_cursor(cursor)
    return started_at, execution_id, plan_id


def _no_cursor(cursor: str) -> InvalidCursor:
    return InvalidCursor(f"{cursor[:40]!r} is no cursor of executions; leave it out to begin at the newest")

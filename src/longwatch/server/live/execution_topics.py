"""Executions as topics: the list, and one of them with its stages. Each is sent again when it changes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial

from longwatch.errors import InvalidCursor, TableProblem
from longwatch.executions.due import is_leased, next_poll_at
from longwatch.executions.model import Execution, ExecutionKey
from longwatch.executions.stores.base import ChangeLog, ExecutionStore
from longwatch.executions.views import ExecutionDetails, ExecutionListItem
from longwatch.server.cache.execution_cache import ExecutionQuery, read_valid
from longwatch.server.cache.projection import Batch, Projection, ProjectionReader
from longwatch.server.context import ServerContext
from longwatch.server.live.list_topics import ListTopic, open_broadcast, position_of, with_cursor
from longwatch.server.live.messages import Frame, caught_up, message
from longwatch.server.live.subscription import FrameBroadcast, FrameBroadcasts, JoinPoint
from longwatch.server.responses import execution_etag
from longwatch.storage.change_signal import ChangeSignal, LocalSignal, OnChange

SNAPSHOT = 100  # of the newest
CATCH_UP = 500  # past a cursor; a viewer that has missed more gets a snapshot
READ_AT_ONCE = 200
SETTLE_SECONDS = 0.1  # a journal in the same file reports its writes too
SOON_SECONDS = 2.0  # between polls of a store without a change signal, while an execution is due or leased
LATER_SECONDS = 10.0  # and otherwise: a new execution is seen no later than this
ABSENT_SECONDS = 60.0  # between checks for a table that does not exist

ExecutionProjection = Projection[ExecutionKey, Execution]
ExecutionReader = ProjectionReader[ExecutionKey, Execution]


class ExecutionChanges:
    """The executions that were written. A store that numbers no writes is polled for its open ones."""

    name = "the list of executions"

    def __init__(self, context: ServerContext) -> None:
        self._executions = context.executions
        self._clock = context.clock
        self._generation = 0  # of the store
        self._polled: Mapping[ExecutionKey, Execution] | None = None  # None: not since the start

    def subscribe(self, on_change: OnChange) -> ChangeSignal:
        store = self._executions.store()
        return (store if isinstance(store, ChangeLog) else LocalSignal()).subscribe(on_change)

    def start(self) -> Batch[ExecutionKey, Execution]:
        self._polled = None
        store = self._executions.store()
        if isinstance(store, ChangeLog):
            self._generation = store.generation
            return Batch({}, f"a{store.last_change()}", None)
        return self._poll(store)

    def read(self, after: str) -> Batch[ExecutionKey, Execution]:
        store = self._executions.store()
        if not isinstance(store, ChangeLog):
            return self._poll(store)
        position = position_of(after, self.name) or 0
        found = read_valid(lambda: store.changes(position, limit=READ_AT_ONCE))
        if store.generation != self._generation:  # replaced: everything in it is new
            self._generation = store.generation
            return Batch({}, "a0")
        if not found:
            return Batch({}, after, None)
        return Batch({each.key: each for _, each in found}, f"a{found[-1][0]}")

    def _poll(self, store: ExecutionStore) -> Batch[ExecutionKey, Execution]:
        before = self._polled
        try:
            found = read_valid(partial(poll_open, store, before or {}))
        except TableProblem as problem:
            if problem.kind != "not-found":
                raise
            return Batch({}, f"t{self._clock.now_ms()}", ABSENT_SECONDS)  # no table has no executions
        self._polled, now = found, self._clock.now_ms()
        changed = (
            {} if before is None else {key: each for key, each in found.items() if before.get(key) != each}
        )
        return Batch(changed, f"t{now}", poll_delay_seconds(found.values(), now))


def poll_open(
    store: ExecutionStore, before: Mapping[ExecutionKey, Execution]
) -> dict[ExecutionKey, Execution]:
    """The open executions, and the present state of those that were open at the poll before. Blocks."""
    found = {each.key: each for each in store.open_executions()}
    for key, execution in before.items():
        if key not in found and not execution.closed:
            now = store.get(key.execution_id, key.plan_id)
            if now is not None:
                found[key] = now
    return found


def poll_delay_seconds(executions: Iterable[Execution], now_ms: int) -> float:
    """How long to wait before the open executions are polled again."""
    soonest = LATER_SECONDS
    for each in executions:
        if not each.closed:
            due = 0.0 if is_leased(each, now_ms) else (next_poll_at(each) - now_ms) / 1000
            soonest = min(soonest, due)
    return max(SOON_SECONDS, soonest)


def project_executions(context: ServerContext) -> ExecutionProjection:
    """One projection for the list and for every single execution that is followed."""
    # A record that another writer has damaged may be repaired, so reading is retried after any error.
    return Projection(
        ExecutionChanges(context), context.call, settle_seconds=SETTLE_SECONDS, keeps_trying=True
    )


class ExecutionListTopic(ListTopic[ExecutionKey, Execution]):
    """The list of executions. One for the whole server."""

    def __init__(
        self, context: ServerContext, projection: ExecutionProjection, broadcasts: FrameBroadcasts
    ) -> None:
        self._executions = context.executions
        self._clock = context.clock
        super().__init__("executions", projection, broadcasts, context.call)

    def read_history(self, after: str, until: str) -> list[Frame]:
        return self._render(self._history(after, until))

    def render(self, batch: Batch[ExecutionKey, Execution]) -> list[Frame]:
        return with_cursor(self._render([*batch.records.values()]), batch.cursor)

    def _history(self, after: str, until: str) -> Sequence[Execution]:
        """What was written since a cursor; if that is unknown, the newest executions and all open ones."""
        store = self._executions.store()
        position, end = (position_of(cursor, ExecutionChanges.name) for cursor in (after, until))
        if isinstance(store, ChangeLog) and position is not None and end is not None and position <= end:
            changed = store.changes(position, limit=CATCH_UP)
            if len(changed) < CATCH_UP:
                return [execution for _, execution in changed]
        page = self._executions.find(ExecutionQuery(), limit=SNAPSHOT)
        if page.hint is not None:
            return []
        listed = {each.key: each for each in page.executions}
        still_open = {each.key: each for each in store.open_executions()}
        return [*(still_open | listed).values()]

    def _render(self, executions: Sequence[Execution]) -> list[Frame]:
        now, cadence = self._clock.now_ms(), self._executions.lessons_for(executions)
        views = [ExecutionListItem.of(each, now_ms=now, cadence=cadence) for each in executions]
        return [message("execution", self.topic, execution=view) for view in views]


class ExecutionTopic:
    """One execution. A cursor is the ETag of the view that was sent last."""

    def __init__(
        self,
        topic: str,
        name: str,
        context: ServerContext,
        projection: ExecutionProjection,
        broadcasts: FrameBroadcasts,
    ) -> None:
        self.topic = topic
        self._name = name  # `plan/execution`, or an execution id that only one plan has
        self._context = context
        self._projection = projection
        self._broadcasts = broadcasts

    async def read(self, after: str) -> AsyncGenerator[Sequence[Frame] | JoinPoint, None]:
        if after and not (len(after) <= 64 and after.isalnum()):
            raise InvalidCursor(
                f"Invalid cursor {after[:40]!r} of an execution. Leave it out to start from the beginning."
            )
        key = (await self._read()).key  # raises if there is none, or several plans have one
        broadcast = await open_broadcast(self.topic, self._broadcasts, self._projection, self._fill, of=key)
        end = broadcast.end
        frame = await self._context.call(self._render, await self._read())
        now = caught_up(self.topic, frame.cursor)
        yield [now] if after == frame.cursor else [frame, now]
        yield JoinPoint(broadcast, end)

    async def _read(self) -> Execution:
        return await self._context.call(self._context.executions.get, self._name)

    async def _fill(self, reader: ExecutionReader, broadcast: FrameBroadcast) -> None:
        with closing(reader):
            while reader.key is not None:
                batch = await reader.next()
                frame = await self._context.call(self._render, batch.records[reader.key])
                if frame.cursor != broadcast.cursor:
                    broadcast.push(frame)

    def _render(self, execution: Execution) -> Frame:
        cadence = self._context.executions.lessons_for([execution])
        view = ExecutionDetails.of(execution, now_ms=self._context.clock.now_ms(), cadence=cadence)
        return message("execution", self.topic, execution_etag(view)[3:-1], execution=view)

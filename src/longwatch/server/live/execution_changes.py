"""Which executions were written: one look at the store for everybody who follows some.

A store that numbers its writes is read when something was heard, and not while nothing is written. Elsewhere
the open ones are looked at: often while a poll is due or under way, and seldom otherwise.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from longwatch.clock import Clock
from longwatch.errors import LongwatchError, TableProblem, WorthAnotherTry
from longwatch.executions.due import is_leased, next_poll_at
from longwatch.executions.model import Execution, ExecutionKey
from longwatch.executions.stores.base import ChangeLog, ExecutionStore
from longwatch.polling.backoff import JOURNAL_BACKOFF
from longwatch.server.cache.execution_cache import ExecutionCache, understood
from longwatch.server.change_waiter import ChangeWaiter
from longwatch.server.live.run_list_topic import RunInThread

COALESCE_SECONDS = 0.25
HEARD_SECONDS = 0.1  # a file is written for other reasons as well: so long for one look at all that was heard
READ_AT_ONCE = 200
SOON_SECONDS = 2.0  # where nothing tells of writes, while a poll is due or under way
LATER_SECONDS = 10.0  # and otherwise: one that is new is seen no later than this
ABSENT_SECONDS = 60.0  # between looks for a table that is not there

log = logging.getLogger("longwatch.server")


class ChangeReader:
    """One listener: everything that is written from its cursor on."""

    def __init__(self, news: ExecutionNews) -> None:
        self._news = news
        self._told: asyncio.Queue[tuple[str, Sequence[Execution]]] = asyncio.Queue()
        self.cursor: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def begun(self) -> str:
        """Where it begins. Raises what is wrong with the store if that can not be said."""
        return await asyncio.shield(self.cursor)

    async def next(self) -> tuple[str, Sequence[Execution]]:
        """The next that were written, and the cursor after them."""
        return await self._told.get()

    def tell(self, cursor: str, executions: Sequence[Execution]) -> None:
        """These were written."""
        self._told.put_nowait((cursor, executions))

    def close(self) -> None:
        """Listen no more."""
        self._news.leave(self)


class ExecutionNews:
    """Follows the store while somebody listens. Belongs to one event loop."""

    def __init__(self, executions: ExecutionCache, *, clock: Clock, call: RunInThread) -> None:
        self._executions = executions
        self._clock = clock
        self._call = call
        self._ears: list[ChangeReader] = []
        self._cursor = ""  # where it stands; empty: nobody has looked yet
        self._position = 0
        self._generation = 0  # of the store in which it stands there
        self._known: Mapping[ExecutionKey, Execution] | None = None
        self._task: asyncio.Task[None] | None = None
        self.is_away = False  # the store did not answer at the last look

    @property
    def is_looking(self) -> bool:
        """Whether the store is being followed."""
        return self._task is not None

    def listen(self) -> ChangeReader:
        """Listen from now on."""
        ear = ChangeReader(self)
        self._ears.append(ear)
        if self._cursor:
            ear.cursor.set_result(self._cursor)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="longwatch-executions")
        return ear

    def leave(self, ear: ChangeReader) -> None:
        """This one listens no more; without anybody nothing is looked at."""
        if ear in self._ears:
            self._ears.remove(ear)
        if not self._ears and self._task is not None:
            self._task.cancel()
            self._task, self._cursor, self._known, self.is_away = None, "", None, False

    async def _run(self) -> None:
        backoff = JOURNAL_BACKOFF
        while True:
            try:
                store: ExecutionStore = await self._call(self._executions.store)
                if isinstance(store, ChangeLog):
                    await self._follow(store)
                else:
                    await self._look_again_and_again(store)
            except LongwatchError as error:
                if isinstance(error, TableProblem) and error.kind == "not-found":
                    self._stand_at(f"t{self._clock.now_ms()}")  # there is nothing, which is no trouble
                    await asyncio.sleep(ABSENT_SECONDS)
                    continue
                self.is_away = isinstance(error, WorthAnotherTry)
                self._refuse(error)
                backoff = backoff.failed() if backoff.failures < 5 else backoff
                log.warning("executions cannot be read, next try in %g s: %s", backoff.delay, error)
                await asyncio.sleep(backoff.delay or 0.0)

    async def _follow(self, store: ChangeLog) -> None:
        async with ChangeWaiter.open(store.subscribe, self._call) as changed:
            if not self._cursor:
                self._generation = store.generation
                self._position = await self._call(store.last_change)
                self._stand_at(f"a{self._position}")
            while True:
                read = partial(store.changes, self._position, limit=READ_AT_ONCE)
                found = await self._call(understood, read)
                self.is_away = False
                if store.generation != self._generation:  # it was replaced: everything in it is news
                    self._generation, self._position = store.generation, 0
                elif found:
                    self._position = found[-1][0]
                    self._tell(f"a{self._position}", [execution for _, execution in found])
                    await asyncio.sleep(COALESCE_SECONDS)
                else:
                    await changed.wait()
                    await asyncio.sleep(HEARD_SECONDS)

    async def _look_again_and_again(self, store: ExecutionStore) -> None:
        while True:
            before = self._known
            self._known = looked = await self._call(understood, partial(open_ones, store, before or {}))
            self.is_away, cursor = False, f"t{self._clock.now_ms()}"
            if before is None:
                self._stand_at(cursor)
            else:
                news = [each for key, each in looked.items() if before.get(key) != each]
                if news:
                    self._tell(cursor, news)
            await asyncio.sleep(nap_seconds(looked.values(), self._clock.now_ms()))

    def _stand_at(self, cursor: str) -> None:
        self._cursor = cursor
        for ear in self._ears:
            if not ear.cursor.done():
                ear.cursor.set_result(cursor)

    def _tell(self, cursor: str, executions: Sequence[Execution]) -> None:
        self._cursor = cursor
        for ear in self._ears:
            ear.tell(cursor, executions)

    def _refuse(self, error: LongwatchError) -> None:
        for ear in self._ears:
            if not ear.cursor.done():
                ear.cursor.set_exception(error)
                ear.cursor.exception()  # whoever asked may have left


def open_ones(
    store: ExecutionStore, known: Mapping[ExecutionKey, Execution]
) -> dict[ExecutionKey, Execution]:
    """The open executions, and those that were open when it looked before, as they are now. Blocks."""
    looked = {each.key: each for each in store.open_executions()}
    for key, before in known.items():
        if key not in looked and not before.closed:
            now = store.get(key.execution_id, key.plan_id)
            if now is not None:
                looked[key] = now
    return looked


def nap_seconds(executions: Iterable[Execution], now_ms: int) -> float:
    """How long to wait before the open ones are looked at again."""
    soonest = LATER_SECONDS
    for each in executions:
        if not each.closed:
            due = 0.0 if is_leased(each, now_ms) else (next_poll_at(each) - now_ms) / 1000
            soonest = min(soonest, due)
    return max(SOON_SECONDS, soonest)

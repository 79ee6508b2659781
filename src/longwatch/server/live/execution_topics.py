"""Executions as topics: the list, and one of them with its waves. Each is told again whenever it changes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any

from longwatch.errors import InvalidCursor
from longwatch.executions.model import Execution, ExecutionKey
from longwatch.executions.stores.base import ChangeLog
from longwatch.executions.views import ExecutionDetails, ExecutionListItem
from longwatch.server.cache.execution_cache import ExecutionQuery
from longwatch.server.context import ServerContext
from longwatch.server.live.execution_changes import ChangeReader, ExecutionNews
from longwatch.server.live.messages import Frame, caught_up, message
from longwatch.server.live.subscription import FrameBroadcast, FrameBroadcasts, JoinPoint
from longwatch.server.responses import execution_tag

TOPIC = "executions"
SNAPSHOT = 100  # of the newest
CATCH_UP = 500  # that a viewer may have missed and still be told of each

_ALL = ExecutionQuery()


class ExecutionListSource:
    """The messages of the list. One for the whole server."""

    topic = TOPIC

    def __init__(self, context: ServerContext, news: ExecutionNews, lines: FrameBroadcasts) -> None:
        self._context = context
        self._news = news
        self._lines = lines

    async def read(self, after: str) -> AsyncGenerator[Sequence[Frame] | JoinPoint, None]:
        position = position_of(after)
        line = await line_of(TOPIC, self._lines, self._news, self._lead)
        place, cursor = line.end, line.cursor
        known = line.position_of(after) if after else None
        if known is not None:
            yield [*line.all_from(known), caught_up(TOPIC, cursor)]
        else:
            found = await self._context.call(self._history, position, position_of(cursor))
            yield [*await self._told(found), caught_up(TOPIC, cursor)]
        yield JoinPoint(line, place)

    def _history(self, position: int | None, until: int | None) -> Sequence[Execution]:
        """In a thread: what was written since; where that can not be told, the newest and all open ones."""
        executions = self._context.executions
        store = executions.store()
        if isinstance(store, ChangeLog) and position is not None and until is not None and position <= until:
            changed = store.changes(position, limit=CATCH_UP)
            if len(changed) < CATCH_UP:
                return [execution for _, execution in changed]
        page = executions.find(_ALL, limit=SNAPSHOT)
        if page.hint is not None:
            return []
        listed = {each.key: each for each in page.executions}
        still = {each.key: each for each in store.open_executions()}
        return [*(still | listed).values()]

    async def _lead(self, ear: ChangeReader, line: FrameBroadcast) -> None:
        try:
            while True:
                cursor, executions = await ear.next()
                frames = await self._told(executions)
                frames[-1].cursor = cursor  # only who has taken all of them has come so far
                for frame in frames:
                    line.push(frame)
        finally:
            ear.close()

    async def _told(self, executions: Sequence[Execution]) -> list[Frame]:
        return await self._context.call(self._write, executions)

    def _write(self, executions: Sequence[Execution]) -> list[Frame]:
        """In a thread."""
        now, cadence = self._context.clock.now_ms(), self._context.executions.lessons_for(executions)
        return [
            message("execution", TOPIC, execution=ExecutionListItem.of(each, now_ms=now, cadence=cadence))
            for each in executions
        ]


class ExecutionSource:
    """The messages of one execution. A cursor is the tag of what was told last."""

    def __init__(
        self, topic: str, name: str, context: ServerContext, news: ExecutionNews, lines: FrameBroadcasts
    ) -> None:
        self.topic = topic
        self._name = name  # `plan/execution`, or an execution id of one plan only
        self._context = context
        self._news = news
        self._lines = lines

    async def read(self, after: str) -> AsyncGenerator[Sequence[Frame] | JoinPoint, None]:
        if after and not (len(after) <= 64 and after.isalnum()):
            raise InvalidCursor(f"{after[:40]!r} is no cursor of an execution; leave it out to begin anew")
        key = (await self._read()).key  # raises if it is not there, or in several plans
        line = await line_of(self.topic, self._lines, self._news, partial(self._lead, key))
        place = line.end
        frame = await self._context.call(self._write, await self._read())
        now = caught_up(self.topic, frame.cursor)
        yield [now] if after == frame.cursor else [frame, now]
        yield JoinPoint(line, place)

    async def _read(self) -> Execution:
        return await self._context.call(self._context.executions.get, self._name)

    async def _lead(self, key: ExecutionKey, ear: ChangeReader, line: FrameBroadcast) -> None:
        try:
            while True:
                _, executions = await ear.next()
                for each in executions:
                    if each.key == key:
                        frame = await self._context.call(self._write, each)
                        if frame.cursor != line.cursor:
                            line.push(frame)
        finally:
            ear.close()

    def _write(self, execution: Execution) -> Frame:
        """In a thread."""
        cadence = self._context.executions.lessons_for([execution])
        view = ExecutionDetails.of(execution, now_ms=self._context.clock.now_ms(), cadence=cadence)
        return message("execution", self.topic, execution_tag(view)[3:-1], execution=view)


async def line_of(key: str, lines: FrameBroadcasts, news: ExecutionNews, lead: Any) -> FrameBroadcast:
    """The line that all share, which somebody has to begin."""
    line = lines.get(key)
    if line is not None:
        return line
    ear = news.listen()
    try:
        cursor = await ear.begun()
    except BaseException:
        ear.close()
        raise
    line = lines.get(key)
    if line is not None:  # somebody was faster
        ear.close()
        return line
    return lines.start(key, cursor, partial(lead, ear))


def position_of(cursor: str) -> int | None:
    """`a120`: told of every write up to there. `t1700…`: looked at that time, which tells no number."""
    kind, digits = cursor[:1], cursor[1:]
    if not cursor:
        return None
    if kind in ("a", "t") and digits.isascii() and digits.isdigit() and len(digits) <= 18:
        return int(digits) if kind == "a" else None
    raise InvalidCursor(
        f"{cursor[:40]!r} is no cursor of the list of executions; leave it out to begin at the start"
    )

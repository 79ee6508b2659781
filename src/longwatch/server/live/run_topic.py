"""Topics that are rendered from the events of one run: the run itself, a turn, and lists stored in a run.

A viewer follows the run by itself until it has reached the cursor of the shared broadcast, and then joins
the broadcast. Cursors alone decide that: the same cursor means that the same events were seen.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Hashable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Protocol

from longwatch.errors import LongwatchError
from longwatch.following.broadcast import RETAINED_BYTES, RETAINED_ITEMS
from longwatch.following.hub import Hub
from longwatch.following.items import CaughtUp, Ended, Followed, Item, Missed, Reason
from longwatch.model.event import Cursor
from longwatch.server.live.messages import Frame, caught_up, event_message, failure_of, message, missed
from longwatch.server.live.subscription import FrameBroadcast, FrameBroadcasts, JoinPoint

CHECK_SECONDS = 2.0  # how often to check whether the process that executes a turn still runs

Check = Callable[[], Awaitable[object]]

log = logging.getLogger("longwatch.server")


class Renderer(Protocol):
    """Renders the events of a run, one after the other, as frames of a topic."""

    @property
    def is_settled(self) -> bool:
        """Whether the run ended so long ago that nothing follows its history."""

    def event(self, followed: Followed) -> Sequence[Frame]:
        """Frames of one event."""

    def caught_up(self, cursor: str) -> Sequence[Frame]:
        """Frames after the last event of the history."""

    def catch_up(self) -> Sequence[Frame]:
        """Frames for a viewer that leaves the history here and continues with a broadcast."""

    def ended(self, ended: Ended) -> Sequence[Frame]:
        """Frames of the end of the watch."""


class RunRenderer:
    """Renders the events as they are."""

    is_settled = False

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def event(self, followed: Followed) -> Sequence[Frame]:
        return [event_message(self._topic, followed.event, late=followed.late, cursor=followed.cursor)]

    def caught_up(self, cursor: str) -> Sequence[Frame]:
        return [caught_up(self._topic, cursor)]

    def catch_up(self) -> Sequence[Frame]:
        return ()

    def ended(self, ended: Ended) -> Sequence[Frame]:
        return [
            message(
                "ended",
                self._topic,
                ended.cursor,
                reason=ended.reason.value,
                status=ended.status.value,
                message=ended.message,
            )
        ]


class RunTopicSource:
    """The frames of a topic that is rendered from one run."""

    def __init__(
        self,
        topic: str,
        run_id: str,
        *,
        hub: Hub,
        broadcasts: FrameBroadcasts,
        renderer: Callable[[str], Awaitable[Renderer]],
        check: Check | None = None,
    ) -> None:
        self.topic = topic
        self._run_id = run_id
        self._hub = hub
        self._broadcasts = broadcasts
        self._renderer = renderer  # for a viewer that has seen everything up to a cursor
        self._check = check  # notices now and then that the process behind the run has exited
        self._key: Hashable = (topic, run_id)

    async def read(self, after: str) -> AsyncGenerator[Sequence[Frame] | JoinPoint, None]:
        point = self._join_point(after)
        if point is not None:
            for step in self._buffered(point):
                yield step
            return
        renderer = await self._renderer(after)
        items = aiter(self._hub.follow(self._run_id, after=Cursor(after)))
        history = ReplayBuffer(after)
        is_live = is_handed_over = False
        try:
            async for item in items:
                if isinstance(item, Ended) and item.reason is Reason.UNUSABLE:
                    # The item has only the text of the error; reading again raises the error itself.
                    await self._hub.read(self._run_id, item.cursor, thorough=False)
                frames = render_item(renderer, item, self.topic)
                yield frames
                if isinstance(item, CaughtUp):
                    if renderer.is_settled:
                        return
                    is_live = True
                    history.add_state(frames[:-1], item.cursor)
                if isinstance(item, Missed | Ended):
                    continue
                if is_live and self._broadcasts.get(self._key) is None:
                    # The follower of the first viewer fills the broadcast for all.
                    is_handed_over = True
                    filler = _Filler(renderer, items, self.topic, self._check)
                    broadcast = self._broadcasts.start(self._key, history.start, filler.fill)
                    history.fill(broadcast, item.cursor)
                elif isinstance(item, Followed):
                    history.add(frames, item.cursor)
                point = self._join_point(item.cursor)
                if point is not None:
                    for step in [point] if is_live else [renderer.catch_up(), *self._buffered(point)]:
                        yield step
                    return
        finally:
            if not is_handed_over:
                await items.aclose()

    def _buffered(self, point: JoinPoint) -> list[Sequence[Frame] | JoinPoint]:
        """The rest of the history is in the broadcast's buffer, rendered already."""
        broadcast = point.broadcast
        frames = [*broadcast.all_from(point.position), caught_up(self.topic, broadcast.cursor)]
        return [frames, JoinPoint(broadcast, broadcast.end)]

    def _join_point(self, cursor: str) -> JoinPoint | None:
        broadcast = self._broadcasts.get(self._key)
        position = broadcast.position_of(cursor) if broadcast is not None else None
        return None if broadcast is None or position is None else JoinPoint(broadcast, position)


class ReplayBuffer:
    """The frames a viewer got before its broadcast began, if they are few: later viewers share them."""

    def __init__(self, start: str) -> None:
        self.start = start  # the cursor from which on it is complete
        self._frames: list[Frame] = []
        self._bytes = 0

    def add(self, frames: Sequence[Frame], cursor: str) -> None:
        """Add frames. If there are too many, the buffer starts again after them."""
        self._frames += frames
        self._bytes += sum(len(frame.data) for frame in frames)
        if len(self._frames) > RETAINED_ITEMS or self._bytes > RETAINED_BYTES // 2:
            self.start, self._frames, self._bytes = cursor, [], 0

    def add_state(self, frames: Sequence[Frame], cursor: str) -> None:
        """Add frames with the state at this cursor. A viewer that resumes at the cursor has it already."""
        states = [Frame(frame.name, frame.data) for frame in frames]
        if not states or cursor == self.start:
            return
        if self._frames and self._frames[-1].cursor == cursor:
            self._frames[-1:-1] = states
        else:
            states[-1].cursor = cursor
            self._frames += states

    def fill(self, broadcast: FrameBroadcast, cursor: str) -> None:
        """Publish the frames, and advance the broadcast to this cursor."""
        for frame in self._frames:
            broadcast.push(frame)
        broadcast.advance(cursor)


class _Filler:
    """Fills a broadcast with what one follower receives."""

    def __init__(
        self, renderer: Renderer, items: AsyncGenerator[Item, None], topic: str, check: Check | None
    ) -> None:
        self._renderer = renderer
        self._items = items
        self._topic = topic
        self._check = check

    async def fill(self, broadcast: FrameBroadcast) -> None:
        async with aclosing(self._items) as items, self._checking():
            async for item in items:
                if isinstance(item, Missed):
                    continue  # the follower itself was too slow, and reads again what it missed
                for frame in render_item(self._renderer, item, self._topic):
                    broadcast.push(frame)
                if isinstance(item, Followed):
                    broadcast.advance(item.cursor)

    @asynccontextmanager
    async def _checking(self) -> AsyncIterator[None]:
        """A process that exits without a last event leaves nothing in the journal to follow."""
        if self._check is None:
            yield
            return
        checking = asyncio.create_task(_check_repeatedly(self._check))
        try:
            yield
        finally:
            checking.cancel()


async def _check_repeatedly(check: Check) -> None:
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        try:
            await check()
        except LongwatchError as error:
            log.debug("a turn could not be checked: %s", error)


def render_item(renderer: Renderer, item: Item, topic: str) -> Sequence[Frame]:
    """The frames of a follower's item."""
    match item:
        case Followed():
            return renderer.event(item)
        case CaughtUp():
            return renderer.caught_up(item.cursor)
        case Missed():
            return [missed(topic, item.count)]
        case Ended(reason=Reason.STOPPED):
            return ()  # the server shuts down, and notifies every viewer of that
        case Ended(reason=Reason.UNUSABLE):
            return [failure_of(topic, "journal_unusable", item.message or "the journal cannot be read")]
        case Ended():
            return renderer.ended(item)

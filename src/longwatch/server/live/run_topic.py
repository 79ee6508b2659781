"""A run as a topic, and anything else that is told from the events of one run.

A viewer follows the run by itself until it stands where the shared line stands, and goes on with the line.
Who stands where is decided by cursors alone: the same cursor means that the same events were seen.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Hashable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Protocol

from longwatch.errors import LongwatchError
from longwatch.following.hub import Hub
from longwatch.following.items import CaughtUp, Ended, Followed, Item, Missed, Reason
from longwatch.model.event import Cursor
from longwatch.server.live.broadcast import RING_BYTES, RING_FRAMES, Broadcast, Broadcasts, Ring
from longwatch.server.live.messages import Frame, caught_up, event_message, failure_of, message, missed
from longwatch.server.live.subscription import Joined

LOOK_AFTER_SECONDS = 2.0  # how often to see whether the process that executes a turn is still there

log = logging.getLogger("longwatch.server")


class Renderer(Protocol):
    """Tells the events of a run, one after the other, in the words of a topic."""

    @property
    def is_settled(self) -> bool:
        """Whether the run ended so long ago that nothing is waited for once its history is told."""

    def event(self, followed: Followed) -> Sequence[Frame]:
        """One event."""

    def caught_up(self, cursor: str) -> Sequence[Frame]:
        """The history is told."""

    def ended(self, ended: Ended) -> Sequence[Frame]:
        """The watch is over."""


class RunRenderer:
    """Tells the events as they are."""

    is_settled = False

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def event(self, followed: Followed) -> Sequence[Frame]:
        return [event_message(self._topic, followed.event, late=followed.late, cursor=followed.cursor)]

    def caught_up(self, cursor: str) -> Sequence[Frame]:
        return [caught_up(self._topic, cursor)]

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


class FollowingSource:
    """The messages of a topic that is told from one run."""

    def __init__(
        self,
        topic: str,
        run_id: str,
        *,
        hub: Hub,
        lines: Broadcasts,
        renderer: Callable[[str], Awaitable[Renderer]],
        look_after: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self.topic = topic
        self._run_id = run_id
        self._hub = hub
        self._lines = lines
        self._renderer = renderer  # for somebody who has seen everything up to this cursor
        self._look_after = look_after  # sees now and then whether whoever does the work is still there
        self._key: Hashable = (topic, run_id)

    async def steps(self, after: str) -> AsyncGenerator[Sequence[Frame] | Joined, None]:
        known = self._where(after)
        if known is not None:
            for step in self._rest(known):
                yield step
            return
        renderer = await self._renderer(after)
        items = aiter(self._hub.follow(self._run_id, after=Cursor(after)))
        history = ReplayBuffer(after)
        is_live = is_handed_over = False
        try:
            async for item in items:
                if isinstance(item, Ended) and item.reason is Reason.UNUSABLE:
                    # The follower tells only the words of what is wrong; asking again tells its kind as well.
                    await self._hub.read(self._run_id, item.cursor, thorough=False)
                frames = told(renderer, item, self.topic)
                yield frames
                if isinstance(item, CaughtUp):
                    if renderer.is_settled:
                        return
                    is_live = True
                if isinstance(item, Missed | Ended):
                    continue
                if is_live and self._lines.get(self._key) is None:
                    # The first to come leads: its follower goes on for all.
                    is_handed_over = True
                    leader = _Leader(renderer, items, self.topic, self._look_after)
                    line = self._lines.start(self._key, history.start, leader.lead)
                    history.fill(line.ring, item.cursor)
                elif isinstance(item, Followed):
                    history.add(frames, item.cursor)
                joined = self._where(item.cursor)
                if joined is not None:
                    for step in [joined] if is_live else self._rest(joined):
                        yield step
                    return
        finally:
            if not is_handed_over:
                await items.aclose()

    def _rest(self, known: Joined) -> list[Sequence[Frame] | Joined]:
        """What is left of the history is in the ring, written already."""
        ring = known.line.ring
        frames = [*ring.all_after(known.place), caught_up(self.topic, ring.cursor)]
        return [frames, Joined(known.line, ring.end)]

    def _where(self, cursor: str) -> Joined | None:
        line = self._lines.get(self._key)
        place = line.ring.place_of(cursor) if line is not None else None
        return None if line is None or place is None else Joined(line, place)


class ReplayBuffer:
    """What a viewer was told before its line began, as long as it is little: later ones share it."""

    def __init__(self, start: str) -> None:
        self.start = start  # the cursor from which on it is whole
        self._frames: list[Frame] = []
        self._bytes = 0

    def add(self, frames: Sequence[Frame], cursor: str) -> None:
        """More was told. If it becomes too much, it begins anew from here."""
        self._frames += frames
        self._bytes += sum(len(frame.data) for frame in frames)
        if len(self._frames) > RING_FRAMES or self._bytes > RING_BYTES // 2:
            self.start, self._frames, self._bytes = cursor, [], 0

    def fill(self, ring: Ring, cursor: str) -> None:
        """Begin a ring with it, which stands at this cursor then."""
        for frame in self._frames:
            ring.push(frame)
        ring.stand_at(cursor)


class _Leader:
    """Fills a line with what one follower finds."""

    def __init__(
        self,
        renderer: Renderer,
        items: AsyncGenerator[Item, None],
        topic: str,
        look_after: Callable[[], Awaitable[object]] | None,
    ) -> None:
        self._renderer = renderer
        self._items = items
        self._topic = topic
        self._look_after = look_after

    async def lead(self, line: Broadcast) -> None:
        async with aclosing(self._items) as items, self._looking_after():
            async for item in items:
                if isinstance(item, Missed):
                    continue  # it was too slow itself, and reads again what the line does not have yet
                for frame in told(self._renderer, item, self._topic):
                    line.push(frame)
                if isinstance(item, Followed):
                    line.ring.stand_at(item.cursor)

    @asynccontextmanager
    async def _looking_after(self) -> AsyncIterator[None]:
        """Beside the following: the journal tells nothing of a process that is gone without a word."""
        if self._look_after is None:
            yield
            return
        looking = asyncio.create_task(_again_and_again(self._look_after))
        try:
            yield
        finally:
            looking.cancel()


async def _again_and_again(look: Callable[[], Awaitable[object]]) -> None:
    while True:
        await asyncio.sleep(LOOK_AFTER_SECONDS)
        try:
            await look()
        except LongwatchError as error:
            log.debug("could not look after a turn: %s", error)


def told(renderer: Renderer, item: Item, topic: str) -> Sequence[Frame]:
    """What a follower's item is in the words of the topic."""
    match item:
        case Followed():
            return renderer.event(item)
        case CaughtUp():
            return renderer.caught_up(item.cursor)
        case Missed():
            return [missed(topic, item.count)]
        case Ended(reason=Reason.STOPPED):
            return ()  # the server is going down, and says so to everybody
        case Ended(reason=Reason.UNUSABLE):
            return [failure_of(topic, "journal_unusable", item.message or "the journal cannot be read")]
        case Ended():
            return renderer.ended(item)

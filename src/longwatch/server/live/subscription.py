"""One viewer's subscription to one topic: its history, read for this viewer, then the shared broadcast."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from longwatch.errors import LongwatchError, NotWorthAnotherTry
from longwatch.following.broadcast import (
    RETAINED_ITEMS,
    TAKEN_BYTES,
    TAKEN_ITEMS,
    Broadcast,
    Broadcasts,
    Lagged,
    Reader,
)
from longwatch.polling.backoff import JOURNAL_BACKOFF, after_failure
from longwatch.server.live.messages import Frame, failure, failure_of, missed
from longwatch.server.live.read_ahead import ReadAhead

MAX_WAITING_FRAMES = 512  # read ahead for a viewer that consumes none; `ReadAhead` limits their bytes
STALLED_SECONDS = 1.0  # without consumption, after which the reader is closed, with the page that it holds
RESTART_SECONDS = 1.0  # before a broadcast that broke off is opened again
CACHED_CHUNKS = 8  # viewers that keep up need one

log = logging.getLogger("longwatch.server")


class FrameBroadcast(Broadcast[Frame]):
    """A topic's frames. The joined bytes of a position are rendered once for all viewers that stand there."""

    def __init__(self, cursor: str, *, retain_items: int = RETAINED_ITEMS) -> None:
        super().__init__(cursor, size=lambda frame: len(frame.data), retain_items=retain_items)
        self._chunks: dict[int, tuple[bytes, int, str]] = {}  # by the position at which they begin

    def push(self, frame: Frame) -> None:
        """Publish a frame under its own cursor."""
        self._chunks.clear()
        self.publish(frame, frame.cursor)

    def chunk(self, position: int) -> tuple[bytes, int, str]:
        """The next frames as one piece of a stream of this topic alone; the position and cursor after it."""
        chunk = self._chunks.get(position)
        if chunk is None:
            found = self.items_from(position)
            data = found[0].sse if len(found) == 1 else b"".join([frame.sse for frame in found])
            end = position + len(found)
            if len(self._chunks) >= CACHED_CHUNKS:
                self._chunks.clear()
            chunk = self._chunks[position] = (data, end, self.cursor_at(end))
        return chunk


FrameBroadcasts = Broadcasts[FrameBroadcast]


@dataclass(frozen=True, slots=True)
class JoinPoint:
    """Where a viewer that has read the history continues with the broadcast."""

    broadcast: FrameBroadcast
    position: int


class TopicSource(Protocol):
    """Where the frames of a topic come from."""

    @property
    def topic(self) -> str:
        """Its name."""

    def read(self, after: str) -> AsyncGenerator[Sequence[Frame] | JoinPoint, None]:
        """Yield the frames past this cursor, then the point to join the broadcast; none if the topic ends."""


class TopicReader(Protocol):
    """What a transport needs of a topic that its viewer follows."""

    topic: str
    cursor: str  # after the frames that were taken

    @property
    def is_over(self) -> bool:
        """Whether no more frames will come."""

    def take(self) -> Sequence[Frame]:
        """Consume the next frames; none if there are none."""

    def chunk(self) -> bytes:
        """Consume the next frames as a piece of a stream that has this topic alone."""

    def close(self) -> None:
        """End the subscription."""


class RejectedSubscription:
    """A topic that cannot be followed: it has one frame, which states why."""

    def __init__(self, topic: str, error: NotWorthAnotherTry) -> None:
        self.topic = topic
        self.cursor = ""
        self._frames: list[Frame] = [failure(topic, error)]

    @property
    def is_over(self) -> bool:
        return not self._frames

    def take(self) -> Sequence[Frame]:
        frames, self._frames = self._frames, []
        return frames

    def chunk(self) -> bytes:
        return b"".join([frame.sse for frame in self.take()])

    def close(self) -> None:
        self._frames = []


class Stalled(Exception):
    """The viewer consumes nothing, so the reader of its history was closed."""


class TopicSubscription:
    """Follows a source for one viewer, which consumes the frames at its own pace."""

    def __init__(
        self,
        source: TopicSource,
        after: str,
        wake: Callable[[], None],
        read_ahead: ReadAhead | None = None,
        *,
        stalled_seconds: float = STALLED_SECONDS,
    ) -> None:
        self.topic = source.topic
        self.cursor = after
        self._wake = wake  # there may be frames to take
        self._source = source
        self._waiting: deque[Frame] = deque()  # history that was read for this viewer
        self._read_ahead = read_ahead or ReadAhead()
        self._stalled_seconds = stalled_seconds
        self._can_resume = True  # the last frame of the history has a cursor
        self._taken: asyncio.Future[None] | None = None  # done when frames were taken
        self._broadcast: FrameBroadcast | None = None
        self._reader: Reader[Frame] | None = None
        self._is_over = False
        self._task: asyncio.Task[None] | None = None
        self._start()

    @property
    def is_over(self) -> bool:
        return self._is_over and not self._waiting

    def take(self) -> Sequence[Frame]:
        if self._waiting:
            return self._take_waiting()
        reader = self._reader
        if reader is None:
            return ()
        try:
            found = reader.take()
        except Lagged as lagged:
            return [self._restart(lagged)]
        if found:
            self.cursor = reader.cursor
        elif reader.broadcast.is_closed:
            self._leave_broadcast()
        return found

    def chunk(self) -> bytes:
        broadcast, reader = self._broadcast, self._reader
        if broadcast is None or reader is None or self._waiting:
            return b"".join([frame.sse for frame in self._take_waiting()])
        if reader.position == broadcast.end:
            if broadcast.is_closed:
                self._leave_broadcast()
            return b""
        try:
            data, reader.position, self.cursor = broadcast.chunk(reader.position)
        except Lagged as lagged:
            return self._restart(lagged).sse
        return data

    def close(self) -> None:
        self._is_over = True
        self._read_ahead.add(-sum(len(frame.data) for frame in self._waiting))
        self._waiting.clear()
        self._leave_broadcast()
        if self._task is not None:
            self._task.cancel()

    def _take_waiting(self) -> Sequence[Frame]:
        found: list[Frame] = []
        size = 0
        while self._waiting and len(found) < TAKEN_ITEMS and size < TAKEN_BYTES:
            frame = self._waiting.popleft()
            found.append(frame)
            size += len(frame.data)
            if frame.cursor is not None:
                self.cursor = frame.cursor
        self._read_ahead.add(-size)
        if self._taken is not None and not self._taken.done():
            self._taken.set_result(None)
        return found

    def _restart(self, lagged: Lagged) -> Frame:
        """The viewer was too slow for the broadcast: it gets a `missed` frame, and reads history again."""
        self._close_reader()
        self._start()
        return missed(self.topic, lagged.count)

    def _leave_broadcast(self) -> None:
        """The broadcast is closed and consumed: so is the topic, unless the broadcast broke off."""
        broadcast = self._broadcast
        self._close_reader()
        if broadcast is None:
            return
        if broadcast.is_finished:
            self._is_over = True
        elif not self._is_over:
            self._start(RESTART_SECONDS)

    def _close_reader(self) -> None:
        reader, self._reader, self._broadcast = self._reader, None, None
        if reader is not None:
            reader.close()

    def _start(self, delay_seconds: float = 0.0) -> None:
        self._task = asyncio.get_running_loop().create_task(
            self._run(delay_seconds), name=f"longwatch-feed {self.topic}"
        )

    async def _run(self, delay_seconds: float) -> None:
        if delay_seconds:
            await asyncio.sleep(delay_seconds)
        backoff = JOURNAL_BACKOFF
        while True:
            try:
                point = await self._read(self.cursor)
            except Stalled:
                await self._until_all_taken()
                continue
            except LongwatchError as error:
                later = after_failure(backoff, error)
                if later is not None:
                    backoff = later
                    log.warning("%s cannot be read, next try in %g s: %s", self.topic, backoff.delay, error)
                    await self._until_all_taken()
                    await asyncio.sleep(backoff.delay or 0.0)
                    continue
                self._put(failure(self.topic, error))
            except Exception:
                log.exception("topic %s failed and is no longer followed", self.topic)
                text = "The server cannot follow this topic. Its log has the cause."
                self._put(failure_of(self.topic, "internal_error", text))
            else:
                if point is not None and point.broadcast.is_closed and not point.broadcast.is_finished:
                    await self._until_all_taken()  # it was closed just before this viewer joined
                    continue
                if point is not None:
                    self._broadcast = point.broadcast
                    self._reader = point.broadcast.subscribe(self._wake, point.position)
            self._is_over = self._broadcast is None
            self._wake()
            return

    async def _read(self, after: str) -> JoinPoint | None:
        """Read until the broadcast can be joined; None: the topic ends."""
        await self._read_ahead.begin()
        has_turn = True
        try:
            async with aclosing(self._source.read(after)) as steps:
                async for step in steps:
                    if isinstance(step, JoinPoint):
                        return step
                    for frame in step:
                        self._put(frame)
                        if has_turn and frame.name == "caught_up":
                            # From here on frames are live. A turn is for reading, not for waiting.
                            has_turn = False
                            self._read_ahead.end()
                    if step:
                        self._wake()
                    await self._until_room()
        finally:
            if has_turn:
                self._read_ahead.end()
        return None

    async def _until_room(self) -> None:
        """Wait until the viewer consumes frames. If it consumes none, the reader closes and frees its page.

        It resumes from the cursor of the last frame, so the reader closes only where that has one.
        """
        while len(self._waiting) >= MAX_WAITING_FRAMES or self._read_ahead.is_full:
            try:
                async with asyncio.timeout(self._stalled_seconds if self._can_resume else None):
                    if len(self._waiting) >= MAX_WAITING_FRAMES:
                        await self._until_some_taken()
                    else:
                        await self._read_ahead.room()
            except TimeoutError as error:
                raise Stalled from error

    def _put(self, frame: Frame) -> None:
        self._waiting.append(frame)
        self._can_resume = frame.cursor is not None
        self._read_ahead.add(len(frame.data))

    async def _until_all_taken(self) -> None:
        """Reading resumes from the cursor of the viewer, which has to take everything first."""
        while self._waiting:
            await self._until_some_taken()

    async def _until_some_taken(self) -> None:
        self._taken = asyncio.get_running_loop().create_future()
        try:
            await self._taken
        finally:
            self._taken = None

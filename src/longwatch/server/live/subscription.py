"""One viewer's part in one topic: first what was, read for it alone, then the line that all share."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from longwatch.errors import LongwatchError, NotWorthAnotherTry
from longwatch.polling.backoff import JOURNAL_BACKOFF, after_failure
from longwatch.server.live.broadcast import CHUNK_BYTES, CHUNK_FRAMES, Broadcast, Lapped, Ring
from longwatch.server.live.messages import Frame, failure, failure_of, missed
from longwatch.server.live.read_ahead import ReadAhead

ROOM_FRAMES = 512  # that are read ahead for a viewer who does not take them; `ReadAhead` bounds their bytes
STALLED_SECONDS = 1.0  # without room, after which the reader is closed, with the page that it holds
BROKEN_SECONDS = 1.0  # before a line that broke off is tried again

log = logging.getLogger("longwatch.server")


@dataclass(frozen=True, slots=True)
class Joined:
    """From here on the viewer shares this line."""

    line: Broadcast
    place: int


class TopicSource(Protocol):
    """Where the messages of a topic come from."""

    @property
    def topic(self) -> str:
        """Its name."""

    def steps(self, after: str) -> AsyncGenerator[Sequence[Frame] | Joined, None]:
        """Everything past this cursor, and then either the line to go on with, or the end of the topic."""


class Taking(Protocol):
    """What a transport needs of a topic that somebody follows."""

    topic: str
    cursor: str  # where the viewer stands: after what was taken

    @property
    def is_over(self) -> bool:
        """Whether nothing will come any more."""

    def take(self) -> Sequence[Frame]:
        """Some of what is there; nothing if there is nothing."""

    def chunk(self) -> bytes:
        """The same as a piece of a stream that has this topic alone."""

    def close(self) -> None:
        """Follow no more."""


class RejectedSubscription:
    """A topic that cannot be followed: it says why, and is over."""

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
    """The viewer takes nothing, so its reader was closed."""


class TopicSubscription:
    """Follows a source for one viewer, who takes from it in its own time."""

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
        self.wake = wake  # there may be something to take
        self._source = source
        self._waiting: deque[Frame] = deque()  # read for this viewer, and not taken yet
        self._read_ahead = read_ahead or ReadAhead()
        self._stalled_seconds = stalled_seconds
        self._can_resume = True  # the frame that was read last has a cursor
        self._room: asyncio.Future[None] | None = None  # set when something was taken
        self._line: Broadcast | None = None
        self._ring: Ring | None = None  # of the line; asked for each delivery
        self._place = 0
        self._is_over = False
        self._pump: asyncio.Task[None] | None = None
        self._read_on()

    @property
    def is_over(self) -> bool:
        return self._is_over and not self._waiting

    def take(self) -> Sequence[Frame]:
        if self._waiting:
            return self._take_waiting()
        line = self._line
        if line is None:
            return ()
        try:
            found = line.ring.after(self._place)
        except Lapped as lapped:
            return [self._begin_again(lapped)]
        if found:
            self._place += len(found)
            self.cursor = line.ring.cursor_at(self._place)
        elif line.is_over:
            self._leave_line()
        return found

    def chunk(self) -> bytes:
        ring = self._ring
        if ring is None or self._waiting:
            return b"".join([frame.sse for frame in self._take_waiting()])
        if self._place == ring.end:
            if self._line is not None and self._line.is_over:
                self._leave_line()
            return b""
        try:
            data, self._place, self.cursor = ring.chunk(self._place)
        except Lapped as lapped:
            return self._begin_again(lapped).sse
        return data

    def close(self) -> None:
        self._is_over = True
        self._read_ahead.add(-sum(len(frame.data) for frame in self._waiting))
        self._waiting.clear()
        self._leave_line()
        if self._pump is not None:
            self._pump.cancel()

    def _take_waiting(self) -> Sequence[Frame]:
        taken: list[Frame] = []
        size = 0
        while self._waiting and len(taken) < CHUNK_FRAMES and size < CHUNK_BYTES:
            frame = self._waiting.popleft()
            taken.append(frame)
            size += len(frame.data)
            if frame.cursor is not None:
                self.cursor = frame.cursor
        self._read_ahead.add(-size)
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        return taken

    def _begin_again(self, lapped: Lapped) -> Frame:
        """The viewer was too slow for the line: it is told so, and reads on by itself."""
        line, self._line, self._ring = self._line, None, None
        if line is not None:
            line.leave(self)
        self._read_on()
        return missed(self.topic, lapped.count)

    def _leave_line(self) -> None:
        """The line is over and taken: so is the topic, unless the line only broke off."""
        line, self._line, self._ring = self._line, None, None
        if line is None:
            return
        line.leave(self)
        if line.is_finished:
            self._is_over = True
        elif not self._is_over:
            self._read_on(BROKEN_SECONDS)

    def _read_on(self, delay_seconds: float = 0.0) -> None:
        self._pump = asyncio.get_running_loop().create_task(
            self._run(delay_seconds), name=f"longwatch-feed {self.topic}"
        )

    async def _run(self, delay_seconds: float) -> None:
        if delay_seconds:
            await asyncio.sleep(delay_seconds)
        backoff = JOURNAL_BACKOFF
        while True:
            try:
                joined = await self._read(self.cursor)
            except Stalled:
                await self._until_taken()
                continue
            except LongwatchError as error:
                later = after_failure(backoff, error)
                if later is not None:
                    backoff = later
                    log.warning("%s cannot be read, next try in %g s: %s", self.topic, backoff.delay, error)
                    await self._until_taken()
                    await asyncio.sleep(backoff.delay or 0.0)
                    continue
                self._put(failure(self.topic, error))
            except Exception:
                log.exception("topic %s broke and is not followed any more", self.topic)
                text = "the server cannot follow this topic; its log says why"
                self._put(failure_of(self.topic, "internal_error", text))
            else:
                if joined is not None and joined.line.is_over and not joined.line.is_finished:
                    await self._until_taken()  # it was given up just before anybody came
                    continue
                if joined is not None:
                    self._line, self._ring, self._place = joined.line, joined.line.ring, joined.place
                    joined.line.join(self)
            self._is_over = self._line is None
            self.wake()
            return

    async def _read(self, after: str) -> Joined | None:
        """Read until the line can be joined or the topic ends; None if it ends."""
        await self._read_ahead.begin()
        has_turn = True
        try:
            async with aclosing(self._source.steps(after)) as steps:
                async for step in steps:
                    if isinstance(step, Joined):
                        return step
                    for frame in step:
                        self._put(frame)
                        if has_turn and frame.name == "caught_up":
                            # What comes now is live. A turn is for reading, not for waiting.
                            has_turn = False
                            self._read_ahead.end()
                    if step:
                        self.wake()
                    await self._until_room()
        finally:
            if has_turn:
                self._read_ahead.end()
        return None

    async def _until_room(self) -> None:
        """Wait for the viewer to take some. For one that takes nothing no page is held: the reader closes.

        It resumes from the cursor of the last frame, so the reader closes only where that has one.
        """
        while len(self._waiting) >= ROOM_FRAMES or self._read_ahead.is_full:
            try:
                async with asyncio.timeout(self._stalled_seconds if self._can_resume else None):
                    if len(self._waiting) >= ROOM_FRAMES:
                        await self._until_some_taken()
                    else:
                        await self._read_ahead.room()
            except TimeoutError as error:
                raise Stalled from error

    def _put(self, frame: Frame) -> None:
        self._waiting.append(frame)
        self._can_resume = frame.cursor is not None
        self._read_ahead.add(len(frame.data))

    async def _until_taken(self) -> None:
        """What was read before a failure must be taken before it is read on from there."""
        while self._waiting:
            await self._until_some_taken()

    async def _until_some_taken(self) -> None:
        self._room = asyncio.get_running_loop().create_future()
        try:
            await self._room
        finally:
            self._room = None

"""Broadcasts: a topic is read once, and its frames wait in one bounded ring for all who follow it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Protocol

from longwatch.server.live.messages import Frame

RING_FRAMES = 1_000
RING_BYTES = 512 * 1024  # those that fell behind read on from the journal
CHUNK_FRAMES = 256  # that are sent in one go
CHUNK_BYTES = 128 * 1024
CHUNKS = 8  # pieces that are kept joined; viewers that keep up need one


Chunk = tuple[bytes, int, str]


class Lapped(Exception):
    """Somebody was so slow that what comes next for them is no longer here."""

    def __init__(self, count: int) -> None:
        self.count = count  # frames
        super().__init__(count)


class Ring:
    """Frames, each at a place that only grows. Old ones go when there are too many, or too much."""

    def __init__(self, cursor: str, *, frames: int = RING_FRAMES, size: int = RING_BYTES) -> None:
        self.cursor = cursor  # where the topic stands after the last frame
        self.end = 0  # the place of the next frame
        self._frames: list[Frame] = []
        self._most_frames = frames
        self._most_bytes = size
        self._bytes = 0
        self._places: dict[str, int] = {cursor: 0}  # of the first frame past a cursor
        self._starts = [cursor]  # the cursor before each frame, then the current one
        self._chunks: dict[
            int, Chunk
        ] = {}  # by the place where they begin; all who stand there take the same

    @property
    def begin(self) -> int:
        """The place of the oldest frame."""
        return self.end - len(self._frames)

    def push(self, frame: Frame) -> None:
        """Add a frame at the end."""
        self._frames.append(frame)
        self._bytes += len(frame.data)
        self.end += 1
        if frame.cursor is not None:
            self.cursor = frame.cursor
        # A frame that leaves the cursor where it was is sent again to whoever resumes there.
        self._places.setdefault(self.cursor, self.end)
        self._starts.append(self.cursor)
        self._chunks.clear()
        if len(self._frames) > 2 * self._most_frames or self._bytes > self._most_bytes:
            self._shrink()

    def stand_at(self, cursor: str) -> None:
        """The topic has come this far without another message."""
        if cursor != self.cursor:
            self.cursor = self._starts[-1] = cursor
            self._places.setdefault(cursor, self.end)

    def place_of(self, cursor: str) -> int | None:
        """Where somebody goes on who stands at this cursor; None if the ring does not know."""
        return self._places.get(cursor)

    def after(self, place: int, *, frames: int = CHUNK_FRAMES, size: int = CHUNK_BYTES) -> Sequence[Frame]:
        """Some frames from this place on, at least one if there is one."""
        first = place - self.begin
        if first < 0:
            raise Lapped(-first)
        found = self._frames[first : first + frames]
        total = 0
        for count, frame in enumerate(found):
            total += len(frame.data)
            if total > size and count:
                return found[:count]
        return found

    def all_after(self, place: int) -> Sequence[Frame]:
        """Everything from this place on."""
        return self.after(place, frames=len(self._frames), size=self._bytes)

    def chunk(self, place: int) -> Chunk:
        """The same as one piece of a stream of this topic alone, with the place and the cursor after it."""
        chunk = self._chunks.get(place)
        if chunk is None:
            found = self.after(place)
            data = found[0].sse if len(found) == 1 else b"".join([frame.sse for frame in found])
            end = place + len(found)
            if len(self._chunks) >= CHUNKS:
                self._chunks.clear()
            chunk = self._chunks[place] = (data, end, self.cursor_at(end))
        return chunk

    def cursor_at(self, place: int) -> str:
        """Where somebody stands who has taken everything before this place, which must still be here."""
        return self._starts[place - self.end - 1]

    def _shrink(self) -> None:
        """Drop the oldest frames. The newest always stays."""
        count = max(0, len(self._frames) - self._most_frames)
        left = self._bytes - sum(len(frame.data) for frame in self._frames[:count])
        while left > self._most_bytes // 2 and count < len(self._frames) - 1:
            left -= len(self._frames[count].data)
            count += 1
        del self._frames[:count]
        for cursor in self._starts[:count]:
            if self._places.get(cursor, self.end) < self.begin:
                del self._places[cursor]
        del self._starts[:count]
        self._bytes = left


LINGER_SECONDS = 5.0  # that a line stays when nobody listens: a long poll comes back, a page is reloaded

log = logging.getLogger("longwatch.server")


class OnFrames(Protocol):
    """Somebody who takes from the ring."""

    def wake(self) -> None:
        """There is more."""


class Broadcast:
    """A ring and the task that fills it. It ends with its task, or when nobody listened for a while."""

    def __init__(self, lines: Broadcasts, key: Hashable, cursor: str) -> None:
        self.ring = Ring(cursor, frames=lines.ring_frames)
        self.is_over = False  # nothing is added any more
        self.is_finished = False  # because the topic came to its end; else the line only broke off
        self._lines = lines
        self._key = key
        self._listeners: dict[OnFrames, None] = {}
        self._is_waking = False
        self._linger: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def listeners(self) -> int:
        """How many listen now."""
        return len(self._listeners)

    def lead(self, leader: Awaitable[None]) -> None:
        """Let this fill the ring."""
        self._task = self._loop.create_task(self._run(leader), name=f"longwatch-line {self._key}")
        self._stay_a_while()

    async def _run(self, leader: Awaitable[None]) -> None:
        try:
            await leader
            self.is_finished = True
        except Exception:
            log.exception("the line of %s broke; whoever follows it begins anew", self._key)
        finally:
            self.close()

    def push(self, frame: Frame) -> None:
        """Add a message for everybody."""
        self.ring.push(frame)
        if not self._is_waking and self._listeners:
            # Once for all that is pushed in this turn of the loop.
            self._is_waking = True
            self._loop.call_soon(self._wake)

    def join(self, listener: OnFrames) -> None:
        """Wake this one when there is more."""
        self._listeners[listener] = None
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None

    def leave(self, listener: OnFrames) -> None:
        """Do not wake this one any more."""
        self._listeners.pop(listener, None)
        if not self._listeners and not self.is_over:
            self._stay_a_while()

    def close(self) -> None:
        """Add nothing any more. Those who listen take what is there, and are told."""
        if self.is_over:
            return
        self.is_over = True
        self._lines.forget(self._key, self)
        if self._linger is not None:
            self._linger.cancel()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
        self._wake()

    def _stay_a_while(self) -> None:
        if self._linger is None:
            self._linger = self._loop.call_later(self._lines.linger_seconds, self.close)

    def _wake(self) -> None:
        self._is_waking = False
        for listener in list(self._listeners):
            listener.wake()


class Broadcasts:
    """All lines of a server, by what they follow."""

    def __init__(self, *, linger_seconds: float = LINGER_SECONDS, ring_frames: int = RING_FRAMES) -> None:
        self.linger_seconds = linger_seconds
        self.ring_frames = ring_frames
        self._lines: dict[Hashable, Broadcast] = {}

    def get(self, key: Hashable) -> Broadcast | None:
        """The line that follows this, if there is one."""
        return self._lines.get(key)

    def start(self, key: Hashable, cursor: str, leader: Callable[[Broadcast], Awaitable[None]]) -> Broadcast:
        """A new line that stands at this cursor."""
        line = self._lines[key] = Broadcast(self, key, cursor)
        line.lead(leader(line))
        return line

    def forget(self, key: Hashable, line: Broadcast) -> None:
        """This line is over."""
        if self._lines.get(key) is line:
            del self._lines[key]

    def close(self) -> None:
        """End every line."""
        for line in list(self._lines.values()):
            line.close()

    def __len__(self) -> int:
        return len(self._lines)

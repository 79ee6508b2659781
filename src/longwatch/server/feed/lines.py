"""What happens live in a topic, followed once for everybody in this process who follows it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Protocol

from longwatch.server.feed.messages import Frame
from longwatch.server.feed.ring import RING_FRAMES, Ring

LINGER_SECONDS = 5.0  # that a line stays when nobody listens: a long poll comes back, a page is reloaded

log = logging.getLogger("longwatch.server")


class Listener(Protocol):
    """Somebody who takes from the ring."""

    def wake(self) -> None:
        """There is more."""


class Line:
    """A ring and the task that fills it. It ends with its task, or when nobody listened for a while."""

    def __init__(self, lines: Lines, key: Hashable, cursor: str) -> None:
        self.ring = Ring(cursor, frames=lines.ring_frames)
        self.is_over = False  # nothing is added any more
        self.is_finished = False  # because the topic came to its end; else the line only broke off
        self._lines = lines
        self._key = key
        self._listeners: dict[Listener, None] = {}
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

    def join(self, listener: Listener) -> None:
        """Wake this one when there is more."""
        self._listeners[listener] = None
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None

    def leave(self, listener: Listener) -> None:
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


class Lines:
    """All lines of a server, by what they follow."""

    def __init__(self, *, linger_seconds: float = LINGER_SECONDS, ring_frames: int = RING_FRAMES) -> None:
        self.linger_seconds = linger_seconds
        self.ring_frames = ring_frames
        self._lines: dict[Hashable, Line] = {}

    def get(self, key: Hashable) -> Line | None:
        """The line that follows this, if there is one."""
        return self._lines.get(key)

    def start(self, key: Hashable, cursor: str, leader: Callable[[Line], Awaitable[None]]) -> Line:
        """A new line that stands at this cursor."""
        line = self._lines[key] = Line(self, key, cursor)
        line.lead(leader(line))
        return line

    def forget(self, key: Hashable, line: Line) -> None:
        """This line is over."""
        if self._lines.get(key) is line:
            del self._lines[key]

    def close(self) -> None:
        """End every line."""
        for line in list(self._lines.values()):
            line.close()

    def __len__(self) -> int:
        return len(self._lines)

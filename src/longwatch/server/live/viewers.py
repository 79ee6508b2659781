"""The connected clients of streams: what wakes them, their heartbeat, and the shutdown of the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from longwatch.clock import Clock
from longwatch.server.live.messages import Frame, beat
from longwatch.server.live.read_ahead import ReadAhead
from longwatch.server.live.subscription import FrameBroadcasts

BEAT_SECONDS = 15
STALLED_SECONDS = 0.5  # at shutdown, for a viewer that consumes nothing


class Viewer:
    """One connection. It sleeps until there is something for it."""

    __slots__ = (
        "_new_waiter",
        "_waiter",
        "beat",
        "group",
        "has_notice",
        "is_closing",
        "is_gone",
        "read_ahead",
        "task",
    )

    def __init__(self) -> None:
        self.is_gone = False  # the client has disconnected
        self.is_closing = False  # the server shuts down
        self.beat: Frame | None = None  # to be sent
        self.has_notice = False  # one of these three: checked once for each delivery
        self.group = 0
        self.read_ahead = ReadAhead()
        self.task: asyncio.Task[object] | None = None
        self._new_waiter = asyncio.get_running_loop().create_future
        self._waiter: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """Resume the viewer's task."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def leave(self) -> None:
        """The client has disconnected."""
        self.is_gone = self.has_notice = True
        self.wake()

    def close(self) -> None:
        """The server shuts down."""
        self.is_closing = self.has_notice = True
        self.wake()

    def send_beat(self, beat: Frame) -> None:
        """Its next heartbeat is due."""
        self.beat, self.has_notice = beat, True
        self.wake()

    def take_beat(self) -> Frame | None:
        """The heartbeat to send, if one is due."""
        beat, self.beat = self.beat, None
        self.has_notice = self.is_gone or self.is_closing
        return beat

    def wait(self) -> asyncio.Future[None]:
        """Await this until `wake`; nothing may be awaited between the last check and this call."""
        waiter = self._waiter = self._new_waiter()
        return waiter


class Viewers:
    """All viewers. Without any, nothing runs."""

    def __init__(
        self,
        broadcasts: FrameBroadcasts,
        closing: asyncio.Event,
        clock: Clock,
        *,
        beat_seconds: int = BEAT_SECONDS,
        is_away: Callable[[], bool] = lambda: False,  # the journal cannot be read
    ) -> None:
        self._broadcasts = broadcasts
        self._closing = closing
        self._clock = clock
        self._is_away = is_away
        self._was_away = False
        # A beat for all viewers at once would delay other messages, so each second has its own group.
        self._groups: list[dict[Viewer, None]] = [{} for _ in range(beat_seconds)]
        self._next = 0
        self._count = 0
        self._keeper: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return self._count

    def enter(self, viewer: Viewer) -> None:
        """Add a viewer, in the task that serves it."""
        viewer.task = asyncio.current_task()
        if self._closing.is_set():
            viewer.close()
        viewer.group = min(range(len(self._groups)), key=lambda index: len(self._groups[index]))
        self._groups[viewer.group][viewer] = None
        self._count += 1
        self.keep()

    def exit(self, viewer: Viewer) -> None:
        """Remove a viewer."""
        if self._groups[viewer.group].pop(viewer, viewer) is None:
            self._count -= 1

    def keep(self) -> None:
        """Send beats and wait for the shutdown, as long as there are viewers or broadcasts."""
        if self._keeper is None and not self._closing.is_set():
            self._keeper = asyncio.get_running_loop().create_task(self._keep(), name="longwatch-viewers")

    async def _keep(self) -> None:
        try:
            while self._count or len(self._broadcasts):
                try:
                    async with asyncio.timeout(1.0):
                        await self._closing.wait()
                except TimeoutError:
                    self._beat()
                else:
                    await self._close()
                    return
        finally:
            self._keeper = None

    def _beat(self) -> None:
        self._next = (self._next + 1) % len(self._groups)
        was_away, self._was_away = self._was_away, self._is_away()
        # That the journal became unavailable or available is sent to all viewers at once.
        group: Collection[Viewer] = self._groups[self._next] if was_away == self._was_away else self._all()
        if group:
            frame = beat(self._clock.now_ms(), is_away=self._was_away)
            for viewer in group:
                viewer.send_beat(frame)

    async def _close(self) -> None:
        for viewer in self._all():
            viewer.close()
        self._broadcasts.close()
        if self._count:
            await asyncio.sleep(STALLED_SECONDS)
        for viewer in self._all():  # they consume nothing, not even the notice of the shutdown
            if viewer.task is not None:
                viewer.task.cancel()

    def _all(self) -> list[Viewer]:
        return [viewer for group in self._groups for viewer in group]

"""What tests of following are made of: a watch that records its items."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from longwatch.following import CaughtUp, Ended, Followed, Follower, Item
from longwatch.model.event import Event

PATIENCE_SECONDS = 60.0  # virtual or real: what takes longer never comes


class Watch:
    """Consumes items as they come, and remembers them."""

    def __init__(self, follower: Follower, *, patient: bool = True) -> None:
        self.follower = follower
        self.items: list[Item] = []
        self._changed = asyncio.Event()
        self._go_on = asyncio.Event()
        if patient:
            self._go_on.set()
        self._task = asyncio.get_running_loop().create_task(self._take())

    async def _take(self) -> None:
        async for item in self.follower:
            self.items.append(item)
            self._changed.set()
            await self._go_on.wait()

    def pause(self) -> None:
        """Take no further item for now."""
        self._go_on.clear()

    def go_on(self) -> None:
        self._go_on.set()

    async def until(self, holds: Callable[[Watch], bool]) -> None:
        """Wait until this holds of the consumed items."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not holds(self):
                self._changed.clear()
                if self._task.done():
                    await self._task
                    assert holds(self), self.items
                await self._changed.wait()

    async def caught_up(self) -> None:
        await self.until(lambda watch: any(isinstance(item, CaughtUp) for item in watch.items))

    async def has(self, count: int) -> None:
        """Wait for so many events."""
        await self.until(lambda watch: len(watch.events) >= count)

    async def end(self) -> Ended:
        """Wait for the last item."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._task
        last = self.items[-1]
        assert isinstance(last, Ended)
        return last

    async def leave(self) -> None:
        """Go away in the middle, as a closed browser does."""
        self._task.cancel()
        await asyncio.wait([self._task])

    @property
    def followed(self) -> list[Followed]:
        return [item for item in self.items if isinstance(item, Followed)]

    @property
    def events(self) -> list[Event]:
        return [item.event for item in self.followed]

    @property
    def ids(self) -> list[str]:
        return [event.event_id for event in self.events]

    @property
    def ended(self) -> Ended | None:
        last = self.items[-1] if self.items else None
        return last if isinstance(last, Ended) else None

    @property
    def shape(self) -> str:
        """The kinds of items in a row, one letter each: F for an event, C, M and E."""
        return "".join(type(item).__name__[0] for item in self.items)

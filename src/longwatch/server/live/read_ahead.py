"""The limit on what is read ahead for one client, over all its topics."""

from __future__ import annotations

import asyncio

READ_AHEAD_BYTES = 256 * 1024  # the frame that reaches it still fits, whatever its size
READERS = 2  # topics of one client whose history is read at the same time: each holds an event or a page


class ReadAhead:
    """The bytes that wait for a client. Every subscription of the client adds its own."""

    def __init__(self, most_bytes: int = READ_AHEAD_BYTES, readers: int = READERS) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._readers = asyncio.Semaphore(readers)
        self._has_room = asyncio.Event()
        self._has_room.set()

    @property
    def is_full(self) -> bool:
        return self._bytes >= self._most_bytes

    def add(self, size: int) -> None:
        """Change the number of bytes that wait."""
        self._bytes += size
        if self.is_full:
            self._has_room.clear()
        else:
            self._has_room.set()

    async def room(self) -> None:
        """Wait until there is room."""
        await self._has_room.wait()

    async def begin(self) -> None:
        """Wait for a reader's turn and for room; `end` gives the turn back."""
        while True:
            await self._has_room.wait()
            await self._readers.acquire()
            if not self.is_full:
                return
            self._readers.release()

    def end(self) -> None:
        self._readers.release()

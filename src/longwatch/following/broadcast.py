"""Broadcasts: one task fills a bounded buffer, and any number of readers consume it at their own pace."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

RETAINED_ITEMS = 1_000
RETAINED_BYTES = 512 * 1024  # a reader that falls further behind resumes from the journal
TAKEN_ITEMS = 256  # at once
TAKEN_BYTES = 128 * 1024
LINGER_SECONDS = 5.0  # without readers: a long poll comes back, a page is reloaded

log = logging.getLogger("longwatch.following")

T = TypeVar("T")


class Lagged(Exception):
    """A reader was so slow that the next `count` items for it are no longer in the buffer."""

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(count)


class Broadcast(Generic[T]):
    """Items at positions that only grow. The oldest are dropped when there are too many, or too many bytes.

    A cursor names what its holder has seen, so that a reader can resume at the position after it. Belongs to
    one event loop.
    """

    def __init__(
        self,
        cursor: str,
        *,
        size: Callable[[T], int],
        retain_items: int = RETAINED_ITEMS,
        retain_bytes: int = RETAINED_BYTES,
    ) -> None:
        self.cursor = cursor  # after the last item
        self.end = 0  # the position of the next item
        self.is_closed = False  # nothing more is published
        self.is_finished = False  # because the source ended; otherwise the broadcast broke off
        self._size = size
        self._retain_items = retain_items
        self._retain_bytes = retain_bytes
        self._items: list[T] = []
        self._bytes = 0
        self._positions: dict[str, int] = {cursor: 0}  # of the first item past a cursor
        self._cursors = [cursor]  # before each item, then the current one
        self._readers: dict[Reader[T], None] = {}
        self._is_notifying = False
        self._task: asyncio.Task[None] | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._linger_seconds = LINGER_SECONDS
        self._on_close: Callable[[], None] = lambda: None

    @property
    def begin(self) -> int:
        """The position of the oldest item."""
        return self.end - len(self._items)

    @property
    def readers(self) -> int:
        """How many readers are subscribed."""
        return len(self._readers)

    def publish(self, item: T, cursor: str | None = None) -> None:
        """Add an item. One without a cursor is read again by a reader that resumes at the cursor before."""
        self._items.append(item)
        self._bytes += self._size(item)
        self.end += 1
        if cursor is not None:
            self.cursor = cursor
        self._positions.setdefault(self.cursor, self.end)
        self._cursors.append(self.cursor)
        if len(self._items) > 2 * self._retain_items or self._bytes > self._retain_bytes:
            self._trim()
        if self._readers and not self._is_notifying:
            # Once for everything that is published in this turn of the loop.
            self._is_notifying = True
            asyncio.get_running_loop().call_soon(self._notify)

    def advance(self, cursor: str) -> None:
        """Move the cursor without an item."""
        if cursor != self.cursor:
            self.cursor = self._cursors[-1] = cursor
            self._positions.setdefault(cursor, self.end)

    def position_of(self, cursor: str) -> int | None:
        """The position at which the holder of this cursor resumes; None if the buffer does not have it."""
        return self._positions.get(cursor)

    def cursor_at(self, position: int) -> str:
        """The cursor of a reader that has consumed everything before this position of the buffer."""
        return self._cursors[position - self.end - 1]

    def items_from(
        self, position: int, *, items: int = TAKEN_ITEMS, max_bytes: int = TAKEN_BYTES
    ) -> Sequence[T]:
        """Items from this position on, at least one if there is one. Raises `Lagged` if they were dropped."""
        first = position - self.begin
        if first < 0:
            raise Lagged(-first)
        found = self._items[first : first + items]
        total = 0
        for count, item in enumerate(found):
            total += self._size(item)
            if total > max_bytes and count:
                return found[:count]
        return found

    def all_from(self, position: int) -> Sequence[T]:
        """Every item from this position on."""
        return self.items_from(position, items=len(self._items), max_bytes=self._bytes)

    def subscribe(self, on_items: Callable[[], None], position: int | None = None) -> Reader[T]:
        """Read from this position, or the end. `on_items` is called after each publication and the end."""
        reader = Reader(self, on_items, self.end if position is None else position)
        self._readers[reader] = None
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        return reader

    def unsubscribe(self, reader: Reader[T]) -> None:
        """Called by the reader when it is closed."""
        self._readers.pop(reader, None)
        if not self._readers and not self.is_closed:
            self._linger()

    def start(
        self, fill: Awaitable[None], *, name: str, linger_seconds: float, on_close: Callable[[], None]
    ) -> None:
        """Let a task publish until it returns, fails, or there was no reader for a while."""
        self._linger_seconds, self._on_close = linger_seconds, on_close
        self._task = asyncio.get_running_loop().create_task(self._run(fill, name), name=f"longwatch-{name}")
        self._linger()

    async def _run(self, fill: Awaitable[None], name: str) -> None:
        try:
            await fill
            self.is_finished = True
        except Exception:
            log.exception("the broadcast of %s failed; its readers start again", name)
        finally:
            self.close()

    def close(self) -> None:
        """Publish nothing more. Readers consume the rest of the buffer, and then see `is_closed`."""
        if self.is_closed:
            return
        self.is_closed = True
        self._on_close()
        if self._lingering is not None:
            self._lingering.cancel()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
        self._notify()

    def _linger(self) -> None:
        if self._task is not None and self._lingering is None:
            loop = asyncio.get_running_loop()
            self._lingering = loop.call_later(self._linger_seconds, self.close)

    def _notify(self) -> None:
        self._is_notifying = False
        for reader in list(self._readers):
            reader.on_items()

    def _trim(self) -> None:
        """Drop the oldest items. The newest always stays."""
        count = max(0, len(self._items) - self._retain_items)
        left = self._bytes - sum(map(self._size, self._items[:count]))
        while left > self._retain_bytes // 2 and count < len(self._items) - 1:
            left -= self._size(self._items[count])
            count += 1
        del self._items[:count]
        for cursor in self._cursors[:count]:
            if self._positions.get(cursor, self.end) < self.begin:
                del self._positions[cursor]
        del self._cursors[:count]
        self._bytes = left


class Reader(Generic[T]):
    """One subscriber's position in a broadcast."""

    __slots__ = ("broadcast", "on_items", "position")

    def __init__(self, broadcast: Broadcast[T], on_items: Callable[[], None], position: int) -> None:
        self.broadcast = broadcast
        self.on_items = on_items
        self.position = position

    @property
    def cursor(self) -> str:
        """What this reader has seen."""
        return self.broadcast.cursor_at(self.position)

    @property
    def is_at_end(self) -> bool:
        """Whether everything that was published is consumed."""
        return self.position == self.broadcast.end

    def take(self) -> Sequence[T]:
        """Consume the next items; none if there are none. Raises `Lagged` if they were dropped."""
        found = self.broadcast.items_from(self.position)
        self.position += len(found)
        return found

    def close(self) -> None:
        """End the subscription."""
        self.broadcast.unsubscribe(self)


B = TypeVar("B", bound=Broadcast[Any])


class Broadcasts(Generic[B]):
    """The broadcasts of a process by key. `make` creates one that starts at a cursor."""

    def __init__(self, make: Callable[[str], B], *, linger_seconds: float = LINGER_SECONDS) -> None:
        self.make = make
        self.linger_seconds = linger_seconds
        self._by_key: dict[Hashable, B] = {}

    def get(self, key: Hashable) -> B | None:
        """The open broadcast of this key."""
        return self._by_key.get(key)

    def start(self, key: Hashable, cursor: str, fill: Callable[[B], Awaitable[None]]) -> B:
        """A new broadcast that `fill` publishes to."""
        broadcast = self._by_key[key] = self.make(cursor)

        def forget() -> None:
            if self._by_key.get(key) is broadcast:
                del self._by_key[key]

        broadcast.start(fill(broadcast), name=f"{key}", linger_seconds=self.linger_seconds, on_close=forget)
        return broadcast

    def close(self) -> None:
        """Close every broadcast."""
        for broadcast in list(self._by_key.values()):
            broadcast.close()

    def __len__(self) -> int:
        return len(self._by_key)

"""Projections: one task reads what was written to a store, for everything in a server that shows it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from longwatch.errors import LongwatchError
from longwatch.polling.backoff import JOURNAL_BACKOFF, after_failure
from longwatch.server.change_waiter import ChangeWaiter
from longwatch.storage.change_signal import ChangeSignal, OnChange

COALESCE_SECONDS = 0.25  # between two batches: a record that is written often is read a few times a second

K = TypeVar("K")
T = TypeVar("T")

log = logging.getLogger("longwatch.server")


class RunInThread(Protocol):
    """Calls a blocking function in a thread."""

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Awaitable[Any]: ...


@dataclass(frozen=True, slots=True)
class Batch(Generic[K, T]):
    """The records that one read found changed."""

    records: Mapping[K, T]
    cursor: str  # after them
    wait_seconds: float | None = 0.0  # until the next read, unless a change is reported; None: no limit


class RecordSource(Protocol[K, T]):
    """A store of records as a projection reads it. The calls block; a thread makes them, one at a time."""

    name: str  # in the log

    def subscribe(self, on_change: OnChange) -> ChangeSignal:
        """Report writes."""

    def start(self) -> Batch[K, T]:
        """No records, and the cursor of this moment."""

    def read(self, after: str) -> Batch[K, T]:
        """What was written past this cursor. A source without a change signal limits the wait."""


class Projection(Generic[K, T]):
    """Reads a source while it has readers. Belongs to one event loop.

    A read that fails is retried. If a retry does not help, the readers get the error, unless the projection
    `keeps_trying`: then only readers that wait for the first read do.
    """

    def __init__(
        self,
        source: RecordSource[K, T],
        call: RunInThread,
        *,
        coalesce_seconds: float = COALESCE_SECONDS,
        settle_seconds: float = 0.0,  # after a change is reported: one read for several of them
        linger_seconds: float = 0.0,  # without readers
        keeps_trying: bool = False,
    ) -> None:
        self.is_away = False  # the store could not be read the last time
        self._source = source
        self._call = call
        self._coalesce_seconds = coalesce_seconds
        self._settle_seconds = settle_seconds
        self._linger_seconds = linger_seconds
        self._keeps_trying = keeps_trying
        self._cursor: str | None = None  # None: not started
        self._readers: dict[ProjectionReader[K, T], None] = {}
        self._task: asyncio.Task[None] | None = None
        self._lingering: asyncio.TimerHandle | None = None

    @property
    def is_running(self) -> bool:
        """Whether the store is being read."""
        return self._task is not None

    @property
    def keys(self) -> Iterable[K]:
        """The keys of the readers that want one record each."""
        return {reader.key for reader in list(self._readers) if reader.key is not None}

    def subscribe(self, key: K | None = None) -> ProjectionReader[K, T]:
        """Read what is written from now on: every batch, or those with the record of one key."""
        reader = ProjectionReader(self, key)
        self._readers[reader] = None
        if self._cursor is not None:
            reader.start(self._cursor)
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        if self._task is None:
            name = f"longwatch-projection {self._source.name}"
            self._task = asyncio.get_running_loop().create_task(self._run(), name=name)
        return reader

    def unsubscribe(self, reader: ProjectionReader[K, T]) -> None:
        """Called by the reader when it is closed."""
        self._readers.pop(reader, None)
        if not self._readers and self._task is not None and self._lingering is None:
            loop = asyncio.get_running_loop()
            self._lingering = loop.call_later(self._linger_seconds, self.close)

    def close(self) -> None:
        """Stop reading."""
        if self._lingering is not None:
            self._lingering.cancel()
        if self._task is not None:
            self._task.cancel()
        self._task = self._lingering = self._cursor = None
        self.is_away = False

    async def _run(self) -> None:
        backoff = JOURNAL_BACKOFF
        while True:
            try:
                async with ChangeWaiter.open(self._source.subscribe, self._call) as changes:
                    while True:
                        batch: Batch[K, T] = await self._call(self._read)
                        backoff, self.is_away = JOURNAL_BACKOFF, False
                        self._publish(batch)
                        if batch.records:
                            await asyncio.sleep(self._coalesce_seconds)
                        if await changes.wait(batch.wait_seconds) and not batch.records:
                            await asyncio.sleep(self._settle_seconds)
            except LongwatchError as error:
                later = after_failure(backoff, error)
                self.is_away = later is not None
                if later is None and self._keeps_trying and self._cursor is not None:
                    later = backoff.failed()
                if later is None:
                    for reader in list(self._readers):
                        reader.fail(error)
                    self.close()
                    return
                backoff = later
                log.warning(
                    "%s cannot be read, next try in %g s: %s", self._source.name, backoff.delay, error
                )
                await asyncio.sleep(backoff.delay or 0.0)

    def _read(self) -> Batch[K, T]:
        return self._source.start() if self._cursor is None else self._source.read(self._cursor)

    def _publish(self, batch: Batch[K, T]) -> None:
        self._cursor = batch.cursor
        for reader in self._readers:
            reader.start(batch.cursor)
            if batch.records and (reader.key is None or reader.key in batch.records):
                reader.put(batch)


class ProjectionReader(Generic[K, T]):
    """Receives the batches of a projection, from the cursor at which it started."""

    def __init__(self, projection: Projection[K, T], key: K | None) -> None:
        self.key = key
        self._projection = projection
        self._batches: asyncio.Queue[Batch[K, T] | LongwatchError] = asyncio.Queue()
        self._cursor: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def started(self) -> str:
        """The cursor before the first batch. Raises the error of a source that cannot be read."""
        return await asyncio.shield(self._cursor)

    async def next(self) -> Batch[K, T]:
        """The next batch. Raises the error of a source that can no longer be read."""
        found = await self._batches.get()
        if isinstance(found, LongwatchError):
            raise found
        return found

    def start(self, cursor: str) -> None:
        if not self._cursor.done():
            self._cursor.set_result(cursor)

    def put(self, batch: Batch[K, T]) -> None:
        self._batches.put_nowait(batch)

    def fail(self, error: LongwatchError) -> None:
        if not self._cursor.done():
            self._cursor.set_exception(error)
            self._cursor.exception()  # the reader may be closed already
        self._batches.put_nowait(error)

    def close(self) -> None:
        """Receive nothing more."""
        self._projection.unsubscribe(self)

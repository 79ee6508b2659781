"""Stores each event once with conditional puts, several in parallel.

`key_placement` defines the keys of an event. A put is always safe to repeat, so a put that timed out is
retried. The appender uses its own daemon threads: a `ThreadPoolExecutor` accepts no work once the main thread
has ended, which is when a recorder has the most to store. `close` waits for the batches that use the threads.
A batch that starts in the meantime, or while the interpreter finalizes and its threads are stopped, runs in
the thread of its caller.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue

from longwatch.errors import InvalidEvent
from longwatch.journal.codec import same_content
from longwatch.journal.dynamodb.key_placement import MAX_PROBES, OccupiedKeys, keys_of
from longwatch.journal.dynamodb.layout import Layout
from longwatch.journal.dynamodb.table import Table
from longwatch.model.event import Event
from longwatch.storage.dynamodb.values import MAX_ITEM_BYTES, AttributeMap, size_of

PUTS_IN_FLIGHT = 8
SIZE_ALLOWANCE = 512  # bytes for the sort key, which is added later, and for differences in counting

KeySlot = tuple[str, int]
"""A run and a key in epoch ms."""


class TableAppender:
    """Stores batches of events. Thread-safe."""

    def __init__(self, table: Table, layout: Layout, *, in_flight: int = PUTS_IN_FLIGHT) -> None:
        self._table = table
        self._layout = layout
        self._in_flight = in_flight
        self._reset()

    def _reset(self) -> None:
        """Start with an empty cache and without threads; a forked process does so again."""
        self._process = os.getpid()
        self._occupied = OccupiedKeys()
        self._threads: list[threading.Thread] = []
        self._work: SimpleQueue[tuple[_AppendBatch, _Search] | None] = SimpleQueue()
        self._changed = threading.Condition()
        self._threaded_batches = 0
        self._is_closing = False

    def append(self, events: Sequence[Event]) -> list[str]:
        """Store each event once; return the IDs that are in use by events with other content.

        If the table is unavailable, starts no further put, waits for those in flight and raises the error.
        """
        if self._process != os.getpid():
            self._reset()
        searches = [self._search(event) for event in events]
        batch = _AppendBatch()
        for search in searches:
            self._plan(batch, search)
        if len(searches) > 1 and self._enter_threads():
            try:
                self._run_in_threads(batch)
            finally:
                self._leave_threads()
        else:
            self._run_here(batch)
        if batch.error is not None:
            raise batch.error
        return batch.conflicts

    def close(self) -> None:
        """Wait for the batches that use the threads, and end the threads."""
        if self._process != os.getpid() or sys.is_finalizing():
            return
        with self._changed:
            self._is_closing = True
            try:
                self._changed.wait_for(lambda: not self._threaded_batches)
            finally:
                self._is_closing = False
            threads, self._threads = self._threads, []
        for _ in threads:
            self._work.put(None)
        for thread in threads:
            thread.join()

    def _search(self, event: Event) -> _Search:
        item = self._layout.encode_event(event)
        size = size_of(item) + SIZE_ALLOWANCE
        if size > MAX_ITEM_BYTES:
            raise InvalidEvent(
                f"event {event.event_id} ({event.type}) is {size:,} bytes as a DynamoDB item; the limit is "
                f"{MAX_ITEM_BYTES:,}. Shorten its payload."
            )
        return _Search(event, item)

    def _plan(self, batch: _AppendBatch, search: _Search) -> None:
        """Choose the first key that may be free or hold the event itself.

        A key that is planned for another event of the batch is skipped only once that event has it; until
        then the search waits.
        """
        event = search.event
        blocked: KeySlot | None = None
        for key_ms in keys_of(event):
            if self._occupied.is_taken_by_another(event.run_id, key_ms, event.event_id):
                continue
            slot = (event.run_id, key_ms)
            if batch.planned.get(slot, search) is search:
                self._reserve(batch, search, key_ms)
                break
            blocked = slot  # the last of them, which is usually the last to be taken
        else:
            batch.error = batch.error or InvalidEvent(
                f"event {event.event_id} found no free key in run {event.run_id!r} after {MAX_PROBES} "
                f"attempts: too many of its events share the time {event.occurred_at}. Use distinct times."
            )
            return
        if blocked is None:
            batch.ready.append(search)
        else:
            batch.waiting.setdefault(blocked, []).append(search)

    def _reserve(self, batch: _AppendBatch, search: _Search, key_ms: int) -> None:
        before = search.slot
        search.key_ms = key_ms
        batch.planned[search.slot] = search
        if before != search.slot and batch.planned.get(before) is search:
            self._release(batch, before)

    def _release(self, batch: _AppendBatch, slot: KeySlot) -> None:
        """The key is no longer planned, whether taken or free: plan the searches again that waited for it."""
        batch.planned.pop(slot, None)
        for search in batch.waiting.pop(slot, []):
            self._plan(batch, search)

    def _run_here(self, batch: _AppendBatch) -> None:
        while batch.error is None and (search := self._next(batch)) is not None:
            self._land(batch, self._outcome(search))

    def _run_in_threads(self, batch: _AppendBatch) -> None:
        in_flight = 0
        while True:
            while batch.error is None and in_flight < self._in_flight:
                search = self._next(batch, is_busy=in_flight > 0)
                if search is None:
                    break
                self._work.put((batch, search))
                in_flight += 1
            if not in_flight:
                return
            self._land(batch, batch.done.get())
            in_flight -= 1

    def _land(self, batch: _AppendBatch, outcome: _AppendOutcome) -> None:
        if isinstance(outcome.found, Exception):
            batch.error = batch.error or outcome.found
        else:
            self._settle(batch, outcome.search, outcome.found)

    def _enter_threads(self) -> bool:
        """Start a batch in the threads; False if there are none, so that the caller runs it."""
        # Checked without the lock: a thread that finalization stopped may hold it.
        if sys.is_finalizing():
            return False
        with self._changed:
            if self._is_closing:
                return False
            try:
                while len(self._threads) < self._in_flight:
                    thread = threading.Thread(target=self._put_all, name="longwatch-put", daemon=True)
                    thread.start()
                    self._threads.append(thread)
            except RuntimeError:  # the interpreter starts no more threads
                pass
            self._threaded_batches += bool(self._threads)
            return bool(self._threads)

    def _leave_threads(self) -> None:
        with self._changed:
            self._threaded_batches -= 1
            self._changed.notify_all()

    def _put_all(self) -> None:
        work = self._work
        while (task := work.get()) is not None:
            batch, search = task
            batch.done.put(self._outcome(search))

    def _outcome(self, search: _Search) -> _AppendOutcome:
        try:
            return _AppendOutcome(search, self._put(search))
        except Exception as error:  # noqa: BLE001 - raised by `append`, in the thread that called it
            return _AppendOutcome(search, error)

    def _next(self, batch: _AppendBatch, *, is_busy: bool = False) -> _Search | None:
        """The next search to put, if any is ready."""
        if batch.ready:
            return batch.ready.popleft()
        if is_busy or not batch.waiting:
            return None
        # All wait for each other, which crossing jumps can cause. Then one of them tries the first key that
        # is not in the cache of occupied keys, even if it is planned for another; the rule always permits
        # that.
        slot, searches = next(iter(batch.waiting.items()))
        search = searches.pop()
        if not searches:
            del batch.waiting[slot]
        if batch.planned.get(search.slot) is search:
            del batch.planned[search.slot]
        event = search.event
        search.key_ms = next(
            key_ms
            for key_ms in keys_of(event)
            if not self._occupied.is_taken_by_another(event.run_id, key_ms, event.event_id)
        )
        return search

    def _put(self, search: _Search) -> AttributeMap | None:
        return self._table.put(
            self._layout.with_key(search.item, search.event, search.key_ms), self._layout.key_is_free
        )

    def _settle(self, batch: _AppendBatch, search: _Search, found: AttributeMap | None) -> None:
        """Handle the response to a put: the event is stored, was stored before, or tries its next key."""
        event, slot = search.event, search.slot
        holder = event if found is None else self._layout.read_event(found, event.run_id).event
        self._occupied.add(event.run_id, search.key_ms, holder.event_id)
        if holder.event_id != event.event_id:
            self._plan(batch, search)
        elif holder is not event and not same_content(holder, self._as_stored(search)):
            batch.conflicts.append(event.event_id)
        if batch.planned.get(slot) is search:
            self._release(batch, slot)

    def _as_stored(self, search: _Search) -> Event:
        """The event as it would be read back: a Decimal that equals a float is read as that float."""
        item = self._layout.with_key(search.item, search.event, search.key_ms)
        return self._layout.read_event(item, search.event.run_id).event


@dataclass(slots=True)
class _Search:
    """An event and the key that it tries next."""

    event: Event
    item: AttributeMap
    key_ms: int = -1

    @property
    def slot(self) -> KeySlot:
        return self.event.run_id, self.key_ms


@dataclass(frozen=True, slots=True)
class _AppendOutcome:
    """The result of one put: None (stored), the item under that key, or an error."""

    search: _Search
    found: AttributeMap | Exception | None


@dataclass(slots=True)
class _AppendBatch:
    """The pending searches of one `append`, and the results of the others."""

    ready: deque[_Search] = field(default_factory=deque)
    planned: dict[KeySlot, _Search] = field(default_factory=dict)  # keys planned for events of the batch
    waiting: dict[KeySlot, list[_Search]] = field(default_factory=dict)  # for such a key to be taken
    done: SimpleQueue[_AppendOutcome] = field(default_factory=SimpleQueue)
    conflicts: list[str] = field(default_factory=list)
    error: Exception | None = None

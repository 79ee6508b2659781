"""Puts events into a table with nothing but conditional puts, several at a time, each event once.

Where an event goes is the rule of `places`. A put is always safe to repeat, so one that timed out is simply
made again. The threads are daemons of this module's own: a `ThreadPoolExecutor` takes no more work once the
main thread has ended, which is when a recorder has the most to store. `close` waits for the batches that use
the threads; a batch that begins meanwhile, or while the interpreter finalizes and its threads stand still, is
put by its caller.
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
from longwatch.journal.dynamodb.key_placement import MAX_PROBES, TakenPlaces, places_of
from longwatch.journal.dynamodb.layout import Layout
from longwatch.journal.dynamodb.table import Table
from longwatch.model.event import Event
from longwatch.storage.dynamodb.values import MAX_ITEM_BYTES, AttributeMap, size_of

PUTS_IN_FLIGHT = 8
SIZE_ALLOWANCE = (
    512  # bytes for the sort key, which comes with the place, and for counting a little otherwise
)

Spot = tuple[str, int]
"""A run and a place in it."""


class TableAppender:
    """Stores batches of events. Threads may share it."""

    def __init__(self, table: Table, layout: Layout, *, in_flight: int = PUTS_IN_FLIGHT) -> None:
        self._table = table
        self._layout = layout
        self._in_flight = in_flight
        self._start()

    def _start(self) -> None:
        """Begin without knowledge or threads; a forked process does it again, for it has none of ours."""
        self._process = os.getpid()
        self._taken = TakenPlaces()
        self._threads: list[threading.Thread] = []
        self._work: SimpleQueue[tuple[_AppendBatch, _Search] | None] = SimpleQueue()
        self._changed = threading.Condition()
        self._threaded_batches = 0
        self._is_closing = False

    def append(self, events: Sequence[Event]) -> list[str]:
        """Store each event once; return the ids that already name other content.

        If the store does not answer, no further put is begun, those on their way are waited for, and the
        error is raised.
        """
        if self._process != os.getpid():
            self._start()
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
        item = self._layout.item(event)
        size = size_of(item) + SIZE_ALLOWANCE
        if size > MAX_ITEM_BYTES:
            raise InvalidEvent(
                f"event {event.event_id} ({event.type}) is {size:,} bytes as a DynamoDB item; the limit is "
                f"{MAX_ITEM_BYTES:,}. Shorten its payload."
            )
        return _Search(event, item)

    def _plan(self, batch: _AppendBatch, search: _Search) -> None:
        """Choose the first place that may be free or the event's own, leaving those that others are to have.

        A place meant for another event of the batch is only passed by once that one has got it; until then
        the search waits.
        """
        event = search.event
        blocked: Spot | None = None
        for place in places_of(event):
            if self._taken.taken_by_another(event.run_id, place, event.event_id):
                continue
            spot = (event.run_id, place)
            if batch.planned.get(spot, search) is search:
                self._reserve(batch, search, place)
                break
            blocked = spot  # the last of them, which is mostly the last to be taken
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

    def _reserve(self, batch: _AppendBatch, search: _Search, place: int) -> None:
        before = search.spot
        search.place = place
        batch.planned[search.spot] = search
        if before != search.spot and batch.planned.get(before) is search:
            self._release(batch, before)

    def _release(self, batch: _AppendBatch, spot: Spot) -> None:
        """Nobody is to have this place any more: it is taken, or it is free. Those that waited look again."""
        batch.planned.pop(spot, None)
        for search in batch.waiting.pop(spot, []):
            self._plan(batch, search)

    def _run_here(self, batch: _AppendBatch) -> None:
        while batch.error is None and (search := self._next(batch)) is not None:
            self._land(batch, self._outcome(search))

    def _run_in_threads(self, batch: _AppendBatch) -> None:
        in_flight = 0
        while True:
            while batch.error is None and in_flight < self._in_flight:
                search = self._next(batch, others_fly=in_flight > 0)
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
        """Begin a batch in the threads. False: there are none to be had, so the caller has to put it."""
        # Checked without the lock: a thread that the finalization stopped may hold it.
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

    def _next(self, batch: _AppendBatch, *, others_fly: bool = False) -> _Search | None:
        """The next search to put, if one can be now."""
        if batch.ready:
            return batch.ready.popleft()
        if others_fly or not batch.waiting:
            return None
        # All wait for each other, as jumps that cross can make them. Then one of them tries the first place
        # that is not known to be taken, whoever was to have it; that is always within the rule.
        spot, searches = next(iter(batch.waiting.items()))
        search = searches.pop()
        if not searches:
            del batch.waiting[spot]
        if batch.planned.get(search.spot) is search:
            del batch.planned[search.spot]
        event = search.event
        search.place = next(
            place
            for place in places_of(event)
            if not self._taken.taken_by_another(event.run_id, place, event.event_id)
        )
        return search

    def _put(self, search: _Search) -> AttributeMap | None:
        return self._table.put(
            self._layout.placed(search.item, search.event, search.place), self._layout.free
        )

    def _settle(self, batch: _AppendBatch, search: _Search, found: AttributeMap | None) -> None:
        """One put was answered: the event is stored, was stored before, or has to look further."""
        event, spot = search.event, search.spot
        holder = event if found is None else self._layout.stored(found, event.run_id).event
        self._taken.add(event.run_id, search.place, holder.event_id)
        if holder.event_id != event.event_id:
            self._plan(batch, search)
        elif holder is not event and not same_content(holder, self._as_stored(search)):
            batch.conflicts.append(event.event_id)
        if batch.planned.get(spot) is search:
            self._release(batch, spot)

    def _as_stored(self, search: _Search) -> Event:
        """The event as it would be read back: a Decimal that is a float's very number comes back as one."""
        item = self._layout.placed(search.item, search.event, search.place)
        return self._layout.stored(item, search.event.run_id).event


@dataclass(slots=True)
class _Search:
    """An event on its way to a place."""

    event: Event
    item: AttributeMap
    place: int = -1

    @property
    def spot(self) -> Spot:
        return self.event.run_id, self.place


@dataclass(frozen=True, slots=True)
class _AppendOutcome:
    """What the table answered to one put: None (stored), the item in that place, or an error."""

    search: _Search
    found: AttributeMap | Exception | None


@dataclass(slots=True)
class _AppendBatch:
    """What one `append` has still to do, and what came of the rest."""

    ready: deque[_Search] = field(default_factory=deque)
    planned: dict[Spot, _Search] = field(
        default_factory=dict
    )  # places that are to hold an event of the batch
    waiting: dict[Spot, list[_Search]] = field(default_factory=dict)  # for such a place to be taken
    done: SimpleQueue[_AppendOutcome] = field(default_factory=SimpleQueue)
    conflicts: list[str] = field(default_factory=list)
    error: Exception | None = None

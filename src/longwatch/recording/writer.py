"""The writer: numbers the queued events and delivers them in groups.

A group is what has gathered while the previous group was being stored, so an idle writer stores at once and a
busy one stores many events in one transaction.

A journal may respond more slowly than an exiting process can wait. Then another thread calls `hand_over`: the
events that the journal has not acknowledged go to the outbox, and the writer stops at its next step. For
that, every item is always in one of four states: queued, in `_group`, in `_numbered`, or accepted by the
delivery and not acknowledged.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from longwatch.clock import Clock
from longwatch.errors import WorthAnotherTry
from longwatch.journal.base import Heartbeats, Journal
from longwatch.model.event import Event
from longwatch.recording import lifecycle
from longwatch.recording.delivery import Delivery
from longwatch.recording.membership import Membership
from longwatch.recording.producers import Producers, encode_event
from longwatch.recording.queue import LARGE_BYTES, Backpressure, CloseRun, Flush, drain_queue, weight_of
from longwatch.recording.scope import EventDraft
from longwatch.settings import Settings, lifetime_seconds

log = logging.getLogger("longwatch")

GROUP_EVENTS = 4_000  # one fsync for all of them; other writers wait that long at most
# While many events arrive, the writer pauses between groups and yields the interpreter within them, so that
# it does not take half of the CPU time from the observed code; not during a flush, nor when half of the queue
# is full.
BUSY_EVENTS = 100
REST_SECONDS = 0.01
HELD_RETRY_SECONDS = 0.5
CLOSING_SHIP_SECONDS = 1.0
HANDOVER_SECONDS = 1.0  # for the writer to finish the items it is turning into events
NUMBERED_AT_ONCE = 200  # items, about 1 ms of work; then the observed code and `hand_over` get a chance
HANDOVER_CHECK_SECONDS = 0.001

QueuedItem = EventDraft | Event | Flush | CloseRun


@dataclass(frozen=True, slots=True)
class Leftover:
    """What a replaced writer has not delivered: its events, and the closing events of its producers."""

    events: list[Event]
    closing: list[Event]
    is_durable: bool  # in the outbox


class Writer:
    """Stores what comes through one queue. `work` runs in one thread; another may call `hand_over`."""

    def __init__(
        self,
        queue: SimpleQueue[QueuedItem],
        hurry: SimpleQueue[None],
        backpressure: Backpressure,
        delivery: Delivery,
        *,
        membership: Membership,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self.delivery = delivery
        self.producers = Producers(
            max_payload_bytes=settings.max_payload_bytes, join_fields=membership.join_fields
        )
        self._heartbeat = Heartbeat(
            lambda: membership.process.id, seconds=settings.heartbeat_seconds, clock=clock
        )
        self.running = threading.Lock()  # held while `work` runs: there is never more than one writer
        self.storing = threading.Lock()  # held while a group is stored, and across a fork
        self.is_replaced = False
        self._queue = queue
        self._hurry = hurry
        self._backpressure = backpressure
        self._settings = settings
        self._clock = clock
        self._is_busy = False
        self._is_hurried = False  # a flush ended the pause before this group
        self._is_taking = False  # an item may be out of the queue and not yet in `_group`
        self._group: deque[QueuedItem] = deque()
        self._numbered: list[Event] = []
        self._numbering = threading.RLock()  # guards the two above and the producers
        self._markers_completed = 0

    def work(self, *, inline: bool = False) -> bool:
        """Store groups until the recorder closes. `inline`: only what is queued, in the calling thread.

        False: another thread is the writer, and checks the queue once more before it ends.
        """
        if not self.running.acquire(blocking=not inline):
            return False
        try:
            while self._work_on_group(inline=inline):
                if self._is_busy and not inline:
                    self._rest()
        finally:
            self.running.release()
            if self.is_replaced:
                self._end_delivery(ship=False)
        return True

    def hand_over(self, *, use_outbox: bool = True) -> Leftover:
        """Put what the journal has not acknowledged in the outbox, and stop the writer."""
        self.is_replaced = True
        deadline = self._clock.monotonic() + HANDOVER_SECONDS
        self._await_taking(deadline)
        has_lock = self._numbering.acquire(timeout=max(0.0, deadline - self._clock.monotonic()))
        try:
            markers: list[Flush] = []
            ttl = self._cached_ttl_seconds()
            self._group.extend(self._queued())
            while self._group:
                self._number_next(markers, ttl)
            self.delivery.accept(self._numbered)
            self._numbered = []
            left = self.delivery.abandon()
            closing = self.producers.close_all(self._clock.now_ms(), ttl_seconds=ttl)
        finally:
            if has_lock:
                self._numbering.release()
        is_durable = not (left or closing) or (use_outbox and self.delivery.leave(left, closing))
        self._complete_markers(markers, is_durable)
        return Leftover(left, closing, is_durable)

    def unfinished(self, markers_queued: int) -> int:
        """The number of events that are queued or being numbered, given the number of queued markers."""
        waiting = self._queue.qsize() - (markers_queued - self._markers_completed)
        return max(0, waiting + len(self._group)) + len(self._numbered)

    def _work_on_group(self, *, inline: bool) -> bool:
        """Store one group and wake the callers that wait for it. False: it was the last one."""
        self._take_group(wait=not inline)
        markers: list[Flush] = []
        with self.storing:
            size = len(self._group)
            durable = self._store(markers, hold=not inline)
            if self.is_replaced:
                self._complete_markers(markers, durable)
                return False
            closing = any(marker.close for marker in markers)
            if closing:
                self._end_delivery()
            self._complete_markers(markers, durable)
            if not (closing or inline):
                self.delivery.ship()
                journal = self.delivery.reachable_journal
                self._heartbeat.update(journal, runs_are_open=self.producers.are_open)
        self._is_hurried = False
        self._is_busy = size >= BUSY_EVENTS and self._has_time()
        if inline:
            return bool(size) and durable and not closing
        return not closing

    def _complete_markers(self, markers: list[Flush], durable: bool) -> None:
        if markers:
            drain_queue(self._hurry)
        for marker in markers:
            marker.complete(durable)

    def _take_group(self, *, wait: bool) -> None:
        """Take the queued items; wait for the first one, or until the outbox or a heartbeat is due."""
        due = [self.delivery.seconds_until_shipping(), self._heartbeat.seconds_left()]
        seconds = min((each for each in due if each is not None), default=None)
        queue, group = self._queue, self._group
        self._is_taking = True
        try:
            group.append(queue.get(wait, seconds))
            while len(group) < GROUP_EVENTS:
                group.append(queue.get_nowait())
        except Empty:
            pass
        finally:
            self._is_taking = False

    def _store(self, markers: list[Flush], *, hold: bool) -> bool:
        """Number the events of the group and deliver them; `markers` collects its flush markers."""
        count = len(self._group)
        try:
            self._number_group(markers)
            within = lifecycle.seconds_left(self._settings.exit_timeout_seconds) > 0
            durable = self.delivery.deliver(use_journal=within)
            while hold and not durable and not self.is_replaced:
                self._clock.sleep(HELD_RETRY_SECONDS)  # meanwhile the queue fills, and callers wait
                durable = self.delivery.deliver()
        except Exception as error:  # without this thread nothing more would be recorded
            log.exception("longwatch: %d events were lost to a bug in longwatch", count)
            self._give_up(repr(error))
            return False
        return durable

    def _number_group(self, markers: list[Flush]) -> None:
        ttl = self._ttl_seconds() if self._group else None
        with self._numbering:
            self._group.extend(self._drops())
        while self._group:
            with self._numbering:
                if self.is_replaced:
                    return
                for _ in range(min(len(self._group), NUMBERED_AT_ONCE)):
                    self._number_next(markers, ttl)
            if self._group and self._has_time():
                self._clock.sleep(0.0)  # otherwise this thread holds the interpreter for 5 ms at a time
        with self._numbering:
            if self.is_replaced:
                return
            self._numbered += self.producers.close_retired(self._clock.now_ms, ttl_seconds=ttl)
            if any(marker.close for marker in markers):
                self._numbered += self.producers.close_all(self._clock.now_ms(), ttl_seconds=ttl)
            self._markers_completed += len(markers)
            numbered, self._numbered = self._numbered, []
            self.delivery.accept(numbered)

    def _number_next(self, markers: list[Flush], ttl: int | None) -> None:
        item = self._group.popleft()
        try:
            if isinstance(item, EventDraft):
                if item.weight > LARGE_BYTES:
                    self._backpressure.leave(item.weight)
                self.producers.add(item, self._numbered, ttl_seconds=ttl)
            elif isinstance(item, Event):
                self._backpressure.leave(weight_of(item))
                self._numbered.append(encode_event(item))
            elif isinstance(item, CloseRun):
                self._numbered += self.producers.close_run(item.run_id, item.occurred_at, ttl_seconds=ttl)
            else:
                markers.append(item)
        except Exception as error:  # noqa: BLE001 - one bad event must not cost those beside it
            self._refuse(item, error)

    def _drops(self) -> Iterable[QueuedItem]:
        now = self._clock.now_ms()
        for run_id, count in self._backpressure.take_drops().items():
            yield EventDraft(run_id, "events_dropped", now, {"count": count})

    def _queued(self) -> Iterable[QueuedItem]:
        try:
            while True:
                yield self._queue.get_nowait()
        except Empty:
            pass

    def _await_taking(self, deadline: float) -> None:
        """Wait until the writer has taken its items; a marker in the queue keeps it from blocking."""
        while self._is_taking and self._clock.monotonic() < deadline:
            self._clock.sleep(HANDOVER_CHECK_SECONDS)

    def _refuse(self, item: QueuedItem, error: Exception) -> None:
        """Count an invalid event, and log the first one."""
        what = item.type if isinstance(item, EventDraft | Event) else "closing"
        if self.delivery.count_refused(str(error) or repr(error)) == 1:
            log.warning(
                "longwatch: invalid %s event, not recorded: %s; further ones are only counted", what, error
            )

    def _give_up(self, error: str) -> None:
        with self._numbering:
            lost = len(self._numbered) + sum(isinstance(item, EventDraft | Event) for item in self._group)
            self._numbered.clear()
            self._group.clear()
        self.delivery.give_up(lost, error)

    def _ttl_seconds(self) -> int | None:
        hours = self._settings.ttl_hours
        return lifetime_seconds(hours, self.delivery.default_ttl_seconds() if hours is None else None)

    def _cached_ttl_seconds(self) -> int | None:
        """The same without opening the journal, which may take too long."""
        hours = self._settings.ttl_hours
        return lifetime_seconds(hours, self.delivery.cached_ttl_seconds if hours is None else None)

    def _has_time(self) -> bool:
        is_hurried = self._is_hurried or not self._hurry.empty()
        return not is_hurried and self._queue.qsize() < self._settings.queue_events // 2

    def _rest(self) -> None:
        try:
            self._hurry.get(timeout=REST_SECONDS)
            self._is_hurried = True
        except Empty:
            pass

    def _end_delivery(self, *, ship: bool = True) -> None:
        try:
            if ship:
                self.delivery.ship_all(CLOSING_SHIP_SECONDS)
            self.delivery.close()
        except Exception:
            log.exception("longwatch: the journal could not be closed")


class Heartbeat:
    """Refreshes one record of this process in the journal while runs are open.

    A heartbeat narrows the interval in which a process that is gone must have ended; it never decides that
    the process is gone.
    """

    def __init__(self, process_id: Callable[[], str], *, seconds: float | None, clock: Clock) -> None:
        self._process_id = process_id
        self._seconds = seconds  # None: the interval of the journal
        self._clock = clock
        self._due: float | None = None  # None: no run is open, so nothing is sent
        # Lambda freezes a sandbox between invocations, so a missing heartbeat would mean nothing.
        self._is_on = seconds != 0 and not os.environ.get("AWS_LAMBDA_FUNCTION_NAME")

    def seconds_left(self) -> float | None:
        """How long until the next heartbeat; None while no run is open."""
        return None if self._due is None else max(0.0, self._due - self._clock.monotonic())

    def update(self, journal: Journal | None, *, runs_are_open: bool) -> None:
        """Send a heartbeat if it is due. The first one is due one interval after a run was opened.

        `journal` is None while it is unreachable; then no heartbeat is sent.
        """
        if not self._is_on or not runs_are_open:
            self._due = None
            return
        now = self._clock.monotonic()
        if self._due is not None and now < self._due:
            return
        seconds = self._seconds
        if isinstance(journal, Heartbeats):
            if self._due is not None:
                self._send(journal)
            seconds = journal.heartbeat_seconds if seconds is None else seconds
        elif journal is not None:
            self._is_on = False  # it does not store heartbeats
        self._due = now + seconds if self._is_on and seconds is not None else None

    def _send(self, journal: Heartbeats) -> None:
        try:
            journal.beat(self._process_id(), self._clock.now_ms())
        except WorthAnotherTry:
            pass  # the next heartbeat retries
        except Exception as error:  # noqa: BLE001 - events are recorded without heartbeats
            self._is_on = False
            log.warning("longwatch: the journal accepts no heartbeats, so none are sent: %s", error)

"""The recorder: the observed code only queues; one thread numbers, chains and stores in natural groups.

A group is whatever has gathered while the group before was being stored, so an idle recorder stores at once
and a busy one stores many events in one transaction. Memory is bounded: when the queue is full the caller
waits up to a quarter of a second, after that events are dropped, counted, and told of in an `events_dropped`
event as soon as there is room. A fork begins with an empty queue and new producers.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.events import Event
from longwatch.recording import lifecycle
from longwatch.recording.capture import CAPTURES, FULL, Limits, captured_fields
from longwatch.recording.marks import CloseRun, Flush, empty
from longwatch.recording.notes import Note
from longwatch.recording.producers import Producers, encoded
from longwatch.recording.redaction import SecretNames
from longwatch.recording.room import LARGE_BYTES, Room
from longwatch.settings import Settings, lifetime_seconds, load_settings

if TYPE_CHECKING:
    from longwatch.journal.base import Journal
    from longwatch.recording.delivery import Delivery

log = logging.getLogger("longwatch")

GROUP_EVENTS = 4_000  # one sync to the disk for all of them; other writers wait that long at most
# While events pour in, the writer rests between groups, so that it does not take half of the interpreter
# from the code that is observed; not when somebody waits for it, nor when a quarter of the queue is full.
BUSY_EVENTS = 100
REST_SECONDS = 0.01
HELD_RETRY_SECONDS = 0.5
CLOSING_SHIP_SECONDS = 1.0
FLUSH_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class RecorderStats:
    """What a recorder has done so far."""

    recorded: int
    stored: int
    in_outbox: int
    dropped: int
    refused: int
    failures: int
    last_error: str | None


_Item = Note | Event | Flush | CloseRun


class Recorder:
    """Writes the events of any number of runs to one journal. Safe to use from every thread."""

    def __init__(
        self,
        journal: str | Journal | None = None,
        *,
        settings: Settings | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.settings = settings if settings is not None else load_settings()
        self.clock = clock
        self.secrets = SecretNames(self.settings.redact_keys)
        self._target = journal if journal is not None else self.settings.journal
        self.interrupts: set[Callable[[str], None]] = set()  # called with a reason when a signal ends us
        self.begin_again()
        lifecycle.watch(self)

    def begin_again(self) -> None:
        """Start from nothing: at first, in a forked child, and after a restored snapshot of this process."""
        self._pid = os.getpid()
        self._lock = threading.RLock()  # a signal handler may flush while this thread holds it
        self._queue: SimpleQueue[_Item] = SimpleQueue()
        self._room = Room(self._queue.qsize, max_events=self.settings.queue_events, clock=self.clock)
        self._hurry: SimpleQueue[None] = SimpleQueue()  # somebody waits for a flush
        self._thread: threading.Thread | None = None
        self._writing = threading.Lock()  # held by whoever is the writer: there is never more than one
        self._storing = threading.Lock()  # held by the writer while it is at work, and across a fork
        self._paused_by: int | None = None
        self._is_busy = False
        self._producers = Producers(max_payload_bytes=self.settings.max_payload_bytes)
        self._delivery = self._new_delivery()
        self._marks_in = self._marks_out = 0  # counted by callers and by the writer
        self._taken = 0  # events that the writer has worked on

    def _new_delivery(self) -> Delivery:
        from longwatch.journal.opening import open_journal  # SQLite is loaded when something is recorded
        from longwatch.recording.delivery import Delivery
        from longwatch.recording.outbox import Outbox

        target, clock = self._target, self.clock
        outbox = Outbox(self.settings.outbox_path, clock=clock)
        if isinstance(target, str):
            opened = partial(open_journal, target, settings=self.settings, clock=clock)
            return Delivery(target, opened, outbox, clock=clock)
        return Delivery(target.url, lambda: target, outbox, clock=clock, close_journal=False)

    @property
    def journal_url(self) -> str:
        """Where the events go."""
        return self._target if isinstance(self._target, str) else self._target.url

    def limits(self, policy: str | None = None) -> Limits | None:
        """How much of arguments and results a capture policy keeps; None keeps nothing."""
        return CAPTURES[policy or self.settings.capture]

    def record(
        self,
        run_id: str,
        type: str,
        payload: Mapping[str, object],
        *,
        agent_name: str | None = None,
        call_id: str | None = None,
        parent_call_id: str | None = None,
        trace_id: str | None = None,
        occurred_at: int | None = None,
    ) -> None:
        """Queue an event, its payload copied as it is now."""
        copy, weight = captured_fields(payload, FULL, self.secrets)
        at = self.clock.now_ms() if occurred_at is None else occurred_at
        self.put(Note(run_id, type, at, copy, agent_name, call_id, parent_call_id, trace_id, weight))

    def put(self, note: Note) -> None:
        """Queue what the observed code handed over."""
        crowded = note.weight > LARGE_BYTES or self._queue.qsize() >= self.settings.queue_events
        if crowded and not self._room.enter(note.run_id, note.weight):
            return
        self._queue.put(note)
        if self._thread is None:
            self._start()

    def append(self, event: Event) -> None:
        """Queue an event that already has its id and numbers, as one read from a child's output."""
        weight = _weight(event)
        crowded = weight > LARGE_BYTES or self._queue.qsize() >= self.settings.queue_events
        if crowded and not self._room.enter(event.run_id, weight):
            return
        self._queue.put(event)
        if self._thread is None:
            self._start()

    def close_run(self, run_id: str) -> None:
        """This process has nothing more to say of the run: its producer states its count."""
        self._queue.put(CloseRun(run_id, self.clock.now_ms()))
        if self._thread is None:
            self._start()

    def producer_of(self, run_id: str) -> str | None:
        """The name under which this recorder's events of a run are numbered; None if there are none yet."""
        return self._producers.name_of(run_id)

    def flush(self, timeout_seconds: float = FLUSH_SECONDS) -> bool:
        """Wait until everything recorded before is durable, in the journal or in the outbox."""
        return self._is_idle() or self._pass_mark(Flush(), timeout_seconds)

    def close(self, timeout_seconds: float = FLUSH_SECONDS) -> bool:
        """State every producer's count, store everything, and end the writer thread.

        What is recorded later is stored all the same: a new thread begins, with new producers.
        """
        if self._pid != os.getpid() or (self._is_idle() and not self._producers.are_open):
            return True
        durable = self._pass_mark(Flush(close=True), timeout_seconds)
        if not durable:
            stats = self.stats()
            log.error(
                "longwatch: %d events could not be stored before the process ended: %s",
                stats.recorded - stats.stored - stats.in_outbox - stats.refused,
                stats.last_error or "the journal did not answer in time",
            )
        return durable

    def pause(self, timeout_seconds: float) -> None:
        """Before a fork: let the writer come to rest, or its child would inherit half a transaction."""
        if self._storing.acquire(timeout=timeout_seconds):
            self._paused_by = threading.get_ident()

    def resume(self) -> None:
        """After a fork, in the parent: go on, if it was this thread that paused."""
        if self._paused_by == threading.get_ident():
            self._paused_by = None
            self._storing.release()

    def stats(self) -> RecorderStats:
        """What became of the events so far."""
        tally = self._delivery.tally
        return RecorderStats(
            recorded=self._taken + max(0, self._queue.qsize() - (self._marks_in - self._marks_out)),
            stored=tally.stored,
            in_outbox=tally.in_outbox,
            dropped=self._room.dropped_total,
            refused=tally.refused,
            failures=tally.failures,
            last_error=tally.last_error,
        )

    def _is_idle(self) -> bool:
        return self._thread is None and self._queue.empty() and not self._writing.locked()

    def _pass_mark(self, mark: Flush, timeout_seconds: float) -> bool:
        self.resume()  # a signal may have come between a fork and its end
        with self._lock:
            self._marks_in += 1
        self._queue.put(mark)
        self._hurry.put(None)
        if self._thread is None:
            self._start()
        return mark.wait(timeout_seconds)

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._work, name="longwatch-recorder", daemon=True)
            try:
                if not lifecycle.is_exiting():  # nobody would wait for the thread any more
                    thread.start()
                    self._thread = thread
            except RuntimeError:  # the interpreter is going down, or the system has no thread left
                pass
        if self._thread is None:
            self._work(inline=True)
        else:
            lifecycle.started(self)

    def _work(self, *, inline: bool = False) -> None:
        """Store group after group until told to close. `inline`: in this thread, and only what is there."""
        if not self._writing.acquire(blocking=not inline):
            return  # whoever writes at this moment looks into the queue once more before it ends
        try:
            while self._work_on(self._next_group(wait=not inline), inline=inline):
                if self._is_busy and not inline:
                    self._rest()
        finally:
            self._writing.release()
            with self._lock:
                if self._thread is threading.current_thread():
                    self._thread = None
        if not self._queue.empty():  # put there by somebody who still saw the thread alive
            self._start()

    def _work_on(self, group: list[_Item], *, inline: bool) -> bool:
        """Store one group and tell those who wait for it. False: that was the last one."""
        marks: list[Flush] = []
        durable = False
        with self._storing:
            try:
                durable = self._store(group, marks, hold=not inline)
            except Exception as error:  # the thread must live on: without it nothing more is recorded
                log.exception("longwatch: %d events were lost to a fault in longwatch itself", len(group))
                self._delivery.tally.last_error = repr(error)
            closing = any(mark.close for mark in marks)
            if closing:
                self._end_delivery()
            if marks:
                empty(self._hurry)
            for mark in marks:
                mark.pass_by(durable)
            if not (closing or inline):
                self._delivery.ship()
        self._is_busy = len(group) >= BUSY_EVENTS and self._queue.qsize() < self.settings.queue_events // 4
        return not closing and (bool(group) or not inline)

    def _rest(self) -> None:
        try:
            self._hurry.get(timeout=REST_SECONDS)
        except Empty:
            pass

    def _end_delivery(self) -> None:
        try:
            self._delivery.ship_all(CLOSING_SHIP_SECONDS)
            self._delivery.close()
        except Exception:
            log.exception("longwatch: the journal could not be closed properly")

    def _next_group(self, *, wait: bool) -> list[_Item]:
        """Whatever has gathered; waits for the first item, or until the outbox is worth another look."""
        queue, group = self._queue, list[_Item]()
        try:
            group.append(queue.get(wait, self._delivery.seconds_until_shipping()))
            while len(group) < GROUP_EVENTS:
                group.append(queue.get_nowait())
        except Empty:
            pass
        return group

    def _store(self, group: list[_Item], marks: list[Flush], *, hold: bool) -> bool:
        """Turn a group into events and deliver them; `marks` takes those that were passed."""
        events: list[Event] = []
        ttl = self._ttl_seconds() if group else None
        for item in group + self._drops():
            try:
                if isinstance(item, Note):
                    if item.weight > LARGE_BYTES:
                        self._room.leave(item.weight)
                    events.append(self._producers.event(item, ttl_seconds=ttl))
                elif isinstance(item, Event):
                    self._room.leave(_weight(item))
                    events.append(encoded(item))
                elif isinstance(item, CloseRun):
                    events += self._producers.closing(item.run_id, item.occurred_at, ttl_seconds=ttl)
                else:
                    marks.append(item)
            except Exception as error:  # noqa: BLE001 - one bad event must not cost those beside it
                self._refuse(item, error)
        events += self._producers.retired(self.clock.now_ms, ttl_seconds=ttl)
        if any(mark.close for mark in marks):
            events += self._producers.all_closing(self.clock.now_ms(), ttl_seconds=ttl)
        self._marks_out += len(marks)
        self._taken += len(events)
        durable = self._delivery.deliver(events)
        while hold and not durable:  # hold on to them: the queue fills behind us, and the caller waits
            self.clock.sleep(HELD_RETRY_SECONDS)
            durable = self._delivery.deliver(events)
        return durable

    def _drops(self) -> list[_Item]:
        now = self.clock.now_ms()
        return [
            Note(run_id, "events_dropped", now, {"count": count})
            for run_id, count in self._room.take_drops().items()
        ]

    def _refuse(self, item: _Item, error: Exception) -> None:
        """Count what cannot be an event at all, and say so once."""
        tally = self._delivery.tally
        self._taken += 1
        tally.refused += 1
        tally.last_error = str(error) or repr(error)
        if tally.refused == 1:
            what = item.type if isinstance(item, Note | Event) else "closing"
            log.warning("longwatch: a %s event is refused: %s; further ones are only counted", what, error)

    def _ttl_seconds(self) -> int | None:
        hours = self.settings.ttl_hours
        return lifetime_seconds(hours, self._delivery.default_ttl_seconds() if hours is None else None)


def _weight(event: Event) -> int:
    return len(event.encoded) if event.encoded is not None else 0


_process_recorder: Recorder | None = None
_process_lock = threading.Lock()


def _renew_lock() -> None:
    """In a forked child: the thread that held the lock may not be here to give it back."""
    global _process_lock  # noqa: PLW0603
    _process_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def get_recorder() -> Recorder:
    """The recorder of this process, made from the settings on first use."""
    global _process_recorder  # noqa: PLW0603 - one per process is the point
    if _process_recorder is None:
        with _process_lock:
            if _process_recorder is None:
                _process_recorder = Recorder()
    return _process_recorder


def configure(journal: str | Journal | None = None, *, settings: Settings | None = None) -> Recorder:
    """Record to this journal from now on. What was recorded before is stored first."""
    global _process_recorder
    with _process_lock:
        before, _process_recorder = _process_recorder, Recorder(journal, settings=settings)
    if before is not None:
        before.close()
    return _process_recorder


def flush(timeout_seconds: float = FLUSH_SECONDS) -> bool:
    """Wait until everything recorded so far is durable, in the journal or in the outbox."""
    return get_recorder().flush(timeout_seconds)

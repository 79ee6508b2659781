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

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.events import Event
from longwatch.journal.base import Journal
from longwatch.journal.opening import open_journal
from longwatch.recording import lifecycle
from longwatch.recording.capture import FULL, SUMMARY, Capture, Limits
from longwatch.recording.delivery import Delivery
from longwatch.recording.outbox import Outbox
from longwatch.recording.producers import Note, Producer
from longwatch.recording.redaction import SecretNames
from longwatch.settings import Settings, load_settings

log = logging.getLogger("longwatch")

GROUP_EVENTS = 1_000
QUEUE_BYTES = 64 * 1024 * 1024  # of large payloads; small ones are bounded by their count
LARGE_BYTES = 4_096
WAIT_FOR_ROOM_SECONDS = 0.25
HELD_RETRY_SECONDS = 0.5
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


class _Flush:
    """A mark in the queue: everything before it is durable once `done` is set."""

    __slots__ = ("close", "done", "durable")

    def __init__(self, *, close: bool = False) -> None:
        self.done = threading.Event()
        self.durable = False
        self.close = close


@dataclass(frozen=True, slots=True)
class _CloseRun:
    run_id: str
    occurred_at: int


_Item = Note | Event | _Flush | _CloseRun


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
        self._thread: threading.Thread | None = None
        self._producers: dict[str, Producer] = {}
        self._delivery = self._new_delivery()
        self._taken = 0  # events that the writer thread has worked on
        self._large_bytes = 0
        self._dropped: dict[str, int] = {}
        self._dropped_total = 0
        self._gave_up_waiting = False
        self._closed = False

    def _new_delivery(self) -> Delivery:
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
        return {"off": None, "summary": SUMMARY, "full": FULL}[policy or self.settings.capture]

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
        capture = Capture(FULL, self.secrets)
        copy = capture.fields(payload)
        at = self.clock.now_ms() if occurred_at is None else occurred_at
        self.put(Note(run_id, type, at, copy, agent_name, call_id, parent_call_id, trace_id, capture.weight))

    def put(self, note: Note) -> None:
        """Queue what the observed code handed over."""
        crowded = note.weight > LARGE_BYTES or self._queue.qsize() >= self.settings.queue_events
        if crowded and not self._has_room(note):
            return
        self._queue.put(note)
        if self._thread is None:
            self._start()

    def append(self, event: Event) -> None:
        """Queue an event that already has its id and numbers, as one read from a child's output."""
        self._queue.put(event)
        if self._thread is None:
            self._start()

    def close_run(self, run_id: str) -> None:
        """This process has nothing more to say of the run: its producer states its count."""
        self._queue.put(_CloseRun(run_id, self.clock.now_ms()))
        if self._thread is None:
            self._start()

    def flush(self, timeout_seconds: float = FLUSH_SECONDS) -> bool:
        """Wait until everything recorded before is durable, in the journal or in the outbox."""
        return self._pass_mark(_Flush(), timeout_seconds)

    def close(self, timeout_seconds: float = FLUSH_SECONDS) -> bool:
        """State every producer's count, store everything, and end the writer thread."""
        if self._closed or self._pid != os.getpid():
            return True
        if self._thread is None and self._queue.empty():
            self._closed = True
            return True
        durable = self._pass_mark(_Flush(close=True), timeout_seconds)
        self._closed = True
        if not durable:
            stats = self.stats()
            log.error(
                "longwatch: %d events could not be stored before the process ended: %s",
                stats.recorded - stats.stored - stats.in_outbox - stats.refused,
                stats.last_error or "the journal did not answer in time",
            )
        return durable

    def stats(self) -> RecorderStats:
        """What became of the events so far."""
        tally = self._delivery.tally
        return RecorderStats(
            recorded=self._taken + self._queue.qsize(),
            stored=tally.stored,
            in_outbox=tally.in_outbox,
            dropped=self._dropped_total,
            refused=tally.refused,
            failures=tally.failures,
            last_error=tally.last_error,
        )

    def _pass_mark(self, mark: _Flush, timeout_seconds: float) -> bool:
        self._queue.put(mark)
        if self._thread is None:
            self._start()
        return mark.done.wait(timeout_seconds) and mark.durable

    def _has_room(self, note: Note) -> bool:
        """Wait a little for room. Once waiting was in vain, drop at once until the queue has moved."""
        deadline = self.clock.monotonic() + WAIT_FOR_ROOM_SECONDS
        while True:
            with self._lock:
                if (
                    self._queue.qsize() < self.settings.queue_events
                    and self._large_bytes + note.weight <= QUEUE_BYTES
                ):
                    self._large_bytes += note.weight if note.weight > LARGE_BYTES else 0
                    self._gave_up_waiting = False
                    return True
                if self._gave_up_waiting or self.clock.monotonic() >= deadline:
                    self._drop(note)
                    return False
            self.clock.sleep(0.001)

    def _drop(self, note: Note) -> None:
        if not self._gave_up_waiting:
            log.warning(
                "longwatch: %d events wait and no more fit in memory; further ones are dropped and counted",
                self._queue.qsize(),
            )
        self._gave_up_waiting = True
        self._dropped[note.run_id] = self._dropped.get(note.run_id, 0) + 1
        self._dropped_total += 1

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None:
                return
            self._closed = False
            thread = threading.Thread(target=self._work, name="longwatch-recorder", daemon=True)
            self._thread = thread
        try:
            thread.start()
        except RuntimeError:  # the interpreter is going down and starts no more threads: store here and now
            self._work(inline=True)
            self._thread = None
        lifecycle.started(self)

    def _work(self, *, inline: bool = False) -> None:
        """Store group after group until told to close. `inline`: in this thread, and only what is there."""
        while True:
            group = self._next_group(wait=not inline)
            try:
                marks = self._store(group, inline=inline)
            except Exception as error:  # the thread must live on: without it nothing more is recorded
                log.exception("longwatch: %d events were lost to a fault in longwatch itself", len(group))
                self._delivery.tally.last_error = repr(error)
                marks = [item for item in group if isinstance(item, _Flush)]
            closing = any(mark.close for mark in marks)
            if closing:
                self._delivery.close()
                self._thread = None
            for mark in marks:
                mark.done.set()
            if closing or (inline and not group):
                return

    def _next_group(self, *, wait: bool) -> list[_Item]:
        """Whatever has gathered; waits for the first item, or until an outage is worth another look."""
        queue, group = self._queue, list[_Item]()
        try:
            group.append(queue.get(wait, self._delivery.seconds_until_retry()))
            while len(group) < GROUP_EVENTS:
                group.append(queue.get_nowait())
        except Empty:
            pass
        return group

    def _store(self, group: list[_Item], *, inline: bool) -> list[_Flush]:
        """Turn a group into events and deliver them; returns the marks that were passed."""
        events: list[Event] = []
        marks: list[_Flush] = []
        ttl = self._ttl_seconds()
        for item in group:
            if isinstance(item, Note):
                events.append(self._producer(item.run_id).event(item, ttl_seconds=ttl))
                if item.weight > LARGE_BYTES:
                    with self._lock:
                        self._large_bytes -= item.weight
            elif isinstance(item, Event):
                events.append(item)
            elif isinstance(item, _CloseRun):
                producer = self._producers.pop(item.run_id, None)
                if producer is not None:
                    events.append(producer.closing(item.occurred_at, ttl_seconds=ttl))
            else:
                marks.append(item)
        if self._dropped:
            events += self._told_drops(ttl)
        if any(mark.close for mark in marks):
            now = self.clock.now_ms()
            events += [each.closing(now, ttl_seconds=ttl) for each in self._producers.values()]
            self._producers.clear()
        self._taken += len(events)
        self._delivery.retry()
        durable = self._delivery.deliver(events)
        while not durable and not inline:  # hold on to them: the queue fills behind us, and the caller waits
            self.clock.sleep(HELD_RETRY_SECONDS)
            durable = self._delivery.deliver(events)
        for mark in marks:
            mark.durable = durable
        return marks

    def _producer(self, run_id: str) -> Producer:
        producer = self._producers.get(run_id)
        if producer is None:
            producer = Producer(run_id, max_payload_bytes=self.settings.max_payload_bytes)
            self._producers[run_id] = producer
        return producer

    def _told_drops(self, ttl: int | None) -> list[Event]:
        with self._lock:
            dropped, self._dropped = self._dropped, {}
        now = self.clock.now_ms()
        notes = [Note(run_id, "events_dropped", now, {"count": count}) for run_id, count in dropped.items()]
        return [self._producer(note.run_id).event(note, ttl_seconds=ttl) for note in notes]

    def _ttl_seconds(self) -> int | None:
        hours = self.settings.ttl_hours
        return self._delivery.default_ttl_seconds() if hours is None else int(hours * 3600) or None


_process_recorder: Recorder | None = None
_process_lock = threading.Lock()


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

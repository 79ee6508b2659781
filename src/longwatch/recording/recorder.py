"""The recorder: the observed code only queues events; the writer thread numbers, chains and stores them.

Memory is bounded: when the queue is full, the caller waits up to a quarter of a second; after that events are
dropped, counted, and reported in an `events_dropped` event as soon as there is room. A forked child starts
with an empty queue and new producers.

Closing waits for the journal up to `recording.exit_timeout_seconds`. Then the outbox takes the events that
the journal has not acknowledged, and one line reports the counts.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.model.event import Event
from longwatch.recording import lifecycle
from longwatch.recording.capture import CAPTURES, FULL, CaptureLimits, capture_fields
from longwatch.recording.membership import JOINED, Membership
from longwatch.recording.queue import LARGE_BYTES, Backpressure, CloseRun, Flush, weight_of
from longwatch.recording.scope import EventDraft
from longwatch.recording.secret_names import SecretNames
from longwatch.settings import Settings, load_settings

if TYPE_CHECKING:
    from longwatch.journal.base import Journal
    from longwatch.recording.delivery import Delivery, DeliveryCounts
    from longwatch.recording.writer import Leftover, QueuedItem, Writer

log = logging.getLogger("longwatch")

FLUSH_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class RecorderStats:
    """What became of the events of a recorder so far."""

    recorded: int
    stored: int
    in_outbox: int
    dropped: int
    refused: int
    lost: int
    failures: int
    last_error: str | None


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
        self.interrupts: set[Callable[[str], None]] = set()  # called with a reason when the process ends
        self.membership = Membership(self.settings.outbox_path)
        self.begin_again()
        lifecycle.register(self)

    def begin_again(self) -> None:
        """Reset everything: on creation, in a forked child, and after a restored snapshot of the process."""
        self._pid = os.getpid()
        self.membership.renew()
        self._lock = threading.RLock()  # a signal handler may flush while its own thread holds it
        self._queue: SimpleQueue[QueuedItem] = SimpleQueue()
        self._backpressure = Backpressure(
            self._queue.qsize, max_events=self.settings.queue_events, clock=self.clock
        )
        self._hurry: SimpleQueue[None] = SimpleQueue()  # wakes the writer for a flush
        self._thread: threading.Thread | None = None
        self._paused: tuple[int, threading.Lock] | None = None  # a thread, and the lock that it holds
        self._markers_queued = 0  # flush markers that callers have queued
        self._writer = self._new_writer()

    def _new_writer(self, counts: DeliveryCounts | None = None) -> Writer:
        from longwatch.recording.writer import Writer  # it loads SQLite

        delivery = self._new_delivery(counts)
        return Writer(
            self._queue,
            self._hurry,
            self._backpressure,
            delivery,
            membership=self.membership,
            settings=self.settings,
            clock=self.clock,
        )

    def _new_delivery(self, counts: DeliveryCounts | None) -> Delivery:
        from longwatch.journal.factory import open_journal
        from longwatch.recording.delivery import Delivery
        from longwatch.recording.outbox import Outbox

        target, clock = self._target, self.clock
        outbox = Outbox(self.settings.outbox_path, clock=clock)
        if isinstance(target, str):
            opened = partial(open_journal, target, settings=self.settings, clock=clock)
            return Delivery(target, opened, outbox, clock=clock, counts=counts)
        return Delivery(target.url, lambda: target, outbox, clock=clock, close_journal=False, counts=counts)

    @property
    def journal_url(self) -> str:
        return self._target if isinstance(self._target, str) else self._target.url

    def limits(self, policy: str | None = None) -> CaptureLimits | None:
        """The limits of a capture policy for arguments and results; None captures nothing."""
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
        fixed: Mapping[str, object] | None = None,
    ) -> None:
        """Queue an event with a copy of its payload. `fixed` fields are neither redacted nor truncated."""
        copy, weight = capture_fields(payload, FULL, self.secrets, self.unredacted(type))
        at = self.clock.now_ms() if occurred_at is None else occurred_at
        self.put(
            EventDraft(run_id, type, at, copy, agent_name, call_id, parent_call_id, trace_id, weight, fixed)
        )

    def unredacted(self, type: str) -> Container[str]:
        """The fields of this type of event to which `redact_keys` does not apply."""
        if not self.settings.redact_keys:
            return ()
        from longwatch.recording.producers import unredacted_fields  # the writer loads it anyway

        return unredacted_fields(type)

    def put(self, draft: EventDraft) -> None:
        crowded = draft.weight > LARGE_BYTES or self._queue.qsize() >= self.settings.queue_events
        if crowded and not self._backpressure.enter(draft.run_id, draft.weight):
            return
        self._queue.put(draft)
        if self._thread is None:
            self._start()

    def append(self, event: Event) -> None:
        """Queue an event that has its id and number already, such as one that a child printed."""
        weight = weight_of(event)
        crowded = weight > LARGE_BYTES or self._queue.qsize() >= self.settings.queue_events
        if crowded and not self._backpressure.enter(event.run_id, weight):
            return
        self._queue.put(event)
        if self._thread is None:
            self._start()

    def join(self, run_id: str, trace_id: str | None) -> None:
        """Record that this process takes part in the run and in the runs that enclose it."""
        for each in self.membership.enclosing_runs(run_id):
            fields = self.membership.join_fields(each)
            if fields is not None:
                self.put(EventDraft(each, JOINED, self.clock.now_ms(), {}, trace_id=trace_id, fixed=fields))

    def close_run(self, run_id: str) -> None:
        """Close the producer of a run: it states its count, and records no further events."""
        self._queue.put(CloseRun(run_id, self.clock.now_ms()))
        if self._thread is None:
            self._start()

    def producer_of(self, run_id: str) -> str | None:
        """The name of this recorder's producer for a run; None if it has no events yet."""
        return self._writer.producers.name_of(run_id)

    def flush(self, timeout_seconds: float = FLUSH_SECONDS) -> bool:
        """Wait until everything recorded so far is durable, in the journal or in the outbox."""
        if self._is_idle():
            return True
        marker = Flush()
        self._put_marker(marker)
        return marker.wait(timeout_seconds)

    def close(self, timeout_seconds: float | None = None) -> bool:
        """State every producer's count, store everything, and end the writer thread.

        Waits for the journal up to `timeout_seconds`, by default `recording.exit_timeout_seconds`; then the
        outbox takes the rest. Returns whether every event is in one of the two. Events recorded later start
        a new thread with new producers.
        """
        return self.finish_closing(self.start_closing(), timeout_seconds)

    def start_closing(self) -> Flush | None:
        """Queue the closing without waiting; None if there is nothing to close."""
        if self._pid != os.getpid() or (self._is_idle() and not self._writer.producers.are_open):
            return None
        marker = Flush(close=True)
        self._put_marker(marker)
        return marker

    def finish_closing(self, marker: Flush | None, timeout_seconds: float | None = None) -> bool:
        """Wait until the writer has closed; after the timeout, replace it."""
        if marker is None:
            return True
        seconds = self.settings.exit_timeout_seconds if timeout_seconds is None else timeout_seconds
        try:
            durable = marker.wait(seconds)
        except BaseException:  # Ctrl-C: the user no longer waits for the journal
            self._take_over()
            raise
        return durable or self._take_over()

    def _take_over(self, *, use_outbox: bool = True) -> bool:
        """Replace a writer that exceeds its time. False: the outbox cannot be written either."""
        with self._lock:
            writer, self._thread = self._writer, None
            self._writer = self._new_writer(writer.delivery.counts)
        left = writer.hand_over(use_outbox=use_outbox)
        self._markers_queued = 0
        if left.events:
            self._report(left)
        if not left.is_durable:
            self._writer.delivery.hold(left.events, left.closing)  # in case the process continues
        return left.is_durable

    def _report(self, left: Leftover) -> None:
        """Log the counts of a process that ends before its journal has acknowledged all events."""
        stats = self.stats()
        lost = stats.lost + stats.dropped + (0 if left.is_durable else len(left.events))
        refused = f", {stats.refused} refused" if stats.refused else ""
        counts = (
            f"{stats.recorded + stats.dropped} recorded: {stats.stored} stored, "
            f"{stats.in_outbox} in the outbox{refused}, {lost} lost"
        )
        if left.is_durable:
            log.warning(
                "longwatch: %d events wait in %s because %s did not acknowledge them before the process "
                "ended (%s). Deliver them with `longwatch ship`.",
                len(left.events),
                self.settings.outbox_path,
                self.journal_url,
                counts,
            )
        else:
            log.error(
                "longwatch: %d events could not be stored before the process ended (%s): %s",
                len(left.events),
                counts,
                stats.last_error or "the journal did not respond in time",
            )

    def pause(self, timeout_seconds: float) -> None:
        """Pause the writer before a fork: the child must not inherit half a transaction."""
        storing = self._writer.storing
        if storing.acquire(timeout=timeout_seconds):
            self._paused = threading.get_ident(), storing

    def resume(self) -> None:
        """Resume the writer in the parent after a fork, if this thread paused it."""
        if self._paused is not None and self._paused[0] == threading.get_ident():
            (_, storing), self._paused = self._paused, None
            storing.release()

    def stats(self) -> RecorderStats:
        """What became of the events so far."""
        counts = self._writer.delivery.counts
        return RecorderStats(
            recorded=counts.recorded + self._writer.unfinished(self._markers_queued),
            stored=counts.stored,
            in_outbox=counts.in_outbox,
            dropped=self._backpressure.dropped_total,
            refused=counts.refused,
            lost=counts.lost,
            failures=counts.failures,
            last_error=counts.last_error,
        )

    def _is_idle(self) -> bool:
        writer = self._writer
        is_waiting = writer.running.locked() or writer.delivery.is_holding
        return self._thread is None and self._queue.empty() and not is_waiting

    def _put_marker(self, marker: Flush) -> None:
        self.resume()  # a signal may arrive between `pause` and `resume`
        with self._lock:
            self._markers_queued += 1
        self._queue.put(marker)
        self._hurry.put(None)
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        if sys.meta_path is None:
            # Python removes its modules: nothing can be stored. A generator that ends now remains open.
            return
        with self._lock:
            if self._thread is not None:
                return
            writer = self._writer
            thread = threading.Thread(
                target=self._work, args=(writer,), name="longwatch-recorder", daemon=True
            )
            try:
                if not lifecycle.is_exiting():  # a daemon thread would end in the middle of its work
                    thread.start()
                    self._thread = thread
            except RuntimeError:  # the interpreter is shutting down, or no thread is available
                pass
        if self._thread is None:
            self._work_inline(writer)
        else:
            lifecycle.on_writer_start(self)

    def _work(self, writer: Writer) -> None:
        writer.work()
        with self._lock:
            if self._thread is threading.current_thread():
                self._thread = None
        if not writer.is_replaced and not self._queue.empty():  # queued while the thread was ending
            self._start()

    def _work_inline(self, writer: Writer) -> None:
        """Store the queued events in the calling thread."""
        is_exiting = lifecycle.is_exiting()
        is_vain = is_exiting and writer.delivery.is_holding  # at exit the outbox is tried only once
        if not is_vain and not writer.work(inline=True):
            return
        if is_exiting and writer.delivery.is_holding:
            self._take_over(use_outbox=not is_vain)
        elif not self._queue.empty():
            self._start()


_process_recorder: Recorder | None = None
_process_lock = threading.Lock()


def _renew_lock() -> None:
    """In a forked child: the thread that held the lock may not exist here."""
    global _process_lock  # noqa: PLW0603
    _process_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def get_recorder() -> Recorder:
    """The recorder of this process, created from the settings on first use."""
    global _process_recorder  # noqa: PLW0603 - one per process is the point
    if _process_recorder is None:
        with _process_lock:
            if _process_recorder is None:
                _process_recorder = Recorder()
    return _process_recorder


def configure(journal: str | Journal | None = None, *, settings: Settings | None = None) -> Recorder:
    """Record to this journal from now on. Events recorded before go to the previous journal."""
    global _process_recorder
    with _process_lock:
        before, _process_recorder = _process_recorder, Recorder(journal, settings=settings)
    if before is not None:
        before.close()
    return _process_recorder


def flush(timeout_seconds: float = FLUSH_SECONDS) -> bool:
    """Wait until everything recorded so far is durable, in the journal or in the outbox."""
    return get_recorder().flush(timeout_seconds)

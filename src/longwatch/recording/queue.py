"""The bounds of the recorder's queue, and the items in it that are not events.

When the queue is full, the caller waits up to a quarter of a second. After a wait in vain, events are dropped
and counted at once until the queue moves; an `events_dropped` event reports the count for each run.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from longwatch.clock import Clock
from longwatch.model.event import Event


class Flush:
    """A marker in the queue, completed when the writer has stored everything before it.

    It is a bare lock: a signal handler may interrupt a thread anywhere inside a `threading.Event`, and then
    wait for a writer that waits for that thread.
    """

    __slots__ = ("_pending", "close", "durable")

    def __init__(self, *, close: bool = False) -> None:
        self._pending = threading.Lock()
        self._pending.acquire()
        self.durable = False
        self.close = close

    def complete(self, durable: bool) -> None:
        """Wake the waiting caller, and report whether everything before is durable. Safe to call again."""
        self.durable = durable
        try:
            self._pending.release()
        except RuntimeError:  # completed before, as when Ctrl-C ended the wait
            pass

    def wait(self, timeout_seconds: float) -> bool:
        """Whether everything before became durable in time."""
        return self._pending.acquire(timeout=max(0.0, timeout_seconds)) and self.durable


@dataclass(frozen=True, slots=True)
class CloseRun:
    """A marker in the queue: this process records no further events of the run."""

    run_id: str
    occurred_at: int  # epoch milliseconds


def drain_queue(queue: SimpleQueue[None]) -> None:
    try:
        while True:
            queue.get_nowait()
    except Empty:
        pass


log = logging.getLogger("longwatch")

QUEUE_BYTES = 64 * 1024 * 1024  # of large payloads; small ones are bounded by their count
LARGE_BYTES = 4_096
WAIT_SECONDS = 0.25
RETRY_SECONDS = 0.001


class Backpressure:
    """Bounds the queue: callers `enter` before they queue an event, the writer calls `leave` after it."""

    def __init__(self, waiting: Callable[[], int], *, max_events: int, clock: Clock) -> None:
        self._waiting = waiting  # the number of events in the queue
        self._max_events = max_events
        self._clock = clock
        self._lock = threading.RLock()  # a signal handler may record while its own thread holds it
        # Callers count one and the writer the other, so that the writer never waits for a caller.
        self._bytes_in = 0
        self._bytes_out = 0
        self._gave_up = False
        self._dropped: dict[str, int] = {}
        self.dropped_total = 0

    def enter(self, run_id: str, weight: int) -> bool:
        """Wait shortly for room. False: the queue is full, and the event is counted as dropped."""
        deadline = self._clock.monotonic() + WAIT_SECONDS
        while True:
            with self._lock:
                if self._fits(weight):
                    self._bytes_in += _counted_bytes(weight)
                    self._gave_up = False
                    return True
                if self._gave_up or self._clock.monotonic() >= deadline:
                    self._drop(run_id)
                    return False
            self._clock.sleep(RETRY_SECONDS)

    def leave(self, weight: int) -> None:
        """Release the room of an event. Only the writer calls it."""
        self._bytes_out += _counted_bytes(weight)

    def take_drops(self) -> dict[str, int]:
        """The number of dropped events of each run since the last call. Only the writer calls it."""
        if not self._dropped or not self._lock.acquire(blocking=False):
            return {}  # next time: a signal handler may wait for the writer while its thread holds the lock
        try:
            dropped, self._dropped = self._dropped, {}
            self._gave_up = False
        finally:
            self._lock.release()
        return dropped

    def _fits(self, weight: int) -> bool:
        held = self._bytes_in - self._bytes_out
        return self._waiting() < self._max_events and held + _counted_bytes(weight) <= QUEUE_BYTES

    def _drop(self, run_id: str) -> None:
        if not self.dropped_total:
            log.warning(
                "longwatch: the queue is full with %d events; further events are dropped and counted",
                self._waiting(),
            )
        self._gave_up = True
        self._dropped[run_id] = self._dropped.get(run_id, 0) + 1
        self.dropped_total += 1


def weight_of(event: Event) -> int:
    """The bytes of an event that count against the queue."""
    return len(event.encoded) if event.encoded is not None else 0


def _counted_bytes(weight: int) -> int:
    return weight if weight > LARGE_BYTES else 0

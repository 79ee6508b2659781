"""What goes through the recorder's queue beside events."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from queue import Empty, SimpleQueue


class Flush:
    """A mark in the queue: everything before it has been seen to once it is passed.

    Made of a bare lock: a signal handler may interrupt a thread anywhere inside an `Event`, and then wait for
    a writer that waits for that thread.
    """

    __slots__ = ("_unpassed", "close", "durable")

    def __init__(self, *, close: bool = False) -> None:
        self._unpassed = threading.Lock()
        self._unpassed.acquire()
        self.durable = False
        self.close = close

    def pass_by(self, durable: bool) -> None:
        """Wake the caller that waits, and say whether everything before is durable. Safe to call again."""
        self.durable = durable
        try:
            self._unpassed.release()
        except RuntimeError:  # passed before, as when Ctrl-C ended the wait
            pass

    def wait(self, timeout_seconds: float) -> bool:
        """Whether everything before was made durable in time."""
        return self._unpassed.acquire(timeout=max(0.0, timeout_seconds)) and self.durable


@dataclass(frozen=True, slots=True)
class CloseRun:
    """Nothing more comes of this run."""

    run_id: str
    occurred_at: int  # epoch milliseconds


def empty(queue: SimpleQueue[None]) -> None:
    """Take everything out."""
    try:
        while True:
            queue.get_nowait()
    except Empty:
        pass

"""SIGTERM while the work of a session is under way: the platform stops the container, so the work failed.

The handler reports that, waits until it is stored, and calls the handler that was there before. A server such
as uvicorn sets a handler of its own when it starts and puts the earlier one back when it stops, so the chain
is joined again with every request, and each link remembers its own predecessor.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Protocol

from longwatch.clock import SYSTEM_CLOCK
from longwatch.recording import lifecycle

TERMINATED = "terminated by the platform (SIGTERM)"
REPORT_SECONDS = 5.0  # for all sessions together; platforms kill about 10 s after SIGTERM


class Terminable(Protocol):
    """A session whose work is under way."""

    def terminate(self, reason: str) -> None:
        """Report that the work failed for this reason."""


at_work: set[Terminable] = set()


class _ReportFirst:
    """A handler of SIGTERM that reports the sessions at work, then does what was done before."""

    def __init__(self, previous: Callable[[int, FrameType | None], object]) -> None:
        self._previous = previous

    def __call__(self, number: int, frame: FrameType | None) -> None:
        try:
            report_termination()
        finally:
            self._previous(number, frame)


def chain_sigterm() -> None:
    """Report sessions at work before whatever SIGTERM does now. Does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return
    lifecycle.flush_on_sigterm()  # in place of the default action
    previous = signal.getsignal(signal.SIGTERM)
    # A program that ignores SIGTERM is not ended by it, and a handler that is not Python's can not be called.
    if callable(previous) and not isinstance(previous, _ReportFirst | signal.Handlers):
        signal.signal(signal.SIGTERM, _ReportFirst(previous))


def report_termination() -> None:
    """Report every session at work, in threads: the interrupted code may hold the locks that this needs."""
    threads = [
        threading.Thread(target=each.terminate, args=(TERMINATED,), name="longwatch-terminated", daemon=True)
        for each in list(at_work)
    ]
    for thread in threads:
        thread.start()
    deadline = SYSTEM_CLOCK.monotonic() + REPORT_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - SYSTEM_CLOCK.monotonic()))


if hasattr(os, "register_at_fork"):  # the sessions are the parent's to report
    os.register_at_fork(after_in_child=at_work.clear)

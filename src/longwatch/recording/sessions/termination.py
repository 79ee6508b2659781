"""Journals that the work of sessions failed when the platform stops the container with SIGTERM.

The handler journals the failure, waits until it is stored, and calls the previous handler. A server such as
uvicorn sets its own handler when it starts and restores the previous one when it stops, so every request
installs the handler again, and each instance has its own predecessor.
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
    """A session with running tasks."""

    def terminate(self, reason: str) -> None:
        """Journal that the work failed for this reason."""


running_sessions: set[Terminable] = set()


class _ReportFirst:
    """A SIGTERM handler that journals the failure of running sessions, then calls the previous handler."""

    def __init__(self, previous: Callable[[int, FrameType | None], object]) -> None:
        self._previous = previous

    def __call__(self, number: int, frame: FrameType | None) -> None:
        try:
            report_termination()
        finally:
            self._previous(number, frame)


def chain_sigterm() -> None:
    """Install the handler before the current one. Does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return
    lifecycle.flush_on_sigterm()  # in place of the default action
    previous = signal.getsignal(signal.SIGTERM)
    # A program that ignores SIGTERM continues, and a handler that is not Python's cannot be called.
    if callable(previous) and not isinstance(previous, _ReportFirst | signal.Handlers):
        signal.signal(signal.SIGTERM, _ReportFirst(previous))


def report_termination() -> None:
    """Journal the failure of every running session, in threads: the interrupted code may hold locks."""
    threads = [
        threading.Thread(target=each.terminate, args=(TERMINATED,), name="longwatch-terminated", daemon=True)
        for each in list(running_sessions)
    ]
    for thread in threads:
        thread.start()
    deadline = SYSTEM_CLOCK.monotonic() + REPORT_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - SYSTEM_CLOCK.monotonic()))


if hasattr(os, "register_at_fork"):  # the parent journals its own sessions
    os.register_at_fork(after_in_child=running_sessions.clear)

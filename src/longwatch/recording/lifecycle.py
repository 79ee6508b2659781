"""The ends and beginnings of a process, where nothing recorded may be lost: exit, SIGTERM, fork."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Protocol
from weakref import WeakSet


class Recording(Protocol):
    """What this module needs of a recorder."""

    interrupts: set[Callable[[str], None]]

    def begin_again(self) -> None: ...

    def close(self) -> bool: ...


_recorders: WeakSet[Recording] = WeakSet()


def watch(recorder: Recording) -> None:
    """Look after this recorder from now on."""
    _recorders.add(recorder)


def started(recorder: Recording) -> None:
    """A recorder began to write: make sure that a multiprocessing child, which runs no atexit, closes it."""
    if "multiprocessing.process" not in sys.modules:
        return
    from multiprocessing import process, util

    if process.parent_process() is not None:
        util.Finalize(recorder, recorder.close, exitpriority=100)


def flush_on_sigterm() -> None:
    """Store everything before SIGTERM ends the process. A handler of the program's own is left alone."""
    if (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    ):
        signal.signal(signal.SIGTERM, _on_sigterm)


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    for recorder in list(_recorders):
        for interrupt in list(recorder.interrupts):
            interrupt("SIGTERM")
        recorder.close()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)  # end as the sender meant it, with the exit status it expects


@atexit.register
def _at_exit() -> None:
    for recorder in list(_recorders):
        recorder.close()


def _after_fork() -> None:
    for recorder in list(_recorders):
        recorder.begin_again()  # what the parent queued, the parent stores


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

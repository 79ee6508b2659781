"""The ends and beginnings of a process, where nothing recorded may be lost: exit, SIGTERM, fork."""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING
from weakref import WeakSet

log = logging.getLogger("longwatch")

FORK_WAIT_SECONDS = 1.0  # for the writer to come to rest; a fork during an outage does not wait for its end


if TYPE_CHECKING:  # protocols are slow to make, and nothing asks for them while the program runs
    from typing import Protocol

    class Recording(Protocol):
        """What this module needs of a recorder."""

        interrupts: set[Callable[[str], None]]

        def begin_again(self) -> None: ...

        def close(self) -> bool: ...

        def pause(self, timeout_seconds: float) -> None: ...

        def resume(self) -> None: ...


_recorders: WeakSet[Recording] = WeakSet()
_exiting = False
_watching = False


def watch(recorder: Recording) -> None:
    """Look after this recorder from now on."""
    global _watching  # noqa: PLW0603 - one process, one lifecycle
    _recorders.add(recorder)
    if not _watching and hasattr(os, "register_at_fork"):
        # Only now: the hooks of a fork run in the order they were made, and SQLite's must come first.
        os.register_at_fork(
            before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork
        )
    _watching = True


def is_exiting() -> bool:
    """Whether the process has come to its end: what is recorded now must be stored at once."""
    return _exiting


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
    try:
        for recorder in list(_recorders):
            for interrupt in list(recorder.interrupts):
                _attempt(partial(interrupt, "SIGTERM"))
            _attempt(recorder.close)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)  # end as the sender meant it, with the exit status it expects


@atexit.register
def _at_exit() -> None:
    global _exiting  # noqa: PLW0603
    for recorder in list(_recorders):
        _attempt(recorder.close)
    _exiting = True


def _before_fork() -> None:
    from longwatch.clock import SYSTEM_CLOCK  # there already: recorders use it

    deadline = SYSTEM_CLOCK.monotonic() + FORK_WAIT_SECONDS
    for recorder in list(_recorders):
        recorder.pause(max(0.0, deadline - SYSTEM_CLOCK.monotonic()))


def _after_fork_in_parent() -> None:
    for recorder in list(_recorders):
        recorder.resume()


def _after_fork() -> None:
    for recorder in list(_recorders):
        recorder.interrupts.clear()  # the parent's runs are the parent's to end
        _attempt(recorder.begin_again)  # and what it queued is its to store


def _attempt(step: Callable[[], object]) -> None:
    """Do one thing on the way; whatever happens, the next one is done too."""
    try:
        step()
    except Exception:
        log.exception("longwatch: a recorder could not be looked after")

"""Keeps recorded events safe when the process exits, receives SIGTERM or forks.

At exit all recorders close together and share one exit timeout for the journal. Ctrl-C ends the wait for the
journal, and the outbox takes the rest at once. SIGTERM takes effect when all recorders are closed.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakSet

from longwatch.clock import SYSTEM_CLOCK
from longwatch.recording import first_use, membership
from longwatch.recording.scope import SCOPE

if TYPE_CHECKING:
    from longwatch.recording.queue import Flush
    from longwatch.recording.recorder import Recorder

T = TypeVar("T")

log = logging.getLogger("longwatch")

PROCESS_EXITED = "process_exited"  # error code of a run that was open when its interpreter exited
DEFERRAL_SECONDS = 0.01  # after which SIGTERM is sent again if it came during an import
MOST_DEFERRALS = 100  # a program may run inside an import for all its life
FORK_WAIT_SECONDS = 1.0  # for the writer to pause; a fork during an outage does not wait for its end


_recorders: WeakSet[Recorder] = WeakSet()
_in_multiprocessing: WeakSet[Recorder] = WeakSet()  # registered for the children of multiprocessing
_exit_began: float | None = None  # monotonic seconds
_closing: list[Flush] | None = None  # what the recorders wait for while they close
_deferrals = 0  # times that SIGTERM came during an import and was sent again
_terminated = False  # SIGTERM came while the recorders were closing
_interrupted = False  # Ctrl-C came while the recorders were closing
_hooks_installed = False


def register(recorder: Recorder) -> None:
    """Register a recorder: it is closed at exit and reset after a fork."""
    global _hooks_installed  # noqa: PLW0603 - one process, one lifecycle
    _recorders.add(recorder)
    if not _hooks_installed and hasattr(os, "register_at_fork"):
        # Registered late: fork hooks run in the order of registration, and SQLite's must come first.
        os.register_at_fork(
            before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork
        )
    _hooks_installed = True


def is_exiting() -> bool:
    """Whether the exit handlers have run: events must be stored at once."""
    return first_use.has_ended


def seconds_left(exit_timeout_seconds: float) -> float:
    """How much of the exit timeout is left; infinite before the process exits."""
    global _exit_began  # noqa: PLW0603
    if not is_exiting():
        return math.inf
    now = SYSTEM_CLOCK.monotonic()
    if _exit_began is None:
        _exit_began = now
    return _exit_began + exit_timeout_seconds - now


def on_writer_start(recorder: Recorder) -> None:
    """Register a recorder whose writer has started, if this is a multiprocessing child: it runs no atexit."""
    if "multiprocessing.process" not in sys.modules:
        return
    from multiprocessing import process, util

    if process.parent_process() is not None:
        membership.leave_all_runs()  # the parent exits only after its multiprocessing children have ended
        util.Finalize(recorder, _end_in_child, (recorder,), exitpriority=100)


def _end_in_child(recorder: Recorder) -> None:
    """Close a recorder at the end of a multiprocessing child, and end its runs when its threads are done.

    The finalizers of multiprocessing run before threads are joined, and a forked child runs nothing after
    that. So a further thread, which outlasts the others, ends the runs of threads that still work.
    """
    own = (threading.current_thread(), threading.main_thread())
    working = [each for each in threading.enumerate() if not each.daemon and each not in own]
    if working:
        recorder.close()
        threading.Thread(target=_end_after, args=(working, recorder), name="longwatch-exit").start()
    else:
        _end_after([], recorder)


def _end_after(threads: list[threading.Thread], recorder: Recorder) -> None:
    for thread in threads:
        thread.join()
    _end_runs(PROCESS_EXITED, [recorder])
    recorder.close()


def _register_with_multiprocessing(recorder: Recorder) -> None:
    """Register for after the fork: multiprocessing drops finalizers that were registered before it."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None and recorder not in _in_multiprocessing:
        _in_multiprocessing.add(recorder)
        util.register_after_fork(recorder, on_writer_start)


def flush_on_sigterm() -> None:
    """Store everything before SIGTERM ends the process. A handler of the program stays in place."""
    if (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    ):
        signal.signal(signal.SIGTERM, _on_sigterm)


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    global _terminated, _deferrals  # noqa: PLW0603
    if _closing is not None:
        _terminated = True
        return
    if _deferrals < MOST_DEFERRALS and _is_importing(frame):
        # The writer may import too, and would wait for the import lock that this thread holds.
        _deferrals += 1
        threading.Thread(target=_terminate_soon, daemon=True).start()
        return
    try:
        _end_runs("SIGTERM", list(_recorders))
        _close_all(SYSTEM_CLOCK.monotonic())
    finally:
        _end_by_sigterm()


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _terminate_soon() -> None:
    SYSTEM_CLOCK.sleep(DEFERRAL_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


def _end_by_sigterm() -> None:
    """Exit by SIGTERM, with the exit status that the sender expects."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def at_exit() -> None:
    """Close every recorder. The exit handler of `first_use` calls it."""
    global _exit_began  # noqa: PLW0603
    try:
        _exit_began = SYSTEM_CLOCK.monotonic()
        _end_runs(PROCESS_EXITED, list(_recorders))
        _close_all(_exit_began)
    except KeyboardInterrupt:  # it came before `_deferred_interrupt`
        _close_all(-math.inf)
    if _terminated:
        _end_by_sigterm()


def _end_runs(reason: str, recorders: list[Recorder]) -> None:
    """Record an ending for every run that this process started and has not ended."""
    for recorder in recorders:
        for interrupt in list(recorder.interrupts):
            _run_guarded(partial(interrupt, reason))


def _close_all(began: float) -> None:
    """Close every recorder. Together they wait one exit timeout for their journals."""
    global _closing  # noqa: PLW0603
    with _deferred_interrupt():
        recorders = list(_recorders)
        markers = [_run_guarded(recorder.start_closing) for recorder in recorders]
        _closing = [marker for marker in markers if marker is not None]
        for recorder, marker in zip(recorders, markers, strict=True):
            left = began + recorder.settings.exit_timeout_seconds - SYSTEM_CLOCK.monotonic()
            _run_guarded(partial(recorder.finish_closing, marker, 0.0 if _interrupted else max(0.0, left)))
        _closing = None


@contextmanager
def _deferred_interrupt() -> Iterator[None]:
    """Make Ctrl-C end the wait for the journal instead of interrupting the close."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    signal.signal(signal.SIGINT, _on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _on_interrupt(number: int, frame: FrameType | None) -> None:
    global _interrupted  # noqa: PLW0603
    _interrupted = True
    for marker in _closing or ():
        marker.complete(False)


def _before_fork() -> None:
    membership.open_fork_pipes(_enclosing_runs())
    deadline = SYSTEM_CLOCK.monotonic() + FORK_WAIT_SECONDS
    for recorder in list(_recorders):
        _register_with_multiprocessing(recorder)
        recorder.pause(max(0.0, deadline - SYSTEM_CLOCK.monotonic()))


def _after_fork_in_parent() -> None:
    for recorder in list(_recorders):
        recorder.resume()


def _enclosing_runs() -> list[str]:
    """The runs that this thread works on, the innermost first."""
    scope = SCOPE.get()
    return [] if scope is None else scope.recorder.membership.enclosing_runs(scope.run_id)


def _after_fork() -> None:
    membership.inherit_fork_pipes(_enclosing_runs())
    for recorder in list(_recorders):
        recorder.interrupts.clear()  # the parent ends its own runs
        _run_guarded(recorder.begin_again)  # and stores what it has queued
    scope = SCOPE.get()
    if scope is not None:  # the child works on the run, even if it records nothing for hours
        _run_guarded(partial(scope.recorder.join, scope.run_id, scope.trace_id))


def _run_guarded(step: Callable[[], T]) -> T | None:
    """Run a step and log its exception, so that the next step runs too."""
    try:
        return step()
    except Exception:
        log.exception("longwatch: a recorder failed while the process ended or forked")
        return None

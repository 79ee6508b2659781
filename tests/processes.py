"""The processes that tests start: they can be signalled, and none outlives its test.

A process that a test leaves running is ended by its process id and reported. This process adopts orphans for
that: the child of a process that has ended becomes its child. Needs Linux; elsewhere no leftovers are found.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterable, Set
from multiprocessing import resource_tracker
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36  # <sys/prctl.h>
PROC = Path("/proc")

GRACE_SECONDS = 10.0  # for a process that was signalled to end and is still ending, on a loaded machine
POLL_EVERY_SECONDS = 0.01

# A shell ignores the first two for its background jobs, `nohup` the third for its command.
RESTORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD)


def restore_signals() -> None:
    """Ignore and block no signal: a child inherits both, and a test that signals it would wait for ever."""
    for number in RESTORED:
        if signal.getsignal(number) is signal.SIG_IGN:
            interrupts = number is signal.SIGINT
            signal.signal(number, signal.default_int_handler if interrupts else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def adopt_orphans() -> None:
    """From now on a process below this one whose parent has ended becomes a child of this one."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> frozenset[int]:
    """The process ids of this process's own children, without the one that multiprocessing keeps."""
    found: set[int] = set()
    for task in PROC.glob("self/task/*/children"):
        try:
            found.update(map(int, task.read_text().split()))
        except (FileNotFoundError, ProcessLookupError):
            pass  # this thread has just ended; its children belong to another one now
    return frozenset(found - {getattr(resource_tracker._resource_tracker, "_pid", None)})


def end_leftovers(ignored: Set[int] = frozenset(), *, grace_seconds: float) -> list[str]:
    """End every child that is not `ignored` and, in turn, what it leaves behind; return what they were.

    Those that end by themselves within the grace period are not leftovers. Only own children are ended: their
    process ids can not belong to another process meanwhile, because only this one collects them.
    """
    deadline = time.monotonic() + grace_seconds
    ended: list[str] = []
    while running := [pid for pid in children() - ignored if not _collected(pid)]:
        if time.monotonic() >= deadline:
            ended += map(_described, running)
            kill(running)
        else:
            time.sleep(POLL_EVERY_SECONDS)
    return ended


def kill(pids: Iterable[int]) -> None:
    """End these children at once. What they leave behind are children of this process from then on."""
    for pid in children().intersection(pids):
        os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:
            pass  # a thread that waited for it was quicker


def _collected(pid: int) -> bool:
    """Whether this child has ended. Its exit status is taken, so that it is gone from the process table."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True  # a thread that waited for it was quicker


def _described(pid: int) -> str:
    try:
        command = (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        command = b""
    return f"{pid}: {command.replace(bytes(1), b' ').decode(errors='replace').strip() or 'unknown command'}"

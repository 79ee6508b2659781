"""Closes SQLite files before a fork; parent and child reopen them on next use."""

from __future__ import annotations

import atexit
import os
import sqlite3
import struct
import sys
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet

from longwatch.clock import SYSTEM_CLOCK

if sys.platform == "linux":
    import fcntl

    # struct flock: a read lock on the bytes that SQLite's connections lock
    SHARED_LOCK = struct.pack("@hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0x4000_0002, 510, 0)

FORK_WAIT_SECONDS = 1.0  # for a transaction to end


class Forkable(Protocol):
    """A database that is closed around a fork."""

    def pause(self, timeout_seconds: float) -> bool: ...

    def resume(self) -> None: ...

    def leave_to_parent(self) -> None: ...


_databases: WeakSet[Forkable] = WeakSet()
_held: dict[str, int] = {}  # descriptors by path
inherited: list[sqlite3.Connection] = []  # a parent's connections, which a child must not even close


def register(database: Forkable) -> None:
    """Pause and resume this database around every fork, as long as it exists."""
    _databases.add(database)


def _before_fork() -> None:
    deadline = SYSTEM_CLOCK.monotonic() + FORK_WAIT_SECONDS
    paused = [database.pause(max(0.0, deadline - SYSTEM_CLOCK.monotonic())) for database in list(_databases)]
    if all(paused):  # not while one is open: closing a descriptor drops SQLite's own locks too
        _release_logs()


def _release_logs() -> None:
    while _held:
        os.close(_held.popitem()[1])


def hold_log(path: str) -> None:
    """Until the fork, keep SQLite from treating a closing connection as the last one of this file.

    The last connection copies the log into the file and waits for the disk, which delays the fork of a busy
    process by half a second. A lock of the descriptor conflicts even with those of its own process.
    """
    if sys.platform == "linux" and path not in _held:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        _held[path] = descriptor
        with suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, SHARED_LOCK)


def _after_fork_in_parent() -> None:
    for database in list(_databases):
        database.resume()


def _after_fork_in_child() -> None:
    """A child that used or closed its parent's connections could damage the file or block forever."""
    _release_logs()  # a child has no locks to lose
    for database in list(_databases):
        database.leave_to_parent()
    if inherited:
        atexit.register(_keep_inherited)


def _keep_inherited() -> None:
    """Leak references: at exit Python frees, and so closes, every connection."""
    try:
        from ctypes import py_object, pythonapi
    except ImportError:  # without ctypes they are freed, which is mostly harmless
        return
    for connection in inherited:
        pythonapi.Py_IncRef(py_object(connection))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
    )

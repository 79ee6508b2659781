"""Open SQLite files in a process that forks: paused before, resumed in the parent, reopened in the child."""

from __future__ import annotations

import atexit
import os
import sqlite3
from typing import Protocol
from weakref import WeakSet

from longwatch.clock import SYSTEM_CLOCK

FORK_WAIT_SECONDS = 1.0  # for a transaction to end


class Forkable(Protocol):
    """A database that takes part."""

    def pause(self, timeout_seconds: float) -> None: ...

    def resume(self) -> None: ...

    def leave_to_parent(self) -> None: ...


_databases: WeakSet[Forkable] = WeakSet()
inherited: list[sqlite3.Connection] = []  # a parent's connections, which must not even be closed here


def register(database: Forkable) -> None:
    """Pause and resume this database around every fork, as long as it exists."""
    _databases.add(database)


def _before_fork() -> None:
    deadline = SYSTEM_CLOCK.monotonic() + FORK_WAIT_SECONDS
    for database in list(_databases):
        database.pause(max(0.0, deadline - SYSTEM_CLOCK.monotonic()))


def _after_fork_in_parent() -> None:
    for database in list(_databases):
        database.resume()


def _after_fork_in_child() -> None:
    """A child that used or closed its parent's connections could damage the file, or wait for ever."""
    for database in list(_databases):
        database.leave_to_parent()
    if inherited:
        atexit.register(_keep_inherited)


def _keep_inherited() -> None:
    """Python frees, and so closes, everything when it ends: take references that nobody gives back."""
    try:
        from ctypes import py_object, pythonapi
    except ImportError:  # a Python without ctypes frees them, which mostly goes well
        return
    for connection in inherited:
        pythonapi.Py_IncRef(py_object(connection))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
    )

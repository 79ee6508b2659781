"""Tells whoever listens to a SQLite file, in this process, that something was appended to it.

By path and not by journal: a recorder and a follower of one process open the file each for itself.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

OnChange = Callable[[], None]

_ears: dict[Path, list[OnChange]] = {}
_lock = threading.Lock()


def notify(path: Path) -> None:
    """Something was appended to this file."""
    if not _ears:
        return
    with _lock:
        heard = list(_ears.get(path, ()))
    for each in heard:
        each()


def subscribe(path: Path, heard: OnChange) -> None:
    """Call `heard` after each append of this process, in the thread that appended."""
    with _lock:
        _ears.setdefault(path, []).append(heard)


def unsubscribe(path: Path, heard: OnChange) -> None:
    """Do not call it any more."""
    with _lock:
        ears = _ears.get(path, [])
        if heard in ears:
            ears.remove(heard)
        if not ears:
            _ears.pop(path, None)


def _after_fork() -> None:
    """Those who listen are in the parent, and the lock may have been held there."""
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()
    _ears.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

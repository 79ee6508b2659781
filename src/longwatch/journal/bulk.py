"""Building the large values that a long run folds to."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_under_way: set[object] = set()  # in all threads


@contextmanager
def without_collection() -> Iterator[None]:
    """Create many objects that stay, none of them in a cycle, without Python's search for cycles.

    The search takes longer than the fold of a long run, and no other thread runs meanwhile. What exists at
    the end is exempt from later searches; reference counting still frees it.
    """
    this = object()
    with _lock:
        _under_way.add(this)
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            _under_way.remove(this)
            if not _under_way:
                gc.freeze()
                gc.enable()

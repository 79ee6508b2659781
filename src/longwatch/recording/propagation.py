"""Threads and thread pools that are started inside a run belong to it.

asyncio tasks and `asyncio.to_thread` carry contextvars by themselves; `threading.Thread` and
`ThreadPoolExecutor` do not, so both are wrapped once, when the first run begins. Outside a run the wrappers
change nothing. Worker threads of a pool carry no context of their own: each task brings its submitter's.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from longwatch.recording.scope import SCOPE

WRITER_NAME = "longwatch-recorder"

_plain_start = threading.Thread.start
_plain_submit = ThreadPoolExecutor.submit


def install() -> None:
    """Carry the run into threads from now on. Safe to call again and again."""
    if threading.Thread.start is _plain_start:
        threading.Thread.start = _start  # type: ignore[method-assign]
    if ThreadPoolExecutor.submit is _plain_submit:
        ThreadPoolExecutor.submit = _submit  # type: ignore[method-assign,assignment]


def uninstall() -> None:
    """Put the standard library's own methods back."""
    threading.Thread.start = _plain_start  # type: ignore[method-assign]
    ThreadPoolExecutor.submit = _plain_submit  # type: ignore[method-assign]


@functools.wraps(_plain_start)
def _start(self: threading.Thread) -> None:
    if SCOPE.get() is not None and not _works_for_others(self):
        self.run = functools.partial(copy_context().run, self.run)  # type: ignore[method-assign]
    _plain_start(self)


def _works_for_others(thread: threading.Thread) -> bool:
    module = getattr(getattr(thread, "_target", None), "__module__", None)  # None for a method of a builtin
    return thread.name == WRITER_NAME or (isinstance(module, str) and module.startswith("concurrent.futures"))


@functools.wraps(ThreadPoolExecutor.submit)  # type: ignore[arg-type]
def _submit(
    self: ThreadPoolExecutor, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Future[Any]:
    if SCOPE.get() is None:
        return _plain_submit(self, function, *args, **kwargs)
    return _plain_submit(self, copy_context().run, function, *args, **kwargs)

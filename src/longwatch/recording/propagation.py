"""Propagates the current run to threads and thread pools that are started inside it.

asyncio tasks and `asyncio.to_thread` inherit context variables; `threading.Thread` and `ThreadPoolExecutor`
do not, so both are wrapped when the first run begins. Outside a run the wrappers change nothing. The workers
of a pool have no context of their own: each task runs in the context of its submitter.
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
    """Install the wrappers. Safe to call repeatedly."""
    if threading.Thread.start is _plain_start:
        threading.Thread.start = _start  # type: ignore[method-assign]
    if ThreadPoolExecutor.submit is _plain_submit:
        ThreadPoolExecutor.submit = _submit  # type: ignore[method-assign,assignment]


def uninstall() -> None:
    """Restore the methods of the standard library."""
    threading.Thread.start = _plain_start  # type: ignore[method-assign]
    ThreadPoolExecutor.submit = _plain_submit  # type: ignore[method-assign]


@functools.wraps(_plain_start)
def _start(self: threading.Thread) -> None:
    if SCOPE.get() is not None and not _is_shared_worker(self):
        self.run = functools.partial(copy_context().run, self.run)  # type: ignore[method-assign]
    _plain_start(self)


def _is_shared_worker(thread: threading.Thread) -> bool:
    module = getattr(
        getattr(thread, "_target", None), "__module__", None
    )  # a bound method of a builtin has none
    return thread.name == WRITER_NAME or (isinstance(module, str) and module.startswith("concurrent.futures"))


@functools.wraps(ThreadPoolExecutor.submit)  # type: ignore[arg-type]
def _submit(
    self: ThreadPoolExecutor, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Future[Any]:
    if SCOPE.get() is None:
        return _plain_submit(self, function, *args, **kwargs)
    return _plain_submit(self, copy_context().run, function, *args, **kwargs)

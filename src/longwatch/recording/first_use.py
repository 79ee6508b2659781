"""Registers the exit handler, and provides stand-ins for functions that cannot be loaded.

longwatch loads its modules on first use. That may happen inside an exit handler or a `__del__`, in a thread
that outlives the main thread, or while the process has no free file descriptor. So this module is loaded with
the package.
"""

from __future__ import annotations

import atexit
import sys
from typing import Any, Self

LIFECYCLE = "longwatch.recording.lifecycle"

has_ended = False  # the exit handler has run: events must be stored at once from now on


class StandIn:
    """Replaces a function that cannot be loaded. It does nothing, and the observed code continues."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        """As a bare decorator, return the function; otherwise return the stand-in."""
        return args[0] if len(args) == 1 and callable(args[0]) and not options else self

    def __getattr__(self, name: str) -> Self:
        return self

    def __bool__(self) -> bool:
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


def make_stand_in(name: str, error: Exception) -> StandIn | None:
    """A stand-in for a function that cannot be loaded now, with a line on stderr; None if it never can be."""
    is_temporary = isinstance(error, OSError) or sys.meta_path is None
    if not is_temporary:
        return None
    if sys.stderr is not None:  # None at the very end of the interpreter
        sys.stderr.write(f"longwatch: cannot load longwatch.{name}, so nothing is recorded: {error}\n")
    return StandIn()


def is_loaded_late() -> bool:
    """Whether longwatch is being loaded after the main thread has ended, when no exit handler is called.

    The outermost frame is only compared with the exit handlers: `sitecustomize`, `.pth` files and programs
    that embed Python load modules without any script around them.
    """
    threading = sys.modules.get("threading")
    if sys.is_finalizing() or (threading is not None and not threading.main_thread().is_alive()):
        return True
    frame = sys._getframe()  # an exit handler may be the first to load `threading`
    while frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code in _exit_handler_codes()


class _Collector:
    """Collects the objects that it is compared with, and equals none of them."""

    def __init__(self) -> None:
        self.compared: list[Any] = []

    def __eq__(self, other: object) -> bool:
        self.compared.append(other)
        return False

    __hash__ = None  # type: ignore[assignment]


def _exit_handler_codes() -> list[object]:
    """The code of every registered exit handler, found by `unregister`, which compares with each."""
    collector = _Collector()
    atexit.unregister(collector)  # type: ignore[arg-type]
    return [_code_of(handler) for handler in collector.compared]


def _code_of(handler: Any) -> object:
    while hasattr(handler, "func") and not hasattr(handler, "__code__"):  # functools.partial
        handler = handler.func
    return getattr(handler, "__code__", None) or getattr(type(handler).__call__, "__code__", None)


def _at_exit() -> None:
    global has_ended  # noqa: PLW0603
    lifecycle = sys.modules.get(LIFECYCLE)
    if not has_ended and lifecycle is not None:
        lifecycle.at_exit()
    has_ended = True


has_ended = is_loaded_late()
# Twice: Ctrl-C can end the first call before its first line.
atexit.register(_at_exit)
atexit.register(_at_exit)

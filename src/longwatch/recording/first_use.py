"""What must be in place before the rest of longwatch is loaded, for a first use at an awkward moment.

The rest is loaded when it is first used. That may be inside an exit handler or a `__del__`, in a thread that
outlives the main thread, or while the process has no free file descriptor. So this module is loaded with the
package: it registers the exit handler in time, and stands in for what cannot be loaded.
"""

from __future__ import annotations

import atexit
import sys
from typing import Any, Self

LIFECYCLE = "longwatch.recording.lifecycle"
_OUTERMOST = ("<module>", "_run_module_as_main")  # where the main thread begins: a script, or `python -m`

has_ended = False  # the exit handler has run: what is recorded from now on must be stored at once


class Unrecorded:
    """In place of a function that cannot be loaded: does nothing, and lets the observed code go on."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        """As a bare decorator it returns the function; as anything else, itself."""
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


def stand_in(name: str, error: Exception) -> Unrecorded | None:
    """For a function that cannot be loaded at this moment, with a line on stderr; None if it never can be."""
    is_passing = isinstance(error, OSError) or sys.meta_path is None
    if not is_passing:
        return None
    if sys.stderr is not None:  # at the very end it is not there
        sys.stderr.write(f"longwatch: longwatch.{name} cannot be loaded, so nothing is recorded: {error}\n")
    return Unrecorded()


def is_loaded_late() -> bool:
    """Whether longwatch is being loaded after the main thread has ended: no exit handler will be called."""
    threading = sys.modules.get("threading")
    if threading is not None and threading.current_thread() is not threading.main_thread():
        return not threading.main_thread().is_alive()
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_name not in _OUTERMOST


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

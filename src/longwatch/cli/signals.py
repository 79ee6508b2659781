"""Signals that end a command, raised as an exception so that the command releases its leases and files."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from longwatch.cli.exit_codes import ExitCode
from longwatch.cli.render.terminal import remark

STOPPING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into SystemExit with the exit code that a shell expects, 128 + the number.

    A signal that is ignored, such as SIGHUP under `nohup`, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    active = [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, _stop) for number in active}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def report_interrupt(message: str) -> ExitCode:
    """Report what Ctrl-C stopped, and return the exit code."""
    echoed = "\n" if sys.stderr.isatty() else ""  # ends the line on which the terminal echoed `^C`
    remark(f"{echoed}longwatch: {message}")
    return ExitCode.INTERRUPTED


def _stop(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)

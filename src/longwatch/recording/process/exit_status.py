"""How a process ended, and the terminal event of one that did not write its own."""

from __future__ import annotations

import errno
import signal
from collections.abc import Container, Sequence
from dataclasses import dataclass

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # exit codes of a shell
BY_SIGNAL = 128
MAX_ERROR_CHARACTERS = 500  # of the last line of standard error in the run's one-line error


@dataclass(frozen=True, slots=True)
class Exit:
    """The exit of a process as the operating system reports it."""

    code: int | None = None
    signal_number: int | None = None

    @classmethod
    def of(cls, returncode: int) -> Exit:
        """From the return code of `subprocess`, which is negative for a signal."""
        return cls(signal_number=-returncode) if returncode < 0 else cls(code=returncode)

    @property
    def shell_code(self) -> int:
        return BY_SIGNAL + self.signal_number if self.signal_number is not None else self.code or 0

    @property
    def description(self) -> str:
        """`exit code 3` or `ended by SIGKILL`."""
        if self.signal_number is not None:
            return f"ended by {signal_name(self.signal_number)}"
        return f"exit code {self.code}"


def terminal_event(
    exit_: Exit,
    *,
    interrupted_by: int | None,
    sent: Container[int | None] = (),
    execution_time_ms: float,
    stderr: Sequence[str],
) -> tuple[str, dict[str, object]]:
    """The type and payload of the terminal event of a process that wrote none itself.

    `sent` has the signals that longwatch sent to it, so that the event can distinguish a forwarded signal.
    """
    payload: dict[str, object] = {"written_for": True, "execution_time_ms": execution_time_ms}
    if exit_.signal_number is not None:
        payload["signal"] = signal_name(exit_.signal_number)
        payload["forwarded"] = exit_.signal_number in sent
    else:
        payload["exit_code"] = exit_.code
    if interrupted_by is None and exit_.code == 0:
        return "workflow_complete", {**payload, "status": "completed"}
    if stderr:
        payload["stderr"] = list(stderr)
    if interrupted_by is not None:
        message = f"interrupted by {signal_name(interrupted_by)}, {exit_.description}"
        return "workflow_error", {**payload, "status": "interrupted", "error_message": message}
    last = next((line.strip() for line in reversed(stderr) if line.strip()), "")[:MAX_ERROR_CHARACTERS]
    message = f"{exit_.description}: {last}" if last else exit_.description
    return "workflow_error", {**payload, "status": "failed", "error_message": message}


def describe_start_failure(command: str, error: OSError) -> tuple[int, str]:
    """The exit code and the message for a command that could not be started."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return NOT_FOUND, f"Command {command!r} not found. Check its spelling, or use its path."
    if error.errno == errno.EACCES:
        return NOT_EXECUTABLE, f"Permission denied to execute {command!r}. Run `chmod +x` on it first."
    if error.errno == errno.ENOEXEC:
        return NOT_EXECUTABLE, f"Cannot execute {command!r}. Run it with its interpreter: `sh {command}`."
    return NOT_EXECUTABLE, f"Cannot start {command!r}: {error.strerror or error}."


def signal_name(number: int) -> str:
    """`SIGTERM`; a real-time signal has only a number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

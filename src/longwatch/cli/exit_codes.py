"""Exit codes of the command. The table in docs/reference/exit-codes.md is generated from `ExitCode`."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from longwatch.model.endings import Status

if TYPE_CHECKING:
    from longwatch.cli.follow_run import WatchResult


class ExitCode(IntEnum):
    """The exit codes of all commands, with their description in the reference."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> ExitCode:
        code = int.__new__(cls, value)
        code._value_ = value
        code.meaning = meaning
        return code

    SUCCEEDED = 0, "Success."
    FAILED = 1, "The work failed, or the command found a problem."
    USAGE = (
        2,
        "Invalid input: unknown option, unknown run, invalid time, invalid settings, "
        "a table with the wrong schema, a missing extra.",
    )
    UNAVAILABLE = 3, "The journal cannot be reached, is locked, full or throttled. Retrying may help."
    STILL_RUNNING = 4, "Still running."
    DIED = 5, "The run [died](../explanation/endings.md): its processes exited, and none reported an outcome."
    HANGUP = 129, "SIGHUP ended `watch` of another system, `executions watch` or `demo`."
    INTERRUPTED = 130, "Interrupted with Ctrl-C."
    PIPE_CLOSED = 141, "The reader of the output closed the pipe, as `head` does."
    TERMINATED = 143, "SIGTERM, as 129. `serve` exits with 0 on SIGTERM and SIGHUP."


def of_watch(result: WatchResult) -> ExitCode:
    """The outcome of the run if it is known, otherwise how the watch ended."""
    if result.is_deleted:
        return ExitCode.FAILED
    if result.status is Status.DIED:
        return ExitCode.DIED
    if result.lost_contact:
        return ExitCode.UNAVAILABLE
    if result.status in (Status.PENDING, Status.RUNNING):
        return ExitCode.STILL_RUNNING
    return of_success(result.status is Status.SUCCEEDED)


def of_success(success: bool) -> ExitCode:
    """The code of a command that either succeeds or finds a problem."""
    return ExitCode.SUCCEEDED if success else ExitCode.FAILED

"""The executor watchdog: a small process that reports the death of an executor to the server.

A server cannot see whether a process on another machine is alive, and silence never ends a turn. So this
process waits for the end of a pipe that only the executor holds. If the executor is killed, the pipe ends,
and the watchdog reports the death.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from typing import IO, Self

from longwatch.clock import SYSTEM_CLOCK
from longwatch.errors import LongwatchError
from longwatch.model.process import find_leftovers, leftover_text
from longwatch.remote.blocking_client import BlockingClient

_PROGRAM = "from longwatch.remote.executor_watchdog import main; main()"


class ExecutorWatchdog:
    """The watchdog process, for its executor."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @classmethod
    def start_process(cls, url: str, token: str | None, path: str, message: str) -> Self | None:
        """Start the watchdog. None if no process can be started; the turn would then only fall silent."""
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM],  # -P: import nothing from the working directory
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # not reached by signals to the executor's group
            )
        except OSError:
            return None
        assert process.stdin is not None
        instructions = {"url": url, "token": token, "path": path, "message": message}
        with suppress(OSError):
            process.stdin.write(json.dumps(instructions).encode() + b"\n")
            process.stdin.flush()
        return cls(process)

    def cancel(self) -> None:
        """Stop the watchdog: the executor has ended the turn itself."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()


def main(pipe: IO[bytes] | None = None) -> None:
    """Wait for the end of standard input, then report the death to the server."""
    from longwatch.remote.turn_sink import RETRY_SECONDS, call_with_retries

    source = sys.stdin.buffer if pipe is None else pipe
    instructions = json.loads(source.readline())
    source.read()
    calls = BlockingClient(instructions["url"], token=instructions["token"])
    left = leftover_text(find_leftovers(instructions["path"].rpartition("/")[2]))
    ending = {"status": "died", "error": f"{instructions['message']} {left}".strip()}
    with suppress(LongwatchError):  # rejected, or unreachable for too long
        call_with_retries(
            SYSTEM_CLOCK, lambda: calls.post(f"{instructions['path']}/end", ending), RETRY_SECONDS
        )

"""A small process beside an executor, which says the executor's last word if that dies without one.

A server cannot see whether a process on another machine lives, and silence alone ends no turn. So somebody on
that machine looks: this process waits for the end of a pipe that only the executor holds. If the executor is
killed the pipe ends, and the server is told what became of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from typing import IO, Self

from longwatch.clock import SYSTEM_CLOCK
from longwatch.errors import LongwatchError
from longwatch.model.leftovers import leftover_words, leftovers_of
from longwatch.remote.blocking_client import BlockingClient

_PROGRAM = "from longwatch.remote.executor_watchdog import main; main()"


class ExecutorWatchdog:
    """The process, as its executor sees it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @classmethod
    def start_process(cls, url: str, token: str | None, path: str, message: str) -> Self | None:
        """Start it. None where there is no room for another process: then the turn would only fall silent."""
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM],  # -P: what lies in this folder is not ours to import
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a signal for the executor's group is not for it
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
        """The executor has said its own."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()


def main(pipe: IO[bytes] | None = None) -> None:
    """Wait for the end of standard input, then tell the server."""
    from longwatch.remote.turn_sink import RETRY_SECONDS, call_with_retries

    source = sys.stdin.buffer if pipe is None else pipe
    instructions = json.loads(source.readline())
    source.read()
    calls = BlockingClient(instructions["url"], token=instructions["token"])
    left = leftover_words(leftovers_of(instructions["path"].rpartition("/")[2]))
    ending = {"status": "died", "error": f"{instructions['message']} {left}".strip()}
    with suppress(LongwatchError):  # refused, or away for too long: then nobody can tell any more
        call_with_retries(
            SYSTEM_CLOCK, lambda: calls.post(f"{instructions['path']}/end", ending), RETRY_SECONDS
        )

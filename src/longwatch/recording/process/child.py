"""A child process: its group, its signals, and its two pipes, which are read to the end within a limit."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO

from longwatch.clock import Clock

READ_BYTES = 65_536
PIPE_BYTES = 1_048_576  # more than a pipe holds, so it covers all that a process wrote before it ended
QUIET_SECONDS = 1.0  # without output after the exit: only another process still holds the pipe
DRAIN_SECONDS = 5.0  # of output after the exit


class Child:
    """A child process, in a group of its own unless it shares the terminal of longwatch."""

    def __init__(self, process: subprocess.Popen[bytes], *, shares_group: bool) -> None:
        self._process = process
        self._shares_group = shares_group
        self.pid = process.pid
        assert process.stdout is not None
        assert process.stderr is not None
        self.stdout = process.stdout
        self.stderr = process.stderr
        self.exited, self._running = os.pipe()  # `exited` reaches its end when the process does

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        shares_group: bool,
        stdin: IO[bytes] | None = None,
    ) -> Child:
        """Start the command with this standard input, or the inherited one. Raises OSError on failure."""
        process = subprocess.Popen(
            list(command),
            env=dict(environment),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            process_group=None if shares_group else 0,
        )
        return cls(process, shares_group=shares_group)

    def wait(self) -> None:
        """Wait for the process to exit, and notify the readers of its pipes."""
        self._process.wait()
        os.close(self._running)

    @property
    def returncode(self) -> int | None:
        """As in `subprocess`; None while the process runs."""
        return self._process.returncode

    def send(self, number: int) -> None:
        """Send a signal to the whole group, or to the process alone if longwatch is in the same group."""
        with suppress(ProcessLookupError, PermissionError):  # it has exited, or belongs to another user
            if not self._shares_group:
                os.killpg(self.pid, number)
            elif self.returncode is None:
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)

    def has_leftovers(self) -> bool:
        """Whether processes of its group are still running."""
        if self._shares_group:
            return False
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):  # none, or none that longwatch may stop
            return False
        return True

    def close(self) -> None:
        self.stdout.close()
        self.stderr.close()
        os.close(self.exited)


def pump(
    source: int,
    sink: int | None,
    *,
    exited: int,
    on_chunk: Callable[[bytes], None],
    warn: Callable[[str], None],
    clock: Clock,
) -> None:
    """Copy a pipe to the sink until it is closed or, once the process has exited, has run dry.

    Returns early if the sink has lost its reader: the caller then closes the pipe, and the process gets
    SIGPIPE as it would without longwatch.
    """
    waiting = select.poll()
    waiting.register(source, select.POLLIN)
    waiting.register(exited, select.POLLIN)
    drain = PipeDrain(clock)
    while True:
        ready = [descriptor for descriptor, _ in waiting.poll(drain.timeout_ms())]
        if exited in ready:
            waiting.unregister(exited)
            drain.begin()
            continue
        if not ready or not (chunk := os.read(source, READ_BYTES)):
            return
        if sink is not None:
            try:
                write_all(sink, chunk)
            except BrokenPipeError:
                on_chunk(chunk)
                return
            except OSError as error:
                warn(f"the command's output can no longer be printed, only recorded: {error}")
                sink = None
        on_chunk(chunk)
        if drain.is_complete(len(chunk)):
            return


class PipeDrain:
    """How long to read on after the process has exited: other processes may still hold its pipe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: float | None = None
        self._bytes = 0

    def begin(self) -> None:
        """Start the limit: the process has exited."""
        self._began = self._clock.monotonic()

    def timeout_ms(self) -> int | None:
        """How long to wait for more; None: without limit."""
        if self._began is None:
            return None
        return int(min(QUIET_SECONDS, max(0.0, self._left())) * 1000)

    def is_complete(self, count: int) -> bool:
        """Count the bytes that were read. Returns whether to stop, although more may come."""
        if self._began is None:
            return False
        self._bytes += count
        return self._bytes > PIPE_BYTES and self._left() <= 0

    def _left(self) -> float:
        assert self._began is not None
        return self._began + DRAIN_SECONDS - self._clock.monotonic()


def is_terminal(descriptor: int) -> bool:
    """Whether the descriptor is open and a terminal."""
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything, also to a descriptor in non-blocking mode."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            select.select([], [descriptor], [])

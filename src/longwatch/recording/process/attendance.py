"""Attends a started process to its end: passes signals on, reads its pipes, and kills it when patience ends.

The main thread only waits: for signals, for the end of the process, and for the time when patience ends. Two
threads read the pipes, one waits for the process.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from queue import Empty, SimpleQueue
from typing import IO

from longwatch.clock import Clock
from longwatch.recording.calls import tell_of_fault
from longwatch.recording.process.child import Child, pump
from longwatch.recording.process.lines import MAX_LINE_BYTES, Line, LineSplitter
from longwatch.recording.process.stopping import PASSED_ON, Action, Stopping

LEFTOVERS_SECONDS = 0.1  # between looks whether a stopped process group is empty


@dataclass(frozen=True, slots=True)
class Reading:
    """What happens to the output of one pipe."""

    take: Callable[[Line], None]
    sink: int | None = None  # a descriptor to which everything is passed on
    max_line_bytes: int = MAX_LINE_BYTES


class _Told(Enum):
    """What the other threads tell the main one."""

    EXITED = "exited"
    STDOUT_READ = "standard output read to its end"
    STDERR_READ = "standard error read to its end"
    RELEASED = "the wait has a limit now"


class Attendance:
    """Attends one process."""

    def __init__(self, stopping: Stopping, *, tell: Callable[[str], None], clock: Clock) -> None:
        self.stopping = stopping
        self._tell = tell
        self._clock = clock
        self._inbox: SimpleQueue[int | _Told] = SimpleQueue()  # safe to fill from a signal handler
        self._caught = 0  # signals
        self._release_at: float | None = None  # when the process is left to itself

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Collect the signals that mean us, except those that whoever started us wants ignored."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in PASSED_ON}
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, lambda caught, _: self._catch(caught))
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _catch(self, number: int) -> None:
        self._caught += 1
        self._inbox.put(number)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Stop the process as if this signal had come for us. Any thread may ask for it."""
        self._inbox.put(number)

    def release_after(self, seconds: float) -> None:
        """Wait for the process only this much longer, then leave it to itself. Any thread may ask for it."""
        self._release_at = self._clock.monotonic() + seconds
        self._inbox.put(_Told.RELEASED)

    def has_signals(self) -> bool:
        """Whether a signal has come for us since the process was attended to its end."""
        return self._caught > 0

    def attend(self, child: Child, *, stdout: Reading, stderr: Reading) -> None:
        """Return when the process is gone and its output is read, or nobody wants to wait for it."""
        readers = [
            self._read(child, child.stdout, stdout, _Told.STDOUT_READ),
            self._read(child, child.stderr, stderr, _Told.STDERR_READ),
        ]
        threading.Thread(target=self._wait_for, args=(child,), name="longwatch-wait", daemon=True).start()
        awaited = set(_Told) - {_Told.RELEASED}
        while awaited or (self.stopping.waits and child.has_leftovers()):
            try:
                told = self._inbox.get(timeout=self._patience(leftovers_only=not awaited))
            except Empty:
                self._act(child, self.stopping.on_time(self._clock.monotonic()))
                if self._is_released():
                    break
                continue
            if isinstance(told, _Told):
                awaited.discard(told)
            elif _Told.EXITED in awaited:
                self._act(child, self.stopping.on_signal(told, self._clock.monotonic()), told)
            else:  # the process itself is gone, and whoever sent this does not want to wait for the rest
                if self.stopping.waits:
                    child.kill()
                break
        self._caught = 0
        if not any(reader.is_alive() for reader in readers):
            child.close()

    def _patience(self, *, leftovers_only: bool) -> float | None:
        now = self._clock.monotonic()
        left = self.stopping.seconds_left(now)
        if left is None and self._release_at is not None:
            return max(0.0, self._release_at - now)
        return min(LEFTOVERS_SECONDS, left) if leftovers_only and left is not None else left

    def _is_released(self) -> bool:
        """Whether the process is to be left to itself: not while it is being stopped."""
        is_due = self._release_at is not None and self._clock.monotonic() >= self._release_at
        return is_due and not self.stopping.waits

    def _act(self, child: Child, action: Action, number: int = signal.SIGKILL) -> None:
        if action is not Action.NOTHING:
            child.send(signal.SIGKILL if action is Action.KILL else number)

    def _wait_for(self, child: Child) -> None:
        child.wait()
        self._inbox.put(_Told.EXITED)

    def _read(self, child: Child, pipe: IO[bytes], reading: Reading, done: _Told) -> threading.Thread:
        def read() -> None:
            splitter = LineSplitter(max_line_bytes=reading.max_line_bytes)

            def take_chunk(chunk: bytes) -> None:
                try:
                    for line in splitter.feed(chunk):
                        reading.take(line)
                except Exception as error:  # noqa: BLE001 - the process goes on, whatever recording does
                    tell_of_fault(error)

            try:
                pump(
                    pipe.fileno(),
                    reading.sink,
                    gone=child.gone,
                    take=take_chunk,
                    tell=self._tell,
                    clock=self._clock,
                )
                pipe.close()
                for line in splitter.flush():
                    reading.take(line)
            except Exception as error:  # noqa: BLE001
                tell_of_fault(error)
            finally:
                self._inbox.put(done)

        thread = threading.Thread(target=read, name=f"longwatch-{done.name.lower()}", daemon=True)
        thread.start()
        return thread

"""Runs a child process to its end: forwards signals, reads its pipes, and stops it step by step.

The main thread only waits: for signals, for the exit of the process, and for the end of the grace period. Two
threads read the pipes, one waits for the process.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from queue import Empty, SimpleQueue
from typing import IO

from longwatch.clock import Clock
from longwatch.recording.calls import report_fault
from longwatch.recording.process.child import Child, pump
from longwatch.recording.process.output import MAX_LINE_BYTES, LineSplitter, OutputLine

GRACE_SECONDS = 10.0

# A signal that arrives just before the main thread blocks does not wake it: Python calls the handler later.
SIGNAL_SECONDS = 1.0
FORWARDED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
TERMINAL_SIGNALS = frozenset({signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})  # sent to a whole process group


class StopAction(Enum):
    """What the runner does next."""

    NOTHING = "nothing"
    FORWARD = "forward"
    KILL = "kill"


@dataclass(slots=True)
class StopPolicy:
    """Decides how to stop the process from the signals received and the monotonic time."""

    grace_seconds: float = GRACE_SECONDS
    shares_group: bool = False  # the process is in the same group, so it gets the terminal's signals too
    reason: int | None = None  # the first signal
    sent: set[int] = field(default_factory=set)  # to the process
    _deadline: float | None = None
    _interrupts: int = 0
    _killed: bool = False

    def on_signal(self, number: int, now: float) -> StopAction:
        """Handle a signal that longwatch received. A second Ctrl-C kills the process."""
        if self._killed:
            return StopAction.NOTHING
        if self.reason is None:
            self.reason = number
            self._deadline = now + self.grace_seconds
        self._interrupts += number == signal.SIGINT
        if self._interrupts > 1 and number == signal.SIGINT:
            return self._kill()
        if self.shares_group and number in TERMINAL_SIGNALS:
            return StopAction.NOTHING
        self.sent.add(number)
        return StopAction.FORWARD

    def on_time(self, now: float) -> StopAction:
        """Kill the process if the grace period is over."""
        if self._deadline is not None and now >= self._deadline:
            return self._kill()
        return StopAction.NOTHING

    @property
    def waits(self) -> bool:
        """Whether the grace period after a signal is running."""
        return self._deadline is not None

    def seconds_left(self, now: float) -> float | None:
        """How long to wait for the process before calling `on_time`; None: without limit."""
        return None if self._deadline is None else max(0.0, self._deadline - now)

    def _kill(self) -> StopAction:
        self._killed, self._deadline = True, None
        self.sent.add(signal.SIGKILL)
        return StopAction.KILL


LEFTOVERS_SECONDS = 0.1  # between checks whether a stopped process group is empty


@dataclass(frozen=True, slots=True)
class OutputTarget:
    """Where the output of one pipe goes."""

    on_line: Callable[[OutputLine], None]
    sink: int | None = None  # a descriptor to which the output is copied
    max_line_bytes: int = MAX_LINE_BYTES


class _ThreadReport(Enum):
    """What the other threads report to the main thread."""

    EXITED = "exited"
    STDOUT_READ = "standard output read to its end"
    STDERR_READ = "standard error read to its end"
    RELEASED = "the wait has a limit now"


class ChildRunner:
    def __init__(self, stop_policy: StopPolicy, *, warn: Callable[[str], None], clock: Clock) -> None:
        self.stop_policy = stop_policy
        self._warn = warn
        self._clock = clock
        self._messages: SimpleQueue[int | _ThreadReport] = SimpleQueue()  # safe to fill from a signal handler
        self._caught = 0  # signals
        self._release_at: float | None = None  # when to stop waiting for the process

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Handle signals, except those that the parent process set to be ignored."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in FORWARDED_SIGNALS}
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
        self._messages.put(number)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Stop the process as if longwatch had received this signal. Any thread may call it."""
        self._messages.put(number)

    def release_after(self, seconds: float) -> None:
        """Wait only this much longer, then leave the process running. Any thread may call it."""
        self._release_at = self._clock.monotonic() + seconds
        self._messages.put(_ThreadReport.RELEASED)

    def has_signals(self) -> bool:
        """Whether longwatch has received a signal since `run` returned."""
        return self._caught > 0

    def run(self, child: Child, *, stdout: OutputTarget, stderr: OutputTarget) -> None:
        """Return when the process has exited and its output is read, or when waiting was cut short."""
        readers = [
            self._read(child, child.stdout, stdout, _ThreadReport.STDOUT_READ),
            self._read(child, child.stderr, stderr, _ThreadReport.STDERR_READ),
        ]
        threading.Thread(target=self._wait_for, args=(child,), name="longwatch-wait", daemon=True).start()
        awaited = set(_ThreadReport) - {_ThreadReport.RELEASED}
        while awaited or (self.stop_policy.waits and child.has_leftovers()):
            try:
                message = self._messages.get(timeout=self._wait_seconds(leftovers_only=not awaited))
            except Empty:
                self._act(child, self.stop_policy.on_time(self._clock.monotonic()))
                if self._is_released():
                    break
                continue
            if isinstance(message, _ThreadReport):
                awaited.discard(message)
            elif _ThreadReport.EXITED in awaited:
                self._act(child, self.stop_policy.on_signal(message, self._clock.monotonic()), message)
            else:  # the process has exited; the sender of this signal does not wait for the rest
                if self.stop_policy.waits:
                    child.kill()
                break
        self._caught = 0
        if not any(reader.is_alive() for reader in readers):
            child.close()

    def _wait_seconds(self, *, leftovers_only: bool) -> float:
        now = self._clock.monotonic()
        left = self.stop_policy.seconds_left(now)
        if left is None and self._release_at is not None:
            left = max(0.0, self._release_at - now)
        elif leftovers_only and left is not None:
            left = min(LEFTOVERS_SECONDS, left)
        return SIGNAL_SECONDS if left is None else min(SIGNAL_SECONDS, left)

    def _is_released(self) -> bool:
        """Whether to leave the process running: not while it is being stopped."""
        is_due = self._release_at is not None and self._clock.monotonic() >= self._release_at
        return is_due and not self.stop_policy.waits

    def _act(self, child: Child, action: StopAction, number: int = signal.SIGKILL) -> None:
        if action is not StopAction.NOTHING:
            child.send(signal.SIGKILL if action is StopAction.KILL else number)

    def _wait_for(self, child: Child) -> None:
        child.wait()
        self._messages.put(_ThreadReport.EXITED)

    def _read(
        self, child: Child, pipe: IO[bytes], target: OutputTarget, done: _ThreadReport
    ) -> threading.Thread:
        def read() -> None:
            splitter = LineSplitter(max_line_bytes=target.max_line_bytes)

            def split_chunk(chunk: bytes) -> None:
                try:
                    for line in splitter.feed(chunk):
                        target.on_line(line)
                except Exception as error:  # noqa: BLE001 - a fault in recording must not disturb the process
                    report_fault(error)

            try:
                pump(
                    pipe.fileno(),
                    target.sink,
                    exited=child.exited,
                    on_chunk=split_chunk,
                    warn=self._warn,
                    clock=self._clock,
                )
                pipe.close()
                for line in splitter.flush():
                    target.on_line(line)
            except Exception as error:  # noqa: BLE001
                report_fault(error)
            finally:
                self._messages.put(done)

        thread = threading.Thread(target=read, name=f"longwatch-{done.name.lower()}", daemon=True)
        thread.start()
        return thread

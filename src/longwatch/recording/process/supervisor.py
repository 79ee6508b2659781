"""Runs a command and records what it does: its events, its output, and how it ended.

The main thread only waits: for signals, for the end of the process, and for the time when patience ends. Two
threads read the pipes, one waits for the process, and `Channels` has one that looks into the journal.
"""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO

from longwatch.clock import Clock
from longwatch.journal.base import Journal
from longwatch.processes import process_started
from longwatch.recording.active import this_process
from longwatch.recording.calls import tell_of_fault
from longwatch.recording.process.channels import Channels
from longwatch.recording.process.child import Child, pump
from longwatch.recording.process.command import redacted_command
from longwatch.recording.process.endings import Exit, failed_start, terminal_event
from longwatch.recording.process.lines import Line, LineSplitter
from longwatch.recording.process.merging import HOLD_SECONDS
from longwatch.recording.process.parsing import Output, ParseError, parse
from longwatch.recording.process.stopping import FROM_TERMINAL, GRACE_SECONDS, PASSED_ON, Action, Stopping
from longwatch.recording.recorder import Recorder
from longwatch.runs import STATUS_WORDS, Status

LAST_LINES = 20  # of standard error that a terminal event keeps
LAST_LINE_CHARACTERS = 1_000
LAST_LOOK_SECONDS = 10.0
FLUSH_SECONDS = 10.0
LEFTOVERS_SECONDS = 0.1  # between looks whether a stopped process group is empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What to run, and as which run."""

    command: Sequence[str]
    run_id: str
    trace_id: str
    name: str
    environment: Mapping[str, str]
    kind: str = "workflow"
    parent_run_id: str | None = None
    run_is_new: bool = True  # False: somebody chose the id, and events of an earlier run may be there
    record_output: bool = True
    grace_seconds: float = GRACE_SECONDS
    shares_group: bool = False  # the process reads from our terminal


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it went."""

    exit_code: int  # for our own exit
    status: Status
    words: str
    duration_ms: float
    started: bool = True


class _Told(Enum):
    """What the other threads tell the main one."""

    EXITED = "exited"
    STDOUT_READ = "standard output read to its end"
    STDERR_READ = "standard error read to its end"


class Supervisor:
    """Watches one process from its start to its end."""

    def __init__(
        self,
        task: Task,
        *,
        recorder: Recorder,
        open_journal: Callable[[], Journal],
        tell: Callable[[str], None],
        sinks: tuple[int | None, int | None] = (1, 2),
        hold_seconds: float = HOLD_SECONDS,
    ) -> None:
        self._task = task
        self._recorder = recorder
        self._open_journal = open_journal
        self._tell = tell
        self._sinks = sinks
        self._hold_seconds = hold_seconds
        self._clock: Clock = recorder.clock
        self._inbox: SimpleQueue[int | _Told] = SimpleQueue()  # safe to fill from a signal handler
        self._stopping = Stopping(task.grace_seconds, task.shares_group)
        self._last_lines: deque[str] = deque(maxlen=LAST_LINES)

    def run(self) -> Outcome:
        """Run the command to its end and record it. Never raises because of the command or the journal."""
        task = self._task
        started_at, began = self._clock.now_ms(), self._clock.monotonic()
        with self._signals():
            try:
                child = Child.start(
                    task.command, environment=task.environment, shares_group=task.shares_group
                )
            except OSError as error:
                outcome = self._not_started(error, started_at)
                self._recorder.close(FLUSH_SECONDS)
                return outcome
            self._record_start(started_at, child.pid)
            channels = Channels(
                self._recorder,
                self._open_journal,
                run_id=task.run_id,
                trace_id=task.trace_id,
                since_ms=0 if task.run_is_new else started_at,
                tell=self._tell,
                clock=self._clock,
                hold_seconds=self._hold_seconds,
            )
            channels.start()
            self._watch(child, channels)
            duration = round((self._clock.monotonic() - began) * 1000, 3)
            ending = channels.finish(LAST_LOOK_SECONDS)
            assert child.returncode is not None
            exit_ = Exit.of(child.returncode)
            status = ending.status if ending is not None else self._write_ending(exit_, duration)
            self._recorder.close(FLUSH_SECONDS)
        return Outcome(exit_.shell_code, status, exit_.words, duration)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Collect the signals that mean us, except those that whoever started us wants ignored."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in PASSED_ON}
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, lambda caught, _: self._inbox.put(caught))
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _not_started(self, error: OSError, started_at: int) -> Outcome:
        code, words = failed_start(self._task.command[0], error)
        self._record_start(started_at, None)
        said = {"status": "failed", "error_message": words, "exit_code": code, "written_for": True}
        self._record("workflow_error", said)
        return Outcome(code, Status.FAILED, words, 0.0, started=False)

    def _record_start(self, started_at: int, pid: int | None) -> None:
        task = self._task
        said: dict[str, object] = {
            "kind": task.kind,
            "name": task.name,
            "command": redacted_command(task.command, self._recorder.secrets),
        }
        with suppress(OSError):  # the directory may have been removed; the command runs all the same
            said["cwd"] = str(Path.cwd())
        if task.parent_run_id is not None:
            said["parent_run_id"] = task.parent_run_id
        if pid is not None:
            said["process"] = {**this_process(), "pid": pid, "started": process_started(pid)}
        self._record("workflow_start", said, occurred_at=started_at)

    def _record(self, type: str, said: Mapping[str, object], *, occurred_at: int | None = None) -> None:
        task = self._task
        self._recorder.record(task.run_id, type, said, trace_id=task.trace_id, occurred_at=occurred_at)

    def _watch(self, child: Child, channels: Channels) -> None:
        """Return when the process is gone and its output is read, or nobody wants to wait for it."""
        stdout, stderr = self._sinks
        take_stdout = partial(self._take_stdout, channels)
        readers = [
            self._reading(child, child.stdout, stdout, take_stdout, _Told.STDOUT_READ),
            self._reading(child, child.stderr, stderr, self._take_stderr, _Told.STDERR_READ),
        ]
        threading.Thread(target=self._wait_for, args=(child,), name="longwatch-wait", daemon=True).start()
        awaited = set(_Told)
        while awaited or (self._stopping.waits and child.has_leftovers()):
            try:
                told = self._inbox.get(timeout=self._patience(leftovers_only=not awaited))
            except Empty:
                self._act(child, self._stopping.on_time(self._clock.monotonic()))
                continue
            if isinstance(told, _Told):
                awaited.discard(told)
            elif _Told.EXITED in awaited:
                self._act(child, self._stopping.on_signal(told, self._clock.monotonic()), told)
            else:  # the process itself is gone, and whoever sent this does not want to wait for the rest
                if self._stopping.waits:
                    child.kill()
                break
        if not any(reader.is_alive() for reader in readers):
            child.close()

    def _patience(self, *, leftovers_only: bool) -> float | None:
        left = self._stopping.seconds_left(self._clock.monotonic())
        return min(LEFTOVERS_SECONDS, left) if leftovers_only and left is not None else left

    def _act(self, child: Child, action: Action, number: int = signal.SIGKILL) -> None:
        if action is not Action.NOTHING:
            child.send(signal.SIGKILL if action is Action.KILL else number)

    def _wait_for(self, child: Child) -> None:
        child.wait()
        self._inbox.put(_Told.EXITED)

    def _reading(
        self, child: Child, pipe: IO[bytes], sink: int | None, take: Callable[[Line], None], done: _Told
    ) -> threading.Thread:
        def read() -> None:
            splitter = LineSplitter()

            def take_chunk(chunk: bytes) -> None:
                try:
                    for line in splitter.feed(chunk):
                        take(line)
                except Exception as error:  # noqa: BLE001 - the process goes on, whatever recording does
                    tell_of_fault(error)

            try:
                pump(
                    pipe.fileno(), sink, gone=child.gone, take=take_chunk, tell=self._tell, clock=self._clock
                )
                pipe.close()
                for line in splitter.flush():
                    take(line)
            except Exception as error:  # noqa: BLE001
                tell_of_fault(error)
            finally:
                self._inbox.put(done)

        thread = threading.Thread(target=read, name=f"longwatch-{done.name.lower()}", daemon=True)
        thread.start()
        return thread

    def _take_stdout(self, channels: Channels, line: Line) -> None:
        said = parse(line)
        if isinstance(said, Output):
            self._record_output("stdout", said.text)
        elif isinstance(said, ParseError):
            self._record("parse_error", {"text": said.text, "error": said.error})
        else:
            channels.take(said)

    def _take_stderr(self, line: Line) -> None:
        # Of a progress bar, which goes back to the line's beginning again and again, only the last is shown.
        self._last_lines.append(line.shown.rpartition("\r")[2][-LAST_LINE_CHARACTERS:])
        self._record_output("stderr", line.shown)

    def _record_output(self, stream: str, text: str) -> None:
        if self._task.record_output:
            self._record("output", {"stream": stream, "text": text})

    def _write_ending(self, exit_: Exit, duration_ms: float) -> Status:
        # What a terminal sends reaches a process that shares it too, which may be gone before we know of it.
        own_reason = exit_.signal_number if self._task.shares_group else None
        type_, said = terminal_event(
            exit_,
            interrupted_by=self._stopping.reason or (own_reason if own_reason in FROM_TERMINAL else None),
            execution_time_ms=duration_ms,
            stderr=list(self._last_lines),
        )
        self._record(type_, said)
        return STATUS_WORDS[str(said["status"])]

"""Runs a command and records what it does: its events, its output, and how it ended.

`ChildRunner` sees to the process; `DeduplicatingRecorder` has a thread that looks into the journal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from longwatch.clock import Clock
from longwatch.journal.base import Journal
from longwatch.model.attempts import JOINED
from longwatch.model.event import run_duration_ms
from longwatch.model.process import COMMAND, WRAPPER, process_of
from longwatch.model.run import STATUS_WORDS, Status
from longwatch.recording.process.child import Child
from longwatch.recording.process.child_runner import (
    FROM_TERMINAL,
    GRACE_SECONDS,
    ChildRunner,
    Reading,
    StopPolicy,
)
from longwatch.recording.process.command import redact_command
from longwatch.recording.process.deduplication import HOLD_SECONDS, DeduplicatingRecorder
from longwatch.recording.process.exit_status import Exit, describe_start_failure, terminal_event
from longwatch.recording.process.output import Output, OutputLine, ParseError, parse
from longwatch.recording.recorder import Recorder

LAST_LINES = 20  # of standard error that a terminal event keeps
LAST_LINE_CHARACTERS = 1_000
LAST_LOOK_SECONDS = 10.0
FLUSH_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec:
    """What to run, and as which run."""

    command: Sequence[str]
    run_id: str
    attempt: str
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
class CommandResult:
    """How it went."""

    exit_code: int  # for our own exit
    status: Status
    words: str
    duration_ms: int
    started: bool = True


class Supervisor:
    """Watches one process from its start to its end."""

    def __init__(
        self,
        task: CommandSpec,
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
        self._stopping = StopPolicy(task.grace_seconds, task.shares_group)
        self._attendance = ChildRunner(self._stopping, tell=tell, clock=self._clock)
        self._last_lines: deque[str] = deque(maxlen=LAST_LINES)

    def run(self) -> CommandResult:
        """Run the command to its end and record it. Never raises because of the command or the journal."""
        task = self._task
        started_at = self._clock.now_ms()
        with self._attendance.signals():
            try:
                child = Child.start(
                    task.command, environment=task.environment, shares_group=task.shares_group
                )
            except OSError as error:
                outcome = self._not_started(error, started_at)
                self._recorder.close(FLUSH_SECONDS)
                return outcome
            self._record_start(started_at)
            command = process_of(child.pid, role=COMMAND).fields
            named = {"process": command, "attempt": task.attempt}
            self._record(JOINED, {}, named, occurred_at=started_at)
            channels = DeduplicatingRecorder(
                self._recorder,
                self._open_journal,
                run_id=task.run_id,
                attempt=task.attempt,
                trace_id=task.trace_id,
                since_ms=0 if task.run_is_new else started_at,
                tell=self._tell,
                clock=self._clock,
                hold_seconds=self._hold_seconds,
            )
            channels.start()
            stdout, stderr = self._sinks
            self._attendance.attend(
                child,
                stdout=Reading(partial(self._take_stdout, channels), stdout),
                stderr=Reading(self._take_stderr, stderr),
            )
            exited_at = self._clock.now_ms()
            ending = channels.finish(LAST_LOOK_SECONDS)
            assert child.returncode is not None
            exit_ = Exit.of(child.returncode)
            if ending is not None:
                status, ended_at = ending.status, exited_at if ending.at is None else ending.at
            else:
                status, ended_at = self._write_ending(exit_, started_at, exited_at), exited_at
            self._recorder.close(FLUSH_SECONDS)
        return CommandResult(exit_.shell_code, status, exit_.words, run_duration_ms(started_at, ended_at))

    def _not_started(self, error: OSError, started_at: int) -> CommandResult:
        code, words = describe_start_failure(self._task.command[0], error)
        self._record_start(started_at)
        said = {"status": "failed", "error_message": words, "exit_code": code, "written_for": True}
        self._record("workflow_error", said, {"attempt": self._task.attempt})
        return CommandResult(code, Status.FAILED, words, 0, started=False)

    def _record_start(self, started_at: int) -> None:
        task = self._task
        said: dict[str, object] = {
            "kind": task.kind,
            "name": task.name,
            "command": redact_command(task.command, self._recorder.secrets),
        }
        with suppress(OSError):  # the directory may have been removed; the command runs all the same
            said["cwd"] = str(Path.cwd())
        if task.parent_run_id is not None:
            said["parent_run_id"] = task.parent_run_id
        named = self._recorder.membership.start(task.run_id, task.attempt, role=WRAPPER)
        self._record("workflow_start", said, named, occurred_at=started_at)

    def _record(
        self,
        type: str,
        said: Mapping[str, object],
        fixed: Mapping[str, object] | None = None,
        *,
        occurred_at: int | None = None,
    ) -> None:
        run_id, trace_id = self._task.run_id, self._task.trace_id
        self._recorder.record(run_id, type, said, trace_id=trace_id, occurred_at=occurred_at, fixed=fixed)

    def _take_stdout(self, channels: DeduplicatingRecorder, line: OutputLine) -> None:
        said = parse(line)
        if isinstance(said, Output):
            self._record_output("stdout", said.text)
        elif isinstance(said, ParseError):
            self._record("parse_error", {"text": said.text, "error": said.error})
        else:
            channels.take(said)

    def _take_stderr(self, line: OutputLine) -> None:
        # Of a progress bar, which goes back to the line's beginning again and again, only the last is shown.
        self._last_lines.append(line.shown.rpartition("\r")[2][-LAST_LINE_CHARACTERS:])
        self._record_output("stderr", line.shown)

    def _record_output(self, stream: str, text: str) -> None:
        if self._task.record_output:
            self._record("output", {"stream": stream, "text": text})

    def _write_ending(self, exit_: Exit, started_at: int, exited_at: int) -> Status:
        # What a terminal sends reaches a process that shares it too, which may be gone before we know of it.
        own_reason = exit_.signal_number if self._task.shares_group else None
        type_, said = terminal_event(
            exit_,
            interrupted_by=self._stopping.reason or (own_reason if own_reason in FROM_TERMINAL else None),
            sent=self._stopping.sent,
            execution_time_ms=run_duration_ms(started_at, exited_at),
            stderr=list(self._last_lines),
        )
        self._record(type_, said, {"attempt": self._task.attempt}, occurred_at=exited_at)
        return STATUS_WORDS[str(said["status"])]

"""Runs a command and records its events, its output, and how it ended.

`ChildRunner` runs the process; `DeduplicatingRecorder` reads the journal in a thread of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
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
    GRACE_SECONDS,
    TERMINAL_SIGNALS,
    ChildRunner,
    OutputTarget,
    StopPolicy,
)
from longwatch.recording.process.command import redact_command
from longwatch.recording.process.deduplication import HOLD_SECONDS, DeduplicatingRecorder
from longwatch.recording.process.exit_status import Exit, describe_start_failure, terminal_event
from longwatch.recording.process.output import Output, OutputLine, ParseError, parse_line
from longwatch.recording.recorder import Recorder

LAST_LINES = 20  # of standard error that a terminal event keeps
LAST_LINE_CHARACTERS = 1_000
LAST_POLL_SECONDS = 10.0
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
    labels: Mapping[str, object] = field(default_factory=dict)  # fields of the start
    parent_run_id: str | None = None
    run_is_new: bool = True  # False: the caller chose the id, and the run may have earlier events
    record_output: bool = True
    grace_seconds: float = GRACE_SECONDS
    shares_group: bool = False  # the process reads from the terminal of longwatch


@dataclass(frozen=True, slots=True)
class CommandResult:
    exit_code: int  # that longwatch exits with
    status: Status
    description: str
    duration_ms: int
    started: bool = True


class Supervisor:
    """Runs and records one process from its start to its end."""

    def __init__(
        self,
        spec: CommandSpec,
        *,
        recorder: Recorder,
        open_journal: Callable[[], Journal],
        warn: Callable[[str], None],
        sinks: tuple[int | None, int | None] = (1, 2),
        hold_seconds: float = HOLD_SECONDS,
    ) -> None:
        self._spec = spec
        self._recorder = recorder
        self._open_journal = open_journal
        self._warn = warn
        self._sinks = sinks
        self._hold_seconds = hold_seconds
        self._clock: Clock = recorder.clock
        self._stop_policy = StopPolicy(spec.grace_seconds, spec.shares_group)
        self._runner = ChildRunner(self._stop_policy, warn=warn, clock=self._clock)
        self._last_lines: deque[str] = deque(maxlen=LAST_LINES)

    def run(self) -> CommandResult:
        """Run the command to its end and record it. Never raises because of the command or the journal."""
        spec = self._spec
        started_at = self._clock.now_ms()
        with self._runner.signals():
            try:
                child = Child.start(
                    spec.command, environment=spec.environment, shares_group=spec.shares_group
                )
            except OSError as error:
                result = self._record_start_failure(error, started_at)
                self._recorder.close(FLUSH_SECONDS)
                return result
            self._record_start(started_at)
            command = process_of(child.pid, role=COMMAND).fields
            named = {"process": command, "attempt": spec.attempt}
            self._record(JOINED, {}, named, occurred_at=started_at)
            events = DeduplicatingRecorder(
                self._recorder,
                self._open_journal,
                run_id=spec.run_id,
                attempt=spec.attempt,
                trace_id=spec.trace_id,
                since_ms=0 if spec.run_is_new else started_at,
                warn=self._warn,
                clock=self._clock,
                hold_seconds=self._hold_seconds,
            )
            events.start()
            stdout, stderr = self._sinks
            self._runner.run(
                child,
                stdout=OutputTarget(partial(self._on_stdout, events), stdout),
                stderr=OutputTarget(self._on_stderr, stderr),
            )
            exited_at = self._clock.now_ms()
            ending = events.finish(LAST_POLL_SECONDS)
            assert child.returncode is not None
            exit_ = Exit.of(child.returncode)
            if ending is not None:
                status, ended_at = ending.status, exited_at if ending.at is None else ending.at
            else:
                status, ended_at = self._write_ending(exit_, started_at, exited_at), exited_at
            self._recorder.close(FLUSH_SECONDS)
        return CommandResult(
            exit_.shell_code, status, exit_.description, run_duration_ms(started_at, ended_at)
        )

    def _record_start_failure(self, error: OSError, started_at: int) -> CommandResult:
        code, description = describe_start_failure(self._spec.command[0], error)
        self._record_start(started_at)
        payload = {"status": "failed", "error_message": description, "exit_code": code, "written_for": True}
        self._record("workflow_error", payload, {"attempt": self._spec.attempt})
        return CommandResult(code, Status.FAILED, description, 0, started=False)

    def _record_start(self, started_at: int) -> None:
        spec = self._spec
        payload: dict[str, object] = {
            "kind": spec.kind,
            "name": spec.name,
            **spec.labels,
            "command": redact_command(spec.command, self._recorder.secrets),
        }
        with suppress(OSError):  # the directory may have been removed
            payload["cwd"] = str(Path.cwd())
        if spec.parent_run_id is not None:
            payload["parent_run_id"] = spec.parent_run_id
        named = self._recorder.membership.start(spec.run_id, spec.attempt, role=WRAPPER)
        self._record("workflow_start", payload, named, occurred_at=started_at)

    def _record(
        self,
        type: str,
        payload: Mapping[str, object],
        fixed: Mapping[str, object] | None = None,
        *,
        occurred_at: int | None = None,
    ) -> None:
        run_id, trace_id = self._spec.run_id, self._spec.trace_id
        self._recorder.record(run_id, type, payload, trace_id=trace_id, occurred_at=occurred_at, fixed=fixed)

    def _on_stdout(self, events: DeduplicatingRecorder, line: OutputLine) -> None:
        content = parse_line(line)
        if isinstance(content, Output):
            self._record_output("stdout", content.text)
        elif isinstance(content, ParseError):
            self._record("parse_error", {"text": content.text, "error": content.error})
        else:
            events.add(content)

    def _on_stderr(self, line: OutputLine) -> None:
        # A progress bar returns to the start of its line again and again: only its last state is stored.
        self._last_lines.append(line.shown.rpartition("\r")[2][-LAST_LINE_CHARACTERS:])
        self._record_output("stderr", line.shown)

    def _record_output(self, stream: str, text: str) -> None:
        if self._spec.record_output:
            self._record("output", {"stream": stream, "text": text})

    def _write_ending(self, exit_: Exit, started_at: int, exited_at: int) -> Status:
        # A signal from the terminal also reaches a process that shares it, perhaps before longwatch.
        own_reason = exit_.signal_number if self._spec.shares_group else None
        type_, payload = terminal_event(
            exit_,
            interrupted_by=self._stop_policy.reason
            or (own_reason if own_reason in TERMINAL_SIGNALS else None),
            sent=self._stop_policy.sent,
            execution_time_ms=run_duration_ms(started_at, exited_at),
            stderr=list(self._last_lines),
        )
        self._record(type_, payload, {"attempt": self._spec.attempt}, occurred_at=exited_at)
        return STATUS_WORDS[str(payload["status"])]

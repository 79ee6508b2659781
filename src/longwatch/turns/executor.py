"""Runs a command as the executor of a turn: its lines become blocks, its exit is evidence.

The agent's report alone does not end the turn: its process may still crash. The executor waits for the
process for a limited time, ends the turn with what it observed, and reports a leftover process.
"""

from __future__ import annotations

import signal
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from longwatch.clock import Clock
from longwatch.errors import WorthAnotherTry
from longwatch.model.event import Event
from longwatch.model.run import Status
from longwatch.recording.active_run import this_process
from longwatch.recording.process.child import Child
from longwatch.recording.process.child_runner import (
    GRACE_SECONDS,
    TERMINAL_SIGNALS,
    ChildRunner,
    OutputTarget,
    StopPolicy,
)
from longwatch.recording.process.command import JOURNAL_VARIABLE, TRACE_VARIABLE, traceparent
from longwatch.recording.process.exit_status import Exit, describe_start_failure, terminal_event
from longwatch.recording.process.output import OutputLine
from longwatch.turns.dialects import may_report, report_of
from longwatch.turns.line_pump import RETRIES, LinePump, StoreUnsent
from longwatch.turns.turn_sink import TurnName, TurnSink, TurnStatus

MAX_VARIABLE_BYTES = 100_000  # Linux refuses to start a program with a variable of more than 128 KB
LAST_LINES = 20  # of standard error that a failure stores
LAST_LINE_CHARACTERS = 1_000
MESSAGE_LINES = 5  # of those in the error message
TOKEN_VARIABLE = "LONGWATCH_TOKEN"
HURRIED_SECONDS = 10.0
EXIT_WAIT_SECONDS = 10.0  # for a process to exit after its agent has reported


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCommand:
    command: Sequence[str]
    environment: Mapping[str, str]
    prompt: str | None = None  # sent to standard input; None: the command inherits it
    grace_seconds: float = GRACE_SECONDS
    shares_group: bool = False  # the command reads from the terminal of longwatch
    exit_wait_seconds: float = EXIT_WAIT_SECONDS
    kill_leftover: bool = False  # processes that run after the turn has ended


@dataclass(frozen=True, slots=True)
class ExecutorResult:
    """How a turn and its command ended."""

    turn: TurnStatus
    description: str  # how the process ended
    interrupted_by: int | None = None  # the signal that longwatch received


class Executor:
    """Runs one command for one turn."""

    def __init__(
        self,
        command: TurnCommand,
        sink: TurnSink,
        *,
        show: Callable[[Sequence[Event]], None],
        warn: Callable[[str], None],
        clock: Clock,
        stderr: int | None = 2,
        keep: StoreUnsent | None = None,
        notify: Callable[[str], None] | None = None,
    ) -> None:
        self._command = command
        self._sink = sink
        self._show = show
        self._store_unsent = keep
        self._warn = warn
        self._notify = notify or warn
        self._clock = clock
        self._stderr = stderr
        self._stop_policy = StopPolicy(command.grace_seconds, command.shares_group)
        self._runner = ChildRunner(self._stop_policy, warn=self._notify, clock=clock)
        self._is_ended_by_others = False
        self._has_reported = False  # the agent has, before anything stopped it
        self._last_lines: deque[str] = deque(maxlen=LAST_LINES)

    def run(self) -> ExecutorResult:
        """Run the command to its end.

        Raises `TurnEnded` or `TurnTaken` before the command starts if the turn cannot be claimed, and
        `JournalUnavailable` after it has ended if its lines could not be stored.
        """
        who = f"longwatch turn: {self._command.command[0]}"
        with self._runner.signals():
            next_line = self._sink.start(executor=who, process=this_process())
            began = self._clock.monotonic()
            try:
                child = self._start_child()
            except OSError as error:
                _, description = describe_start_failure(self._command.command[0], error)
                return ExecutorResult(
                    self._end_turn("turn_failed", {"error_message": description}), description
                )
            pump = LinePump(
                self._sink,
                next_line,
                stop=self._stop,
                show=self._show,
                warn=self._warn,
                clock=self._clock,
                keep=self._store_unsent,
                notify=self._notify,
            )
            pump.start()
            self._runner.run(
                child,
                stdout=OutputTarget(
                    lambda line: self._on_stdout(line.shown, pump),
                    max_line_bytes=self._sink.max_line_bytes,
                ),
                stderr=OutputTarget(self._on_stderr, self._stderr),
            )
            duration = round((self._clock.monotonic() - began) * 1000, 3)
            pump.finish(self._retry_seconds, self._runner.has_signals)
            if pump.error is not None:
                raise pump.error
            exit_ = Exit.of(child.returncode) if child.returncode is not None else None
            turn = self._end_turn(*self._ending(child, exit_, duration))
            self._report_leftover(child)
        description = exit_.description if exit_ is not None else "still running"
        return ExecutorResult(turn, description, self._interrupted_by(exit_))

    def _start_child(self) -> Child:
        command = self._command
        with _as_file(command.prompt) as stdin:
            return Child.start(
                command.command,
                environment=command.environment,
                shares_group=command.shares_group,
                stdin=stdin if command.prompt is not None else None,
            )

    @property
    def _retry_seconds(self) -> float:
        """How long to retry a sink that does not respond: less after a signal."""
        is_stopping = self._stop_policy.reason is not None and not self._is_ended_by_others
        return min(HURRIED_SECONDS, self._sink.retry_seconds) if is_stopping else self._sink.retry_seconds

    def _on_stdout(self, line: str, pump: LinePump) -> None:
        if not line.strip():
            return
        pump.put(line)
        is_first = not self._has_reported and self._stop_policy.reason is None
        if is_first and may_report(line) and report_of(line) is not None:
            self._has_reported = True
            self._runner.release_after(self._command.exit_wait_seconds)

    def _report_leftover(self, child: Child) -> None:
        """Report a process that is still running after the turn has ended, or kill it."""
        is_running = child.returncode is None
        if not is_running and not child.has_leftovers():
            return
        what = f"process {child.pid}" if is_running else f"a child process of {child.pid}"
        if self._command.kill_leftover:
            child.kill()
            self._warn(f"{what} was still running after the end of the turn and was killed")
        else:
            self._warn(f"{what} is still running after the end of the turn. Use --kill-leftover to kill it.")

    def _stop(self) -> None:
        self._is_ended_by_others = True
        self._runner.stop(signal.SIGTERM)

    def _on_stderr(self, line: OutputLine) -> None:
        self._last_lines.append(line.shown.rpartition("\r")[2][-LAST_LINE_CHARACTERS:])

    def _interrupted_by(self, exit_: Exit | None) -> int | None:
        """The signal that stopped the turn. One from the terminal also reaches a command that shares it."""
        if self._is_ended_by_others:
            return None
        own = exit_.signal_number if exit_ is not None and self._command.shares_group else None
        return self._stop_policy.reason or (own if own in TERMINAL_SIGNALS else None)

    def _ending(self, child: Child, exit_: Exit | None, duration_ms: float) -> tuple[str, dict[str, object]]:
        """The type and fields of an ending from what was observed of the process."""
        interrupted_by = self._interrupted_by(exit_)
        if exit_ is None or (self._has_reported and interrupted_by is not None):
            # The agent has reported, and its process did not exit by itself.
            return "turn_completed", {"leftover_pid": child.pid, "execution_time_ms": duration_ms}
        _, payload = terminal_event(
            exit_,
            interrupted_by=interrupted_by,
            execution_time_ms=duration_ms,
            stderr=list(self._last_lines),
        )
        status = payload.pop("status")
        del payload["written_for"]
        if status == "completed":
            return "turn_completed", payload
        if status == "interrupted":
            return "turn_cancelled", {**payload, "by": "executor"}
        last = [line for line in self._last_lines if line.strip()][-MESSAGE_LINES:]
        if last:
            payload["error_message"] = f"{exit_.description}: " + "\n".join(last)
        return "turn_failed", payload

    def _end_turn(self, type_: str, payload: Mapping[str, object]) -> TurnStatus:
        """End the turn, with retries; returns its status. An earlier ending stays."""
        give_up_at, backoff = self._clock.monotonic() + self._retry_seconds, RETRIES
        while True:
            try:
                return self._sink.end(type_, payload)
            except WorthAnotherTry:
                backoff = backoff.failed()
                if self._clock.monotonic() >= give_up_at or self._runner.has_signals():
                    raise
                self._clock.sleep(backoff.delay or 0.0)


def succeeded(executed: ExecutorResult) -> bool:
    return executed.turn.status is Status.SUCCEEDED


def turn_environment(
    inherited: Mapping[str, str],
    name: TurnName,
    *,
    prompt: str | None,
    journal_url: str | None,
    trace_id: str,
) -> dict[str, str]:
    """The inherited environment, with the turn that the command executes.

    LONGWATCH_RUN_ID is not set to the turn: a program that records a run of its own would end the turn. The
    token of a server is removed, because the command might print it.
    """
    environment = {
        **inherited,
        "LONGWATCH_PROJECT": name.project_id,
        "LONGWATCH_SESSION": name.conversation_id,
        "LONGWATCH_TURN_ID": name.turn_id,
        TRACE_VARIABLE: traceparent(inherited.get(TRACE_VARIABLE), trace_id),
    }
    if journal_url is not None:
        environment[JOURNAL_VARIABLE] = journal_url
    for left_out in ("LONGWATCH_PROMPT", TOKEN_VARIABLE):
        environment.pop(left_out, None)
    if prompt is not None and "\0" not in prompt and len(prompt.encode()) <= MAX_VARIABLE_BYTES:
        environment["LONGWATCH_PROMPT"] = prompt
    environment.setdefault("PYTHONUNBUFFERED", "1")  # Python buffers output to a pipe by the block
    return environment


def _as_file(prompt: str | None) -> IO[bytes]:
    """The prompt as a file, of any length, which the command may read or not."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write((prompt or "").encode(errors="surrogateescape"))
    file.seek(0)
    return file

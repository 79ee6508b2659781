"""The context manager of a run: `with longwatch.run("nightly import") as run:`."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from longwatch.recording import lifecycle, membership
from longwatch.recording.calls import report_fault, validate_capture
from longwatch.recording.capture import DECIDING_FIELDS, FULL, capture_fields, combined_weight, error_text
from longwatch.recording.labels import label_fields
from longwatch.recording.scope import (
    RUN_ID_VARIABLE,
    SCOPE,
    EventDraft,
    RecordingScope,
    attempt_from_environment,
    is_attempt,
    new_attempt,
    new_run_id,
    new_trace_id,
    trace_id_of,
)

if TYPE_CHECKING:
    from longwatch.recording.recorder import Recorder

RUN_CLAIMED_VARIABLE = "LONGWATCH_RUN_TAKEN"  # the id in `LONGWATCH_RUN_ID` once a run has claimed it

_claiming = threading.Lock()


class ActiveRun:
    """Everything recorded inside the block belongs to this run. Leaving the block records its ending."""

    def __init__(
        self,
        name: str | None = None,
        *,
        run_id: str | None = None,
        attempt: str | None = None,
        kind: str = "workflow",
        capture: str | None = None,
        trace_id: str | None = None,
        recorder: Recorder | None = None,
        payload: Mapping[str, object] | None = None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.run_id = run_id or _run_id_from_environment() or new_run_id()
        self.attempt = _validate_attempt(attempt) or attempt_from_environment(self.run_id) or new_attempt()
        self.trace_id = trace_id or _trace_id_here() or new_trace_id()
        self._recorder = recorder
        self._capture = validate_capture(capture)
        self._payload = payload or {}
        self._scope: RecordingScope | None = None
        self._outer: RecordingScope | None = None
        self._result: object = None
        self._error: str | None = None
        self._started_at = 0  # epoch milliseconds
        self._ended = False
        self._pid = 0
        self.captured_weight = 0  # of values in the next event of the run that are captured already

    @property
    def recorder(self) -> Recorder:
        """The recorder of the run, by default that of the process."""
        if self._recorder is None:
            from longwatch.recording.recorder import get_recorder  # loaded when something is recorded

            self._recorder = get_recorder()
        return self._recorder

    def record(self, type: str, /, *, occurred_at: int | None = None, **payload: object) -> None:
        """Record an event of this run, from any thread or call."""
        if self._scope is None:
            return
        inside = SCOPE.get()
        here = inside if inside is not None and inside.run_id == self.run_id else self._scope
        try:
            here.record(type, payload, occurred_at=occurred_at)
        except Exception as error:  # noqa: BLE001
            report_fault(error)

    def set_result(self, result: object) -> None:
        """Set the result that the terminal event states."""
        self._result = result

    def fail(self, reason: str) -> None:
        """Mark the run as failed although no exception leaves the block."""
        self._error = reason

    def begin(self) -> RecordingScope | None:
        """Record the start; returns the scope for what happens inside, or None if recording is off."""
        recorder = self.recorder
        if not recorder.settings.enabled:
            return None
        prepare_process(recorder)
        self._outer = SCOPE.get()
        self._scope = RecordingScope(recorder, self.run_id, self.trace_id, recorder.limits(self._capture))
        self._pid = os.getpid()
        recorder.interrupts.add(self._on_interrupt)
        self._started_at = recorder.clock.now_ms()
        outer = self._outer.run_id if self._outer is not None else None
        fixed = recorder.membership.start(self.run_id, self.attempt, outer_run_id=outer)
        self._queue_event("workflow_start", self._start_payload(outer), fixed, at=self._started_at)
        return self._scope

    def __enter__(self) -> Self:
        try:
            scope = self.begin()
        except Exception as error:  # noqa: BLE001 - recording never breaks the observed code
            report_fault(error)
            return self
        if scope is not None:
            SCOPE.set(scope)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._scope is None:
            return
        if SCOPE.get() is self._scope:  # a generator may be closed in another scope
            SCOPE.set(self._outer)
        try:
            self.end(error)
        except Exception as fault:  # noqa: BLE001
            report_fault(fault)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace)

    def _start_payload(self, outer: str | None) -> dict[str, object]:
        payload: dict[str, object] = {**self._payload, "kind": self.kind}
        if self.name:
            payload["name"] = self.name
        from longwatch.model.process import TURN_VARIABLE  # the recorder has loaded it

        parent = outer or os.environ.get(RUN_ID_VARIABLE) or os.environ.get(TURN_VARIABLE)
        if parent and parent != self.run_id:
            payload["parent_run_id"] = parent
        return payload

    def end(self, error: BaseException | None) -> None:
        """Record the ending of the run once, and close its producer."""
        self.recorder.interrupts.discard(self._on_interrupt)
        if self._ended:
            return
        self._ended = True
        if self._pid != os.getpid():  # a forked child leaves the block: the run continues in the parent
            self.recorder.close_run(self.run_id)
            membership.leave_run(self.run_id)
            return
        membership.close_fork_pipe(self.run_id)
        from longwatch.model.event import run_duration_ms  # the recorder has loaded it

        ended_at = self.recorder.clock.now_ms()
        payload: dict[str, object] = {"execution_time_ms": run_duration_ms(self._started_at, ended_at)}
        if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
            if self._result is not None:
                payload["result"] = self._result
            failed = self._error
            payload |= {"status": "failed", "error_message": failed} if failed else {"status": "completed"}
        else:
            is_stopped = isinstance(error, KeyboardInterrupt | GeneratorExit) or _is_cancellation(error)
            payload |= {
                "status": "interrupted" if is_stopped else "failed",
                "error_message": error_text(error),
                "error_code": type(error).__name__,
            }
        type_ = "workflow_complete" if payload["status"] == "completed" else "workflow_error"
        self._queue_event(type_, payload, {"attempt": self.attempt}, at=ended_at)
        self.recorder.close_run(self.run_id)
        if os.environ.get("AWS_LAMBDA_FUNCTION_NAME"):
            self.recorder.flush()  # the sandbox may be frozen as soon as the handler returns

    def _on_interrupt(self, reason: str) -> None:
        """Record the ending of a run that is open when its process exits or gets a signal."""
        if self._ended or self._pid != os.getpid():
            return
        self._ended = True
        if membership.close_fork_pipe(self.run_id) and reason == lifecycle.PROCESS_EXITED:
            return  # a child that was forked inside the run still works on it
        payload: dict[str, object] = {"status": "interrupted", "error_message": f"ended by {reason}"}
        if reason == lifecycle.PROCESS_EXITED:
            message = (
                f"Process {self._pid} exited while the run was open. End the run before the program ends."
            )
            payload = {"status": "failed", "error_message": message}
        at, fixed = self.recorder.clock.now_ms(), {"attempt": self.attempt}
        self._queue_event("workflow_error", {**payload, "error_code": reason}, fixed, at=at)

    def _queue_event(
        self, type: str, payload: dict[str, object], fixed: Mapping[str, object], *, at: int
    ) -> None:
        recorder = self.recorder
        copy, weight = capture_fields(payload, FULL, recorder.secrets, DECIDING_FIELDS)
        weight = combined_weight(weight, self.captured_weight)
        self.captured_weight = 0
        recorder.put(
            EventDraft(self.run_id, type, at, copy, trace_id=self.trace_id, weight=weight, fixed=fixed)
        )


def run(
    name: str | None = None,
    *,
    run_id: str | None = None,
    attempt: str | None = None,
    kind: str = "workflow",
    capture: str | None = None,
    trace_id: str | None = None,
    tags: Iterable[str] = (),
    user: str | None = None,
    session: str | None = None,
    **payload: object,
) -> ActiveRun:
    """Record everything inside `with` or `async with` as one run.

    Starting a run id again opens a new attempt; `attempt` joins one that is in progress. `tags`, `user` and
    `session` find the run in lists; `longwatch.tag` adds to them later.
    """
    labels = label_fields(tags, user=user, session=session)
    return ActiveRun(
        name,
        run_id=run_id,
        attempt=attempt,
        kind=kind,
        capture=capture,
        trace_id=trace_id,
        payload={**payload, **labels},
    )


def prepare_process(recorder: Recorder) -> None:
    """Flush on SIGTERM, and let threads inherit the run in which they are started."""
    lifecycle.flush_on_sigterm()
    if recorder.settings.carry_context:
        try:
            from longwatch.recording import propagation  # it imports thread pools
        except RuntimeError:  # thread pools cannot be loaded after the main thread has ended
            return
        propagation.install()


def this_process() -> dict[str, object]:
    """The `process` field of events, for this process."""
    from longwatch.model import process  # loaded by the first run

    return process.this_process().fields


def _validate_attempt(attempt: str | None) -> str | None:
    if attempt is not None and not is_attempt(attempt):
        raise ValueError(f"Invalid attempt {attempt!r}. Use eight hex digits, such as {new_attempt()!r}.")
    return attempt


def _is_cancellation(error: BaseException) -> bool:
    """Whether asyncio cancelled the task. If asyncio is not loaded, it cannot be."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and isinstance(error, asyncio.CancelledError)


def _run_id_from_environment() -> str | None:
    """The id that `longwatch run` gave this process, for its first run only."""
    run_id = os.environ.get(RUN_ID_VARIABLE)
    if not run_id or os.environ.get(RUN_CLAIMED_VARIABLE) == run_id:
        return None
    with _claiming:
        if os.environ.get(RUN_CLAIMED_VARIABLE) == run_id:
            return None
        os.environ[RUN_CLAIMED_VARIABLE] = run_id  # child processes see it too
    return run_id


def _trace_id_here() -> str | None:
    """The trace of the enclosing run, or of the environment."""
    outer = SCOPE.get()
    return outer.trace_id if outer is not None else trace_id_of(os.environ.get("TRACEPARENT"))

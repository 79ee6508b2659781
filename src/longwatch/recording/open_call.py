"""A call in progress that no decorator records: adapters and context managers begin and end it.

Decorated functions use `recording.calls`, which is written for speed. Here the caller names the kind of call,
and the start and the end may happen in two callbacks, in any thread or task.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from contextvars import Token
from types import TracebackType
from typing import TYPE_CHECKING, Self

from longwatch.recording.active_run import ActiveRun
from longwatch.recording.calls import report_fault
from longwatch.recording.capture import (
    FULL,
    SUMMARY,
    capture_fields,
    capture_value,
    combined_weight,
    error_text,
    message_limits,
)
from longwatch.recording.decorators import ambient_scope
from longwatch.recording.scope import SCOPE, EventDraft, RecordingScope, new_call_id

if TYPE_CHECKING:
    from longwatch.recording.recorder import Recorder

EVENT_TYPES: Mapping[str, tuple[str, str]] = {  # kind of call -> types of its start and its end
    "agent": ("agent_start", "agent_end"),
    "tool": ("tool_call", "tool_call"),
    "model": ("model_call", "model_call"),
    "node": ("node_start", "node_stop"),
}
NAME_FIELDS: Mapping[str, str] = {"tool": "operation", "model": "model", "node": "node_name"}
VALUES = ("input", "output", "parameters")  # captured by the policy; everything else is metadata
MEASURED = ("duration_ms", "time_to_first_token_ms")  # own numbers; a float would leave capture's fast path

Failure = BaseException | str


class OpenCall(RecordingScope):
    """A call whose start is recorded, and the scope of everything inside it."""

    __slots__ = ("_outer_call_id", "_run", "_started", "has_ended", "has_started", "kind", "name")

    def __init__(self, kind: str, name: str, outer: RecordingScope, run: ActiveRun | None = None) -> None:
        agent_name = name if kind == "agent" else outer.agent_name
        super().__init__(
            outer.recorder, outer.run_id, outer.trace_id, outer.limits, agent_name, new_call_id()
        )
        self.kind = kind
        self.name = name
        self._outer_call_id = outer.call_id
        self._run = run  # that was opened for this call, and ends with it
        self._started = self.recorder.clock.monotonic()
        self.has_started = False  # whether the start is recorded; an adapter may know the input later
        self.has_ended = False

    def start(self, values: Mapping[str, object], fields: Mapping[str, object]) -> None:
        """Queue the start event."""
        self.has_started = True
        self._queue(EVENT_TYPES[self.kind][0], "started", values, fields)

    def finish(
        self,
        *,
        output: object = None,
        error: Failure | None = None,
        fields: Mapping[str, object] | None = None,
    ) -> None:
        """Record the end once, and that of the run that was opened for the call. Never raises."""
        if self.has_ended:
            return
        self.has_ended = True
        if isinstance(error, GeneratorExit):  # the consumer of a stream stopped reading
            error = None
        try:
            self._queue_end(output, error, dict(fields or {}))
        except Exception as fault:  # noqa: BLE001 - recording never breaks the observed code
            report_fault(fault)
        self._end_run(error)

    def _queue_end(self, output: object, error: Failure | None, fields: dict[str, object]) -> None:
        status = "completed" if error is None else "failed"
        if error is not None:
            fields["error_message"] = error if isinstance(error, str) else error_text(error)
        if isinstance(error, BaseException) and self.limits is not None:
            from longwatch.recording.tracebacks import error_traceback  # only failing calls need it

            fields["traceback"] = error_traceback(error)
        fields["duration_ms"] = self.elapsed_ms()
        self._queue(EVENT_TYPES[self.kind][1], status, {"output": output}, fields)

    def elapsed_ms(self) -> int | float:
        """Milliseconds since the start. A whole number is an `int`, as every journal stores it."""
        elapsed = round((self.recorder.clock.monotonic() - self._started) * 1000, 3)
        return int(elapsed) if elapsed.is_integer() else elapsed

    def _queue(
        self, type: str, status: str, values: Mapping[str, object], fields: Mapping[str, object]
    ) -> None:
        recorder, now = self.recorder, self.recorder.clock.now_ms()
        payload, weight = self._capture(values, fields, recorder.unredacted(type))
        payload["status"] = status
        name_field = NAME_FIELDS.get(self.kind)
        if name_field is not None:
            payload.setdefault(name_field, self.name)
        recorder.put(
            EventDraft(
                self.run_id,
                type,
                now,
                payload,
                self.agent_name,
                self.call_id,
                self._outer_call_id,
                self.trace_id,
                weight,
            )
        )

    def _capture(
        self, values: Mapping[str, object], fields: Mapping[str, object], unredacted: Container[str]
    ) -> tuple[dict[str, object], int]:
        """Copy values by the capture policy, and metadata in full. What is None is unknown and left out."""
        secrets = self.recorder.secrets
        given = {name: value for name, value in fields.items() if value is not None and name not in VALUES}
        message = given.pop("error_message", None)
        measured = {name: given.pop(name) for name in MEASURED if name in given}
        payload, weight = capture_fields(given, FULL, secrets, unredacted)
        payload |= measured
        if message is not None:
            payload["error_message"], cut = capture_value(message, SUMMARY, secrets)
            weight = combined_weight(weight, cut)
        present = {name: values.get(name, fields.get(name)) for name in VALUES}
        present = {name: value for name, value in present.items() if value is not None}
        limits = self.limits
        if present and limits is not None:
            # Agents and nodes pass messages on, as models do; a tool is as it would be with a decorator.
            limits = limits if self.kind == "tool" else message_limits(limits)
            captured, value_weight = capture_fields(present, limits, secrets)
            payload |= captured
            weight = combined_weight(value_weight, weight)
        return payload, weight

    def _end_run(self, error: Failure | None) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        try:
            if isinstance(error, str):
                run.fail(error)
                error = None
            run.end(error)
        except Exception as fault:  # noqa: BLE001
            report_fault(fault)


def enclosing_scope(
    name: str, scope: RecordingScope | None = None
) -> tuple[RecordingScope, ActiveRun | None] | None:
    """The scope for a call of this name: the given one, the current one, or that of a new run.

    Outside any run, the call opens a run of its own, which is returned too. None if recording is off.
    """
    outer = scope or SCOPE.get() or ambient_scope()
    if outer is not None:
        return outer, None
    run = ActiveRun(name, recorder=_recorder())
    opened = run.begin()
    return None if opened is None else (opened, run)


def _recorder() -> Recorder:
    from longwatch.recording.recorder import get_recorder  # loaded when something is recorded

    return get_recorder()


class CallBlock:
    """A block of code that an adapter records as one call: `with CallBlock("tool", "search") as block:`.

    The block sets its `output`; an exception that leaves it, or a text in `error`, fails the call.
    """

    def __init__(
        self, kind: str, name: str, *, input: object = None, fields: Mapping[str, object] | None = None
    ) -> None:
        self._kind = kind
        self._name = name
        self._input = input
        self._fields = fields or {}
        self._call: OpenCall | None = None
        self._token: Token[RecordingScope | None] | None = None
        self.output: object = None
        self.error: Failure | None = None
        self.end_fields: Mapping[str, object] | None = None

    def __enter__(self) -> Self:
        try:
            found = enclosing_scope(self._name)
            if found is not None:
                self._call = OpenCall(self._kind, self._name, *found)
                self._call.start({"input": self._input}, self._fields)
                self._token = SCOPE.set(self._call)
        except Exception as error:  # noqa: BLE001 - recording never breaks the observed code
            report_fault(error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            try:
                SCOPE.reset(self._token)
            except ValueError:  # a coroutine was closed outside its task
                pass
        if self._call is not None:
            failure = self.error if self.error is not None else error
            self._call.finish(output=self.output, error=failure, fields=self.end_fields)


def is_recorded_as_tool(name: str) -> bool:
    """Whether the current code runs inside the recorded call of this tool, at another layer of an SDK."""
    scope = SCOPE.get()
    return isinstance(scope, OpenCall) and scope.kind == "tool" and scope.name == name

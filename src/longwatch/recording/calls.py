"""Records the start and the end of each call of a decorated function.

This runs inside the observed code, twice for each call, so it is written to be fast.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from longwatch.recording.capture import (
    CAPTURES,
    FULL,
    SUMMARY,
    capture_fields,
    capture_value,
    combined_weight,
    error_text,
)
from longwatch.recording.scope import EventDraft, RecordingScope, new_call_id

log = logging.getLogger("longwatch")

_faults = 0


class CallPlan:
    """What is fixed for all calls of a decorated function."""

    __slots__ = ("_fixed_fields", "_names", "_rest", "_start_type", "capture", "end_type", "kind", "name")

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        kind: str,
        name: str | None,
        capture: str | None,
        extra: Mapping[str, object],
    ) -> None:
        self.kind = kind
        self.name = name or getattr(function, "__name__", type(function).__name__)
        self.capture = validate_capture(capture)
        self.end_type = "agent_end" if kind == "agent" else "tool_call"
        self._start_type = "agent_start" if kind == "agent" else "tool_call"
        self._fixed_fields = {key: value for key, value in extra.items() if value is not None}
        if kind == "tool":
            self._fixed_fields["operation"] = self.name
        self._names, self._rest = parameter_names(function)

    def begin(self, outer: RecordingScope, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ActiveCall:
        """Record the start. Returns the call even if recording fails: it never breaks the observed code."""
        call = ActiveCall(self, outer)
        try:
            fields = dict(self._fixed_fields)
            fields["status"] = "started"
            weight = 0
            if call.limits is not None:
                named = self.arguments(args, kwargs)
                fields["input"], weight = capture_fields(named, call.limits, call.recorder.secrets)
            call.queue_event(self._start_type, fields, weight)
        except Exception as error:  # noqa: BLE001
            report_fault(error)
        return call

    def ending(self, status: str) -> dict[str, object]:
        """The fields that every end event of the function has."""
        return {**self._fixed_fields, "status": status}

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name. Cheaper than binding a signature; may be inexact for invalid calls."""
        names = self._names
        named = dict(zip(names, args, strict=False))
        if len(args) > len(names):
            named[self._rest] = args[len(names) :]
        if kwargs:
            named.update(kwargs)
        if names and names[0] in ("self", "cls"):
            named.pop(names[0], None)
        return named


class ActiveCall(RecordingScope):
    """A call in progress, and the scope of everything inside it."""

    __slots__ = ("_outer_call_id", "_plan", "_started")

    def __init__(self, plan: CallPlan, outer: RecordingScope) -> None:
        self.recorder = recorder = outer.recorder
        self.run_id = outer.run_id
        self.trace_id = outer.trace_id
        self.limits = outer.limits if plan.capture is None else CAPTURES[plan.capture]
        self.agent_name = plan.name if plan.kind == "agent" else outer.agent_name
        self.call_id = new_call_id()
        self._outer_call_id = outer.call_id
        self._plan = plan
        self._started = recorder.clock.monotonic()

    @property
    def scope(self) -> RecordingScope:
        return self

    def succeed(self, result: object) -> None:
        try:
            fields = self._plan.ending("completed")
            weight = 0
            if result is not None and self.limits is not None:
                fields["output"], weight = capture_value(result, self.limits, self.recorder.secrets)
            self._end(fields, weight)
        except Exception as error:  # noqa: BLE001
            report_fault(error)

    def fail(self, error: BaseException) -> None:
        """Record that the call raised this exception. A generator that was closed early succeeded."""
        if isinstance(error, GeneratorExit):
            return self.succeed(None)
        try:
            fields = self._plan.ending("failed")
            secrets = self.recorder.secrets
            fields["error_message"], weight = capture_value(error_text(error), SUMMARY, secrets)
            if self.limits is not None:
                from longwatch.recording.tracebacks import error_traceback  # only failing calls need it

                trace = error_traceback(error)
                if trace is not None:
                    copied, trace_weight = capture_fields({"traceback": trace}, FULL, secrets)
                    fields |= copied
                    weight = combined_weight(trace_weight, weight)
            self._end(fields, weight)
        except Exception as fault:  # noqa: BLE001
            report_fault(fault)
        return None

    def _end(self, fields: dict[str, object], weight: int) -> None:
        elapsed = self.recorder.clock.monotonic() - self._started
        duration = round(elapsed * 1000, 3)
        # As in capture: a journal may store 2.0 as 2, and the digest must not change.
        fields["duration_ms"] = int(duration) if duration.is_integer() else duration
        self.queue_event(self._plan.end_type, fields, weight)

    def queue_event(self, type: str, fields: dict[str, object], weight: int) -> None:
        """Queue one of the call's two events."""
        recorder = self.recorder
        recorder.put(
            EventDraft(
                self.run_id,
                type,
                recorder.clock.now_ms(),
                fields,
                self.agent_name,
                self.call_id,
                self._outer_call_id,
                self.trace_id,
                weight,
            )
        )


def validate_capture(policy: str | None) -> str | None:
    """The capture policy, or `ValueError` where the decorator is applied."""
    if policy is not None and policy not in CAPTURES:
        raise ValueError(f"capture must be off, summary or full, not {policy!r}")
    return policy


def parameter_names(function: Callable[..., Any]) -> tuple[tuple[str, ...], str]:
    """The names of the positional parameters, and the name of `*args`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some builtins have no signature
        return (), "args"
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = tuple(each.name for each in parameters if each.kind in positional)
    rest = next((each.name for each in parameters if each.kind is inspect.Parameter.VAR_POSITIONAL), "args")
    return names, rest


@contextmanager
def reported_faults() -> Iterator[None]:
    """Report what is raised inside and continue after the block: recording never breaks the observed code."""
    try:
        yield
    except Exception as error:  # noqa: BLE001
        report_fault(error)


def report_fault(error: Exception) -> None:
    """Log the first failure of recording with its traceback; log further ones at debug level."""
    global _faults  # noqa: PLW0603 - one count for the process
    _faults += 1
    if _faults == 1:
        log.error("longwatch: an event could not be recorded; the program continues", exc_info=error)
    else:
        log.debug("longwatch: %d events could not be recorded so far", _faults, exc_info=error)

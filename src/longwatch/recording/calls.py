"""One call of a decorated function: its start event before, its end event after, whatever happens between."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any

from longwatch.recording.capture import FULL, SUMMARY, Capture, Limits, error_text
from longwatch.recording.producers import Note
from longwatch.recording.scope import Scope, new_call_id

log = logging.getLogger("longwatch")

_faults = 0


class CallPlan:
    """What is known of a decorated function before it is called."""

    __slots__ = ("_limits", "_names", "_rest", "_start_type", "end_type", "extra", "kind", "name")

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        kind: str,
        name: str | None,
        capture: str | None,
        extra: Mapping[str, object],
    ) -> None:
        if capture not in (None, "off", "summary", "full"):
            raise ValueError(f"capture must be off, summary or full, not {capture!r}")
        self.kind = kind
        self.name = name or getattr(function, "__name__", type(function).__name__)
        self.extra = {key: value for key, value in extra.items() if value is not None}
        self._limits = {"off": None, "summary": SUMMARY, "full": FULL}[capture] if capture else ...
        self._start_type = "agent_start" if kind == "agent" else "tool_call"
        self.end_type = "agent_end" if kind == "agent" else "tool_call"
        self._names, self._rest = parameter_names(function)

    def begin(self, outer: Scope, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Record the start. The call is returned even if that failed: recording never breaks the work."""
        call = Call(self, outer)
        try:
            call.note(self._start_type, "started", "input", self.arguments(args, kwargs))
        except Exception as error:  # noqa: BLE001
            tell_of_fault(error)
        return call

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name. Cheaper than binding a signature, and it need not be exact on bad calls."""
        named = dict(zip(self._names, args, strict=False))
        if len(args) > len(self._names):
            named[self._rest] = args[len(self._names) :]
        named.update(kwargs)
        named.pop("self", None)
        named.pop("cls", None)
        return named

    def limits(self, scope: Scope) -> Limits | None:
        """How much to keep of arguments and results here."""
        return scope.limits if self._limits is ... else self._limits


class Call:
    """One call under way."""

    __slots__ = ("_agent_name", "_call_id", "_outer", "_plan", "_started", "scope")

    def __init__(self, plan: CallPlan, outer: Scope) -> None:
        self._plan = plan
        self._outer = outer
        self._call_id = new_call_id()
        self._agent_name = plan.name if plan.kind == "agent" else outer.agent_name
        self._started = outer.recorder.clock.monotonic()
        self.scope = outer.within(self._call_id, self._agent_name)

    def succeed(self, result: object) -> None:
        """Record that the call returned."""
        try:
            self.note(self._plan.end_type, "completed", "output", result)
        except Exception as error:  # noqa: BLE001
            tell_of_fault(error)

    def fail(self, error: BaseException) -> None:
        """Record that the call ended with this exception; a generator that was closed early simply ended."""
        if isinstance(error, GeneratorExit):
            return self.succeed(None)
        try:
            self.note(self._plan.end_type, "failed", "error_message", error_text(error))
        except Exception as fault:  # noqa: BLE001
            tell_of_fault(fault)
        return None

    def note(self, type: str, status: str, field: str, value: object) -> None:
        """Queue one of the call's two events."""
        plan, outer = self._plan, self._outer
        recorder = outer.recorder
        said: dict[str, object] = {"status": status}
        if plan.kind == "tool":
            said["operation"] = plan.name
        said.update(plan.extra)
        weight = 0
        limits = plan.limits(outer) if field != "error_message" else SUMMARY
        if limits is not None and value is not None:
            capture = Capture(limits, recorder.secrets)
            said[field] = capture.fields(value) if field == "input" else capture.value(value)  # type: ignore[arg-type]
            weight = capture.weight
        if status != "started":
            said["duration_ms"] = round((recorder.clock.monotonic() - self._started) * 1000, 3)
        recorder.put(
            Note(
                outer.run_id,
                type,
                recorder.clock.now_ms(),
                said,
                self._agent_name,
                self._call_id,
                outer.call_id,
                outer.trace_id,
                weight,
            )
        )


def parameter_names(function: Callable[..., Any]) -> tuple[tuple[str, ...], str]:
    """The names of the positional parameters, and the one that takes the rest."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some builtins have none
        return (), "args"
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = tuple(each.name for each in parameters if each.kind in positional)
    rest = next((each.name for each in parameters if each.kind is inspect.Parameter.VAR_POSITIONAL), "args")
    return names, rest


def tell_of_fault(error: Exception) -> None:
    """Say once, with the traceback, that recording failed inside longwatch; count the rest quietly."""
    global _faults  # noqa: PLW0603 - one count for the process
    _faults += 1
    if _faults == 1:
        log.error("longwatch: an event could not be recorded; the work goes on", exc_info=error)
    else:
        log.debug("longwatch: %d events could not be recorded so far", _faults, exc_info=error)

"""An OpenTelemetry span processor that records agent, tool, model and workflow spans.

    provider.add_span_processor(LongwatchSpanProcessor())

Spans inside a longwatch run join that run. Elsewhere each trace with such a span is a run of its own,
`trace-<trace id>`, which starts and ends with the first span of the trace in this process.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from longwatch.errors import MissingExtra
from longwatch.integrations import attach
from longwatch.model.event import run_duration_ms
from longwatch.model.model_calls import CountedCall
from longwatch.model.usage import has_counts
from longwatch.recording.calls import report_fault
from longwatch.recording.capture import Capture, message_limits
from longwatch.recording.decorators import ambient_scope
from longwatch.recording.model_calls import find_repeated, outer_layer
from longwatch.recording.open_call import OpenCall
from longwatch.recording.recorder import Recorder, get_recorder
from longwatch.recording.scope import ATTEMPT_DIGITS, SCOPE, RecordingScope
from longwatch.telemetry.dialect import SpanKind
from longwatch.telemetry.span import Attributes, SpanData
from longwatch.telemetry.span_events import (
    EVENT_TYPES,
    MESSAGE_KINDS,
    RECORDED_BY,
    SpanReading,
    content_of,
    describe_span,
    outcome_of,
    read_span,
    title_of,
)

MAX_OPEN_SPANS = 10_000  # beyond that the oldest are dropped: some spans never end

# Instrumentations such as openinference.instrumentation.langchain, and the adapters that record the same.
INSTRUMENTORS = ("openinference", "opentelemetry")
INSTRUMENTED = {
    "crewai": "crewai",
    "langchain": "langchain",
    "openai_agents": "openai_agents",
    "smolagents": "smolagents",
}

NATIVE = {
    "gcp.vertex.agent": "google_adk",
    "strands.telemetry.tracer": "strands",
}  # SDKs that trace themselves

SpanKey = tuple[int, int]  # trace id and span id


@dataclass(frozen=True, slots=True)
class RootEnd:
    """How the first span of a trace ended."""

    at: int  # epoch milliseconds
    failure: str | None


@dataclass(slots=True, kw_only=True)
class SpanRun:
    """The run of a span: an existing run, or a trace that is a run of its own."""

    recorder: Recorder
    run_id: str
    root: SpanKey | None = None  # the trace's first span in this process; None for an existing run
    name: str = ""
    started_at: int | None = None  # epoch milliseconds
    root_end: RootEnd | None = None
    open_spans: int = 0
    begun: bool = False
    ended: bool = False


@dataclass(slots=True, kw_only=True)
class OpenSpan:
    run: SpanRun
    recorded_as: SpanReading | None = None
    recorded_content: frozenset[str] = frozenset()  # fields that its start has; its end does not repeat them
    parent_call_id: str | None = None  # the nearest enclosing call that is recorded
    call_id: str | None = None  # its own once it is recorded, otherwise its parent's
    agent_name: str | None = None
    scope_call_id: str | None = None  # the longwatch call in which it was started
    is_covered: bool = False  # an adapter or a client's wrapper records the same call


class OpenSpans:
    """The spans that have not ended, and their runs. Safe for several threads."""

    def __init__(self, *, max_open: int = MAX_OPEN_SPANS) -> None:
        self._max_open = max_open
        self._lock = threading.Lock()
        self._spans: OrderedDict[SpanKey, OpenSpan] = OrderedDict()
        self._runs: dict[int, SpanRun] = {}  # traces that are runs of their own

    def enter(
        self,
        key: SpanKey,
        parent: SpanKey | None,
        scope: RecordingScope | None,
        run_for: Callable[[SpanRun | None], SpanRun],
    ) -> OpenSpan:
        """Add a span. `run_for` chooses its run, given the run of the enclosing span or of the trace."""
        with self._lock:
            outer = self._spans.get(parent) if parent is not None else None
            run = run_for(outer.run if outer is not None else self._runs.get(key[0]))
            if run.root is not None:
                self._runs[key[0]] = run
            run.open_spans += 1
            span = _open_span(run, outer, scope)
            self._spans[key] = span
            return span

    def leave(self, key: SpanKey) -> OpenSpan | None:
        """Remove a span that ended; None if it is unknown. Call `release` when its end is recorded."""
        with self._lock:
            return self._spans.pop(key, None)

    def release(self, key: SpanKey, run: SpanRun) -> bool:
        """Count a recorded span as ended; returns whether it was the last open span of its run."""
        with self._lock:
            return self._close_span(key, run)

    def forget_oldest(self) -> SpanRun | None:
        """Drop the oldest span if there are too many. Returns its run if that has no other open span."""
        with self._lock:
            if len(self._spans) <= self._max_open:
                return None
            key, span = self._spans.popitem(last=False)
            return span.run if self._close_span(key, span.run) else None

    def take_runs(self) -> list[SpanRun]:
        """Remove everything; returns the runs of traces that were still open."""
        with self._lock:
            runs, self._runs = list(self._runs.values()), {}
            self._spans.clear()
            return runs

    def claim_start(self, run: SpanRun) -> bool:
        """Whether the caller must record the start of the run: true once, for a trace."""
        with self._lock:
            first = run.root is not None and not run.begun
            run.begun = run.begun or first
            return first

    def claim_end(self, run: SpanRun) -> bool:
        """Whether the caller must record the end of the run: true once, after its start."""
        with self._lock:
            first = run.begun and not run.ended
            run.ended = run.ended or first
            return first

    def _close_span(self, key: SpanKey, run: SpanRun) -> bool:
        run.open_spans -= 1
        if run.open_spans == 0 and self._runs.get(key[0]) is run:
            del self._runs[key[0]]
        return run.open_spans == 0


def _open_span(run: SpanRun, outer: OpenSpan | None, scope: RecordingScope | None) -> OpenSpan:
    """An open span with its parent: the enclosing span, or a longwatch call inside that span."""
    scope_call_id = scope.call_id if scope is not None else None
    if (
        outer is not None
        and outer.run.run_id == run.run_id
        and (scope is None or outer.scope_call_id == scope_call_id)
    ):
        enclosing_runs, agent_name = outer.call_id, outer.agent_name
    else:
        enclosing_runs, agent_name = scope_call_id, scope.agent_name if scope is not None else None
    return OpenSpan(
        run=run,
        parent_call_id=enclosing_runs,
        call_id=enclosing_runs,
        agent_name=agent_name,
        scope_call_id=scope_call_id,
    )


try:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
except ImportError as error:
    raise MissingExtra("longwatch.integrations.otel", "otel") from error

INCLUDE = ("genai", "all")


class LongwatchSpanProcessor(SpanProcessor):
    """Records spans of agents, tools, models and workflows, in the dialects of `longwatch.telemetry`.

    `include="all"` records every other span too, as `span` events.

    With a `run_id` all spans belong to that run, and the caller records its start and end.
    """

    def __init__(
        self,
        recorder: Recorder | None = None,
        *,
        run_id: str | None = None,
        include: str = "genai",
        max_open_spans: int = MAX_OPEN_SPANS,
    ) -> None:
        if include not in INCLUDE:
            raise ValueError(f"Invalid include {include!r}. Use one of {', '.join(INCLUDE)}.")
        self._given_recorder = recorder
        self._run_id = run_id
        self._include_all = include == "all"
        self._spans = OpenSpans(max_open=max_open_spans)
        self._recorders: list[Recorder] = []  # used so far, to flush them

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        try:
            self._start(span)
        except Exception as error:  # noqa: BLE001 - recording never breaks the traced code
            report_fault(error)

    def on_end(self, span: ReadableSpan) -> None:
        try:
            self._end(span)
        except Exception as error:  # noqa: BLE001
            report_fault(error)

    def shutdown(self) -> None:
        """End the runs of traces that are still open, and store everything."""
        try:
            for run in self._spans.take_runs():
                self._end_unfinished(run, "interrupted", "the tracer was shut down before the trace ended")
            if self._run_id is not None:
                for recorder in self._recorders:
                    recorder.close_run(self._run_id)
            self.force_flush()
        except Exception as error:  # noqa: BLE001
            report_fault(error)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait until everything recorded so far is durable, in the journal or in the outbox."""
        flushed = [recorder.flush(timeout_millis / 1000) for recorder in self._recorders]
        return all(flushed)

    def _start(self, span: Span) -> None:
        recorder = self._remember(self._given_recorder or get_recorder())
        if not recorder.settings.enabled:
            return
        attributes = _attributes(span)
        reading = read_span(span.name, attributes)
        scope = SCOPE.get()
        parent = (_key(span)[0], span.parent.span_id) if span.parent is not None else None
        choose = partial(self._run_for, span, recorder, scope)
        opened = self._spans.enter(_key(span), parent, scope, choose)
        opened.is_covered = self._is_covered(span, reading, scope)
        if self._is_wanted(reading.kind, span, opened):
            self._record_start(span_data(span, attributes), reading, opened)
        elif reading.kind is SpanKind.WORKFLOW and not opened.is_covered:  # the run itself
            self._begin(opened.run)
        forgotten = self._spans.forget_oldest()
        if forgotten is not None:
            self._end_unfinished(
                forgotten, "unknown", "too many open spans; those of this trace were dropped"
            )

    def _end(self, span: ReadableSpan) -> None:
        opened = self._spans.leave(_key(span))
        if opened is None:  # dropped, or started before the processor was added
            return
        run = opened.run
        is_root = run.root == _key(span)
        try:
            data = span_data(span, _attributes(span))
            if opened.recorded_as is None:
                reading = read_span(data.name, data.attributes)
                if self._is_wanted(reading.kind, span, opened):  # its attributes were set after its start
                    self._record_start(data, reading, opened)
            if opened.recorded_as is not None:
                self._record_end(data, opened.recorded_as, opened)
            if is_root:
                run.root_end = RootEnd(data.ended_at, data.failure)
                self._finish(run)
        finally:
            # After everything is queued: the last span closes the producer of the run.
            if self._spans.release(_key(span), run) and run.begun:
                self._finish(run)
                run.recorder.close_run(run.run_id)

    def _remember(self, recorder: Recorder) -> Recorder:
        if recorder not in self._recorders:
            self._recorders.append(recorder)
        return recorder

    def _run_for(
        self, span: ReadableSpan, recorder: Recorder, scope: RecordingScope | None, enclosing: SpanRun | None
    ) -> SpanRun:
        """The given run, the current one, that of the enclosing span, or a new run for the trace."""
        if self._run_id is not None:
            return SpanRun(recorder=recorder, run_id=self._run_id)
        if scope is None and enclosing is not None:
            return enclosing
        scope = scope or ambient_scope()
        if scope is not None:
            return SpanRun(recorder=self._remember(scope.recorder), run_id=scope.run_id)
        attributes = _attributes(span)
        return SpanRun(
            recorder=recorder,
            run_id=f"trace-{_key(span)[0]:032x}",
            root=_key(span),
            name=title_of(read_span(span.name, attributes), span.name, attributes),
            started_at=(span.start_time or 0) // 1_000_000,
        )

    def _is_wanted(self, kind: SpanKind, span: ReadableSpan, opened: OpenSpan) -> bool:
        if kind is SpanKind.WORKFLOW and opened.run.root == _key(span):
            return False  # the start and end of the run represent it
        if opened.is_covered and kind is not SpanKind.OTHER:
            return False
        return kind is not SpanKind.OTHER or self._include_all

    def _is_covered(self, span: Span, reading: SpanReading, scope: RecordingScope | None) -> bool:
        """Whether an outer layer records the call that the span represents."""
        if span.instrumentation_scope is not None and _has_adapter(span.instrumentation_scope.name):
            return True
        if reading.kind is SpanKind.MODEL or reading.kind is SpanKind.OTHER:  # which may become a model call
            return outer_layer() is not None
        if not isinstance(scope, OpenCall) or scope.kind != reading.kind.value:
            return False
        return scope.name == title_of(reading, span.name, _attributes(span))

    def _record_start(self, span: SpanData, reading: SpanReading, opened: OpenSpan) -> None:
        self._begin(opened.run)
        opened.recorded_as = reading
        opened.call_id = span.span_id
        if reading.kind is SpanKind.AGENT:
            opened.agent_name = title_of(reading, span.name, span.attributes)
        payload = {"status": "started", **describe_span(reading, span, ended=False)}
        content = self._content(reading, span, opened, ended=False)
        opened.recorded_content = frozenset(content)
        self._record(span, reading, opened, payload | content, ended=False)

    def _record_end(self, span: SpanData, reading: SpanReading, opened: OpenSpan) -> None:
        if reading.kind is SpanKind.AGENT:  # some frameworks set its name after its start
            opened.agent_name = title_of(reading, span.name, span.attributes)
        payload = {**outcome_of(span), **describe_span(reading, span, ended=True)}
        if reading.kind is SpanKind.MODEL:
            times = span.started_at, span.ended_at
            record = CountedCall(span.span_id, RECORDED_BY, has_counts(payload), *times)
            payload |= find_repeated(opened.run.run_id, payload.get("response_id"), record).fields()
        content = self._content(reading, span, opened, ended=True)
        self._record(span, reading, opened, payload | content, ended=True)

    def _content(
        self, reading: SpanReading, span: SpanData, opened: OpenSpan, *, ended: bool
    ) -> dict[str, object]:
        recorder = opened.run.recorder
        limits = recorder.limits()
        if limits is None:
            return {}
        if reading.kind in MESSAGE_KINDS:
            limits = message_limits(limits)
        content = content_of(reading, span, ended=ended)
        for name in opened.recorded_content:
            content.pop(name, None)
        return Capture(limits, recorder.secrets).fields(content) if content else {}

    def _record(
        self,
        span: SpanData,
        reading: SpanReading,
        opened: OpenSpan,
        payload: dict[str, object],
        *,
        ended: bool,
    ) -> None:
        opened.run.recorder.record(
            opened.run.run_id,
            EVENT_TYPES[reading.kind][ended],
            payload,
            agent_name=opened.agent_name,
            call_id=opened.call_id,
            parent_call_id=opened.parent_call_id,
            trace_id=span.trace_id,
            occurred_at=span.ended_at if ended else span.started_at,
        )

    def _begin(self, run: SpanRun) -> None:
        if self._spans.claim_start(run):
            named = run.recorder.membership.start(run.run_id, _attempt_of(run))
            payload: dict[str, object] = {"kind": "workflow", "name": run.name}
            self._record_of_run(run, "workflow_start", payload, named, at=run.started_at)

    def _finish(self, run: SpanRun) -> None:
        """Record how the trace's first span ended, as the end of the run."""
        end = run.root_end
        if end is None:
            return self._end_unfinished(run, "unknown", "its first span was dropped before it ended")
        if not self._spans.claim_end(run):
            return None
        started_at = end.at if run.started_at is None else run.started_at
        payload: dict[str, object] = {
            "status": "completed",
            "execution_time_ms": run_duration_ms(started_at, end.at),
        }
        if end.failure is not None:
            payload |= {"status": "failed", "error_message": end.failure}
        type_ = "workflow_complete" if end.failure is None else "workflow_error"
        return self._record_of_run(run, type_, payload, at=end.at)

    def _end_unfinished(self, run: SpanRun, status: str, why: str) -> None:
        """Record the end of a run whose spans have not ended."""
        if self._spans.claim_end(run):
            payload: dict[str, object] = {"status": status, "error_message": why, "written_for": True}
            self._record_of_run(run, "workflow_error", payload, at=None)
            run.recorder.close_run(run.run_id)

    def _record_of_run(
        self,
        run: SpanRun,
        type: str,
        payload: dict[str, object],
        fixed: dict[str, object] | None = None,
        *,
        at: int | None,
    ) -> None:
        assert run.root is not None
        fixed = fixed or {"attempt": _attempt_of(run)}
        trace_id = f"{run.root[0]:032x}"
        run.recorder.record(run.run_id, type, payload, trace_id=trace_id, occurred_at=at, fixed=fixed)


def _attempt_of(run: SpanRun) -> str:
    """The attempt of a trace, the same in every process: each one that has spans of it starts the run."""
    assert run.root is not None
    return f"{run.root[0]:032x}"[:ATTEMPT_DIGITS]


def span_data(span: ReadableSpan, attributes: Attributes) -> SpanData:
    """A span of the SDK as a plain value, with these attributes of it."""
    trace_id, span_id = _key(span)
    parent = span.parent
    return SpanData(
        trace_id=f"{trace_id:032x}",
        span_id=f"{span_id:016x}",
        parent_id=f"{parent.span_id:016x}" if parent is not None else None,
        name=span.name,
        start_ns=span.start_time or 0,
        end_ns=span.end_time or 0,
        attributes=attributes,
        events=[(event.name, event.attributes or {}) for event in span.events],
        status=span.status.status_code.value,
        status_message=span.status.description or "",
    )


def _attributes(span: ReadableSpan) -> Attributes:
    """A copy: each lookup in the SDK's own map takes a lock."""
    attributes: Any = span.attributes
    return attributes.copy() if attributes else {}


def _has_adapter(instrumentation: str) -> bool:
    """Whether an adapter records what this instrumentation traces.

    It may trace a step before the adapter begins it, and steps that the adapter leaves out.
    """
    native = NATIVE.get(instrumentation)
    if native is not None:  # an agent that is older than the adapter has its spans only
        return native in attach.installed and native not in attach.attached_late
    prefix, _, name = instrumentation.partition(".instrumentation.")
    adapter = INSTRUMENTED.get(name.partition(".")[0]) if prefix in INSTRUMENTORS else None
    return adapter is not None and adapter in attach.installed


def _key(span: ReadableSpan) -> SpanKey:
    context: Any = span.get_span_context()
    return (context.trace_id, context.span_id)

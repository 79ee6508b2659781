"""Turns batches of spans, in any order, into the events of runs.

A span names its parent, which may arrive later, or may be a span that is not recorded. So the events of a
call name the parent span as it is. For a span between two calls that is not recorded itself, a `call_link`
states its own parent, and the fold follows such links to the nearest recorded call. A trace becomes a run
with the first span that is recorded. Until then its links and its root wait in memory: most traces of a
program have nothing to do with agents, and must leave nothing behind.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from longwatch.errors import InvalidEvent
from longwatch.model.call_links import CALL_LINK
from longwatch.model.event import MAX_RUN_ID_BYTES, RESERVED_PREFIX, Event, run_duration_ms
from longwatch.recording.scope import ATTEMPT_DIGITS, STATE_KEY
from longwatch.telemetry.dialect import SpanKind
from longwatch.telemetry.event_builder import EventBuilder
from longwatch.telemetry.span import Attributes, SpanData
from longwatch.telemetry.span_events import (
    EVENT_TYPES,
    MESSAGE_KINDS,
    SpanReading,
    content_of,
    describe_span,
    outcome_of,
    read_span,
    title_of,
)

log = logging.getLogger("longwatch.server")

RUN_ATTRIBUTE = "longwatch.run_id"  # of a resource: its spans belong to this run
MAX_HELD = 100_000  # links in memory; about 50 MB

START, END, LINK, RUN_START, RUN_END = "s", "e", "l", "b", "f"  # the last letter of an event id


@dataclass(slots=True)
class TraceState:
    """What is remembered of a run, or of a trace that may become one."""

    is_run: bool
    has_gaps: bool = False  # earlier spans are not remembered, so every link may be needed
    parents: set[str] = field(default_factory=set)  # ids that recorded spans and stored links name
    held: dict[str, Event] = field(default_factory=dict)  # links that no span has needed yet, by span id
    held_root: list[Event] = field(default_factory=list)  # the start and the end of the run

    @property
    def size(self) -> int:
        """How much memory it takes, in ids and events."""
        return 1 + len(self.parents) + len(self.held) + len(self.held_root)

    def release(self) -> list[Event]:
        """Remove the events that are due once the trace is a run."""
        if not self.is_run:
            return []
        due, self.held_root = self.held_root, []
        wanted = list(self.held if self.has_gaps else self.parents & self.held.keys())
        while wanted:
            link = self.held.pop(wanted.pop(), None)
            if link is None:
                continue
            due.append(link)
            if link.parent_call_id is not None:
                self.parents.add(link.parent_call_id)
                wanted.append(link.parent_call_id)
        return due


@dataclass(slots=True)
class TranslatedSpans:
    """The events of a batch, and the spans that no journal can store."""

    events: list[Event] = field(default_factory=list)
    invalid: list[str] = field(default_factory=list)  # the reasons


class SpanRuns:
    """The runs that spans belong to. Threads may share it."""

    def __init__(
        self, builder: EventBuilder, has_run: Callable[[str], bool], *, max_held: int = MAX_HELD
    ) -> None:
        self._builder = builder
        self._has_run = has_run  # whether the journal has a run of this id
        self._max_held = max_held
        self._lock = threading.Lock()
        self._states: OrderedDict[str, TraceState] = OrderedDict()  # by run id, the least recently used first
        self._size = 0
        self._has_dropped = False

    def translate(self, spans: Sequence[SpanData]) -> TranslatedSpans:
        """The events to store for this batch. Call `restore` with them if they could not be stored."""
        found = TranslatedSpans()
        groups: dict[str, list[SpanData]] = {}
        for span in spans:
            groups.setdefault(run_id_of(span), []).append(span)
        own = {run_id: run_id == trace_run_id(group[0]) for run_id, group in groups.items()}
        stored = {
            run_id: run_id not in self._states and self._has_run(run_id) for run_id in groups if own[run_id]
        }
        for run_id, group in groups.items():
            self._add(run_id, group, found, own=own[run_id], is_stored=stored.get(run_id, False))
        return found

    def note_runs(self, run_ids: Iterable[str]) -> list[Event]:
        """The events that are due because these runs have an event that is not from a span."""
        with self._lock:
            found: list[Event] = []
            for run_id in run_ids:
                state = self._states.get(run_id)
                if state is not None and not state.is_run:
                    self._size -= state.size
                    state.is_run = True
                    found += state.release()
                    self._size += state.size
            return found

    def restore(self, events: Iterable[Event]) -> None:
        """Hold the links and roots again: the sender repeats its batch, but not those of earlier ones."""
        with self._lock:
            for event in events:
                state = self._states.get(event.run_id)
                if state is None:
                    continue
                self._size -= state.size
                if event.type == CALL_LINK:
                    state.held[event.call_id or ""] = event
                elif event.event_id[-1] in (RUN_START, RUN_END):
                    state.held_root.append(event)
                self._size += state.size

    def _add(
        self, run_id: str, spans: Sequence[SpanData], found: TranslatedSpans, *, own: bool, is_stored: bool
    ) -> None:
        with self._lock:
            state = self._states.pop(run_id, None)
            before = 0 if state is None else state.size
            if state is None:
                state = TraceState(is_run=is_stored or not own, has_gaps=is_stored)
            for span in spans:
                reading = read_span(span.name, span.attributes)
                state.is_run = state.is_run or reading.kind is not SpanKind.OTHER
                try:
                    found.events += self._events(run_id, span, reading, state, own=own)
                except InvalidEvent as error:
                    found.invalid.append(str(error))
            found.events += state.release()
            self._states[run_id] = state
            self._size += state.size - before
            self._drop_oldest()

    def _events(
        self, run_id: str, span: SpanData, reading: SpanReading, state: TraceState, *, own: bool
    ) -> list[Event]:
        is_root = own and (span.parent_id is None or span.is_parent_remote)
        if is_root:
            state.held_root += self._run_events(run_id, span, reading)
        if reading.kind is SpanKind.OTHER or (reading.kind is SpanKind.WORKFLOW and is_root):
            link = self._builder.event(
                run_id,
                _source_id(span, LINK),
                CALL_LINK,
                span.started_at,
                {},
                call_id=span.span_id,
                parent_call_id=span.parent_id,
                trace_id=span.trace_id,
            )
            state.held[span.span_id] = link
            return []
        if span.parent_id is not None:
            state.parents.add(span.parent_id)
        return self._call_events(run_id, span, reading)

    def _call_events(self, run_id: str, span: SpanData, reading: SpanReading) -> list[Event]:
        content = content_of(reading, span, ended=True)
        output = {"output": content.pop("output")} if "output" in content else {}
        are_messages = reading.kind in MESSAGE_KINDS
        agent_name = title_of(reading, span.name, span.attributes) if reading.kind is SpanKind.AGENT else None
        start = {
            "status": "started",
            **describe_span(reading, span, ended=False),
            **self._builder.captured(content, are_messages=are_messages),
        }
        end = {
            **outcome_of(span),
            **describe_span(reading, span, ended=True),
            **self._builder.captured(output, are_messages=are_messages),
        }
        start_type, end_type = EVENT_TYPES[reading.kind]
        return [
            self._builder.event(
                run_id,
                _source_id(span, part),
                type_,
                at,
                payload,
                agent_name=agent_name,
                call_id=span.span_id,
                parent_call_id=span.parent_id,
                trace_id=span.trace_id,
            )
            for part, type_, at, payload in (
                (START, start_type, span.started_at, start),
                (END, end_type, span.ended_at, end),
            )
        ]

    def _run_events(self, run_id: str, span: SpanData, reading: SpanReading) -> list[Event]:
        """The start and the end of a trace that is a run.

        A span whose parent is in another process ends the run as well, because that process may send its
        spans elsewhere. Such an ending is weaker, so that the one of the whole trace counts if it arrives.
        """
        attempt = span.trace_id[:ATTEMPT_DIGITS]
        failure = span.failure
        start: dict[str, object] = {
            "kind": "workflow",
            "name": title_of(reading, span.name, span.attributes),
            "attempt": attempt,
        }
        end: dict[str, object] = {
            "status": "completed" if failure is None else "failed",
            "execution_time_ms": run_duration_ms(span.started_at, span.ended_at),
            "attempt": attempt,
        }
        if failure is not None:
            end["error_message"] = failure
        if span.parent_id is not None:
            end["written_for"] = True
        end_type = "workflow_complete" if failure is None else "workflow_error"
        parts = (
            (RUN_START, "workflow_start", span.started_at, start),
            (RUN_END, end_type, span.ended_at, end),
        )
        return [
            self._builder.event(run_id, _source_id(span, part), type_, at, payload, trace_id=span.trace_id)
            for part, type_, at, payload in parts
        ]

    def _drop_oldest(self) -> None:
        while self._size > self._max_held and len(self._states) > 1:
            _, state = self._states.popitem(last=False)
            self._size -= state.size
            if not self._has_dropped and not state.is_run:
                self._has_dropped = True
                log.warning(
                    "Dropped the oldest of %d spans in memory that belong to no run. Send only traces of "
                    "agents, for example with a filter in the OpenTelemetry Collector.",
                    self._max_held,
                )


def run_id_of(span: SpanData) -> str:
    """The run of a span: named by its resource or its trace state, else the trace itself."""
    named = named_run(span.resource)
    if named is not None:
        return named
    for entry in span.trace_state.split(",") if span.trace_state else ():
        key, _, value = entry.strip().partition("=")
        if key == STATE_KEY and _is_run_id(unquote(value)):
            return unquote(value)
    return trace_run_id(span)


def named_run(resource: Attributes) -> str | None:
    """The run that a resource names, if it names a valid one."""
    named = resource.get(RUN_ATTRIBUTE)
    return named if isinstance(named, str) and _is_run_id(named) else None


def trace_run_id(span: SpanData) -> str:
    """The id of the run that a trace is, unless it belongs to another run."""
    return f"trace-{span.trace_id}"


def _is_run_id(text: str) -> bool:
    size = len(text.encode(errors="replace"))
    return 0 < size <= MAX_RUN_ID_BYTES and not text.startswith(RESERVED_PREFIX)


def _source_id(span: SpanData, part: str) -> str:
    """Identifies an event, and keeps those of one millisecond in order."""
    within_ms = (span.end_ns if part in (END, RUN_END) else span.start_ns) % 1_000_000
    return f"{within_ms:05x}{span.trace_id[:8]}{span.span_id}{part}"

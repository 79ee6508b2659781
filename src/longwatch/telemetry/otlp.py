"""What OTLP carries, as plain values: spans, log records, and what was wrong with the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from longwatch.model.event import MAX_OCCURRED_AT
from longwatch.telemetry.span import NO_ATTRIBUTES, Attributes, SpanData

T = TypeVar("T")

REMOTE_FLAGS = 0x300  # of a span: it is known whether the parent is remote, and it is
MAX_REASONS = 5


class LogRecord(NamedTuple):
    """One log record. `event_name` is empty unless it is an event."""

    event_name: str
    time_ns: int
    attributes: Attributes
    body: object = None
    resource: Attributes = NO_ATTRIBUTES
    trace_id: str = ""
    span_id: str = ""


@dataclass(slots=True)
class ExportBatch(Generic[T]):
    """The usable items of a request, and the number and the reasons of the others."""

    items: list[T] = field(default_factory=list)
    rejected: int = 0
    reasons: dict[str, None] = field(default_factory=dict)  # in order

    def reject(self, reason: str) -> None:
        """Count an item that cannot be used."""
        self.rejected += 1
        if len(self.reasons) < MAX_REASONS:
            self.reasons[reason] = None

    def add_each(self, items: list[T], problem_of: Callable[[T], str | None]) -> None:
        """Add the items without a problem."""
        for item in items:
            problem = problem_of(item)
            if problem is None:
                self.items.append(item)
            else:
                self.reject(problem)


def span_problem(span: SpanData) -> str | None:
    """Why a span cannot be recorded; None if it can."""
    if len(span.trace_id) != 32 or not span.trace_id.strip("0"):
        return "a span without a valid trace id (16 bytes, not all zero)"
    if len(span.span_id) != 16 or not span.span_id.strip("0"):
        return "a span without a valid span id (8 bytes, not all zero)"
    if span.parent_id is not None and len(span.parent_id) != 16:
        return "a span with an invalid parent id (8 bytes)"
    if not (span.start_ns > 0 and span.end_ns > 0 and span.ended_at <= MAX_OCCURRED_AT):
        return "a span without a start or an end time"
    return None


def event_name(field: str, attributes: Attributes) -> str:
    """The name of a log event. The attribute counts: Codex has a position in its source code in the field."""
    name = attributes.get("event.name")
    return name if isinstance(name, str) and name else field


def log_problem(record: LogRecord) -> str | None:
    """Why a log record cannot be recorded; None if it can."""
    if not 0 < record.time_ns // 1_000_000 <= MAX_OCCURRED_AT:
        return "a log record without a time"
    return None

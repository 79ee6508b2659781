"""Spans for tests."""

from __future__ import annotations

from typing import Any

from longwatch.telemetry.span import SpanData

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
START_NS = 1_794_736_800_000_000_000


def span(name: str = "a span", attributes: dict[str, Any] | None = None, **other: Any) -> SpanData:
    """A span of 2.5 seconds without a parent."""
    fields = {
        "trace_id": TRACE,
        "span_id": SPAN,
        "parent_id": None,
        "name": name,
        "start_ns": START_NS,
        "end_ns": START_NS + 2_500_000_000,
        "attributes": attributes or {},
    }
    return SpanData(**{**fields, **other})

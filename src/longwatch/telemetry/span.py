"""One span as a plain value, whichever way it arrived: from a tracer in this process, or over OTLP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

Attributes = Mapping[str, object]
SpanEvents = Sequence[tuple[str, Attributes]]  # name and attributes

ERROR_TYPE = "error.type"
NO_ATTRIBUTES: Attributes = MappingProxyType({})


class SpanStatus(IntEnum):
    """The status of a span, with the numbers of OTLP."""

    UNSET = 0
    OK = 1
    ERROR = 2


class SpanData(NamedTuple):
    """A span of any dialect. Ids are hex digits, as OpenTelemetry writes them."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start_ns: int
    end_ns: int
    attributes: Attributes
    events: SpanEvents = ()
    status: int = SpanStatus.UNSET
    status_message: str = ""
    resource: Attributes = NO_ATTRIBUTES
    trace_state: str = ""
    is_parent_remote: bool = False  # the parent belongs to another process

    @property
    def started_at(self) -> int:
        """Epoch milliseconds."""
        return self.start_ns // 1_000_000

    @property
    def ended_at(self) -> int:
        """Epoch milliseconds; the start if a clock was set back meanwhile."""
        return max(self.start_ns, self.end_ns) // 1_000_000

    @property
    def duration_ms(self) -> float:
        """The duration, as journals store it: a whole number has no fraction."""
        duration = round(max(0, self.end_ns - self.start_ns) / 1_000_000, 3)
        return int(duration) if duration.is_integer() else duration

    @property
    def failure(self) -> str | None:
        """The error of the span: its error status, or a recorded exception unless its status is OK."""
        if self.status == SpanStatus.OK:
            return None
        for name, attributes in reversed(self.events):
            if name == "exception":
                parts = [attributes.get(f"exception.{part}") for part in ("type", "message")]
                return ": ".join(str(part) for part in parts if part) or "exception"
        if self.status == SpanStatus.ERROR:
            return self.status_message or str(self.attributes.get(ERROR_TYPE) or "failed")
        return None

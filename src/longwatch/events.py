"""What happened: the one event type, pages of events, cursors, and typed views of well-known events."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NewType

from longwatch.errors import InvalidEvent

MAX_RUN_ID_BYTES = 1024  # a DynamoDB partition key ends at 2,048; the session layout adds a prefix
RESERVED_PREFIX = "longwatch#"  # partitions that hold the list of runs, not a run

Order = tuple[int, str, int, str]

_EMPTY: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened to a run. Written once, never changed."""

    run_id: str
    event_id: str  # names this one event; a retry of the same write is recognised by it
    type: str
    occurred_at: int  # epoch milliseconds, by the producer's clock
    agent_name: str | None = None
    payload: Mapping[str, object] = field(default_factory=lambda: _EMPTY)
    call_id: str | None = None  # shared by the start and the end of one call
    parent_call_id: str | None = None  # the call this one was made from
    producer: str | None = None  # one recorder in one process for one run
    number: int | None = None  # the producer's own count, from 1
    previous_digest: str | None = None  # of the producer's event before this one
    trace_id: str | None = None  # 32 lowercase hex digits, as OpenTelemetry writes them
    ttl: int | None = None  # epoch seconds after which a store may drop the event
    encoded: str | None = field(default=None, repr=False, compare=False)  # the payload as text, if known

    def __post_init__(self) -> None:
        if not self.run_id:
            raise InvalidEvent(f"{self.type!r} names no run; record it inside `with longwatch.run(...)`")
        if not self.event_id or not self.type:
            raise InvalidEvent(f"an event of run {self.run_id!r} lacks its id or its type")
        if self.run_id.startswith(RESERVED_PREFIX):
            raise InvalidEvent(f"run id {self.run_id!r} begins with {RESERVED_PREFIX!r}, which is reserved")
        if len(self.run_id) > MAX_RUN_ID_BYTES // 4 and len(self.run_id.encode()) > MAX_RUN_ID_BYTES:
            raise InvalidEvent(f"run id {self.run_id[:40]!r}… is longer than {MAX_RUN_ID_BYTES} bytes")
        if type(self.occurred_at) is not int or self.occurred_at < 0:
            raise InvalidEvent(
                f"occurred_at of {self.type!r} must be whole milliseconds since 1970, not {self.occurred_at!r}"
            )
        if (self.producer is None) != (self.number is None):
            raise InvalidEvent(f"{self.type!r} must have both a producer and a number, or neither")

    @property
    def order(self) -> Order:
        """Where the event stands among those of its run: by time, then producer, then its number."""
        return (self.occurred_at, self.producer or "", self.number or 0, self.event_id)


Cursor = NewType("Cursor", str)
"""Where a reader left off. Opaque: only the journal that handed it out can read it."""

START = Cursor("")


@dataclass(frozen=True, slots=True)
class Page:
    """Some events and where to go on from. `more` says that further events are already waiting."""

    events: Sequence[Event]
    cursor: Cursor
    more: bool = False


def new_event_id(at_ms: int) -> str:
    """A new id that sorts by time: 12 hex digits of milliseconds, 20 of chance."""
    return f"{at_ms:012x}{secrets.token_hex(10)}"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A `tool_call` event, read with the spellings that other producers use."""

    call_id: str | None
    agent_name: str | None
    system: str | None
    operation: str
    status: str  # started, completed or failed
    input: object = None
    output: object = None
    error_message: str | None = None
    duration_ms: float | None = None

    @classmethod
    def of(cls, event: Event) -> ToolCall:
        """The tool call that this event tells of."""
        said = event.payload
        return cls(
            call_id=event.call_id,
            agent_name=event.agent_name or text_of(said, "agent_name"),
            system=text_of(said, "system"),
            operation=text_of(said, "operation", "tool_name", "name") or "tool",
            status=call_status(text_of(said, "status") or "started"),
            input=said.get("input"),
            output=said.get("output"),
            error_message=text_of(said, "error_message", "error"),
            duration_ms=number_of(said, "duration_ms", "execution_time_ms"),
        )


@dataclass(frozen=True, slots=True)
class AgentSpan:
    """An `agent_start` or `agent_end` event."""

    call_id: str | None
    agent_name: str
    ended: bool
    status: str  # started, completed or failed
    role: str | None = None
    output: object = None
    error_message: str | None = None
    duration_ms: float | None = None

    @classmethod
    def of(cls, event: Event) -> AgentSpan:
        """The part of an agent's work that this event tells of."""
        said, ended = event.payload, event.type == "agent_end"
        error = text_of(said, "error_message", "error")
        word = text_of(said, "status") or ("failed" if error else "completed")
        return cls(
            call_id=event.call_id,
            agent_name=event.agent_name or text_of(said, "agent_name", "node_name") or "agent",
            ended=ended,
            status=call_status(word) if ended else "started",
            role=text_of(said, "role"),
            output=said.get("output"),
            error_message=error,
            duration_ms=number_of(said, "duration_ms", "execution_time_ms"),
        )


_CALL_WORDS = {
    "success": "completed",
    "succeeded": "completed",
    "complete": "completed",
    "ok": "completed",
    "error": "failed",
    "failure": "failed",
    "running": "started",
}


def call_status(word: str) -> str:
    """One spelling for how a call stands: started, completed or failed."""
    lowered = word.lower()
    return _CALL_WORDS.get(lowered, lowered)


def text_of(payload: Mapping[str, object], *names: str) -> str | None:
    """The first of these fields that holds text."""
    for name in names:
        value = payload.get(name)
        if isinstance(value, str) and value:
            return value
    return None


def number_of(payload: Mapping[str, object], *names: str) -> float | None:
    """The first of these fields that holds a number."""
    for name in names:
        value = payload.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
    return None

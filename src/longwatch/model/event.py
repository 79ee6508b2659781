"""Events, pages of events, cursors, and typed views of known event types."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from math import isfinite
from typing import Any, NewType, cast

from longwatch.errors import InvalidEvent

_SECONDS, _MILLISECONDS, _MICROSECONDS = 10**11, 10**14, 10**17  # upper limits of epoch times in each unit
_EXACT = 2**53  # integers up to which a float is exact, and far below where it is infinite
MAX_RUN_ID_BYTES = 1024  # a DynamoDB partition key has at most 2,048; the session layout adds a prefix
MAX_OCCURRED_AT = 253_402_300_799_999  # epoch ms of the end of 9999, where ISO times end
MAX_SLOT_DRIFT_MS = 60_000  # how far the slot in a recorder's event ID may be ahead of the event's time
MAX_WHOLE = 2**63 - 1  # largest integer of SQLite
RESERVED_PREFIX = "longwatch#"  # of partitions with the list of runs

Order = tuple[int, str, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened to a run. Written once, never changed."""

    run_id: str
    event_id: str  # identifies the event; a repeated write is recognised by it
    type: str
    occurred_at: int  # epoch milliseconds, by the producer's clock
    agent_name: str | None = None
    payload: Mapping[str, object] = field(default_factory=dict, hash=False)
    call_id: str | None = None  # shared by the start and the end of one call
    parent_call_id: str | None = None  # the call this one was made from
    producer: str | None = None  # one recorder in one process for one run
    number: int | None = None  # the producer's own count, from 1
    previous_digest: str | None = None  # of the producer's event before this one
    trace_id: str | None = None  # 32 lowercase hex digits, as OpenTelemetry writes them
    ttl: int | None = None  # epoch seconds after which a store may drop the event
    # The payload as text, if available, so that it is encoded only once. Code that replaces the payload of an
    # event replaces this too.
    encoded: str | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._check_texts()
        if type(self.occurred_at) is not int or not 0 <= self.occurred_at <= MAX_OCCURRED_AT:
            raise InvalidEvent(
                f"occurred_at of {self.type!r} must be whole milliseconds since 1970 and before the year "
                f"10000, not {self.occurred_at!r}"
            )
        if (self.producer is None) != (self.number is None):
            raise InvalidEvent(f"{self.type!r} must have both a producer and a number, or neither")
        if self.number is not None and not (type(self.number) is int and 1 <= self.number <= MAX_WHOLE):
            raise InvalidEvent(f"number of {self.type!r} must be a whole number from 1, not {self.number!r}")
        if self.ttl is not None and not (type(self.ttl) is int and 0 <= self.ttl <= MAX_WHOLE):
            raise InvalidEvent(f"ttl of {self.type!r} must be whole seconds since 1970, not {self.ttl!r}")
        if type(self.payload) is not dict and not isinstance(self.payload, Mapping):
            raise InvalidEvent(f"payload of {self.type!r} must be a map, not {type(self.payload).__name__}")

    def _check_texts(self) -> None:
        try:
            text = "".join(
                (
                    self.run_id,
                    self.event_id,
                    self.type,
                    self.agent_name or "",
                    self.call_id or "",
                    self.parent_call_id or "",
                    self.producer or "",
                    self.previous_digest or "",
                    self.trace_id or "",
                )
            )
            if not text.isascii():
                text.encode()
        except TypeError as error:
            raise InvalidEvent(f"ids, type and names of an event must be text: {error}") from error
        except UnicodeEncodeError as error:
            raise InvalidEvent(
                f"an event of run {self.run_id!r} has an id or a name that UTF-8 cannot hold: {error}"
            ) from error
        if not self.run_id:
            raise InvalidEvent(f"{self.type!r} names no run; record it inside `with longwatch.run(...)`")
        if not self.event_id or not self.type:
            raise InvalidEvent(f"an event of run {self.run_id!r} lacks its id or its type")
        if self.run_id.startswith(RESERVED_PREFIX):
            raise InvalidEvent(f"run id {self.run_id!r} begins with {RESERVED_PREFIX!r}, which is reserved")
        if len(self.run_id) > MAX_RUN_ID_BYTES // 4 and len(self.run_id.encode()) > MAX_RUN_ID_BYTES:
            raise InvalidEvent(f"run id {self.run_id[:40]!r}… is longer than {MAX_RUN_ID_BYTES} bytes")

    @property
    def order(self) -> Order:
        """The sort key among the events of its run: time, producer, number, ID."""
        return (self.occurred_at, self.producer or "", self.number or 0, self.event_id)


UNREADABLE = "unreadable_event"
RUN_DELETED = "run_deleted"  # the arrival that reports a deletion; journals write it, and producers cannot
"""The type of the placeholder for a stored event that cannot be decoded. No journal stores it."""


def unreadable_event(
    run_id: str,
    position: int | str,
    reason: str,
    *,
    occurred_at: int,
    event_id: str | None = None,
    producer: str | None = None,
    number: int | None = None,
) -> Event:
    """The placeholder for a stored event that cannot be decoded, with its position and the reason.

    ID, producer and number are those of the stored event if they are readable.
    """
    return Event(
        run_id=run_id,
        event_id=event_id or f"unreadable:{run_id}:{position}",
        type=UNREADABLE,
        occurred_at=occurred_at,
        payload={"position": position, "reason": reason},
        producer=producer,
        number=number,
    )


class EventSlots:
    """A mutable event, for code that creates many events from validated values.

    It has the slots of `Event`; assigning `Event` to its `__class__` turns it into a frozen event. That takes
    a third of the time of setting the fields of a frozen class one by one, and a tenth of `Event(...)` with
    its validation.
    """

    __slots__ = tuple(Event.__dataclass_fields__)


def stored_event(values: tuple[Any, ...]) -> Event:
    """An event from validated values in the order of its fields."""
    event: Any = EventSlots()
    (
        event.run_id,
        event.event_id,
        event.type,
        event.occurred_at,
        event.agent_name,
        event.payload,
        event.call_id,
        event.parent_call_id,
        event.producer,
        event.number,
        event.previous_digest,
        event.trace_id,
        event.ttl,
        event.encoded,
    ) = values
    event.__class__ = Event
    return cast(Event, event)


Cursor = NewType("Cursor", str)
"""The position to resume from. Opaque: only the journal that issued it can parse it."""

START = Cursor("")


@dataclass(frozen=True, slots=True)
class Page:
    """A page of events and the cursor to resume from. `more`: further events are available."""

    events: Sequence[Event]
    cursor: Cursor
    more: bool = False

    def cursor_after(self, count: int) -> Cursor:
        """The cursor of a reader that has handled the first `count` events of this page."""
        if count == len(self.events):
            return self.cursor
        raise TypeError("the pages of this journal have no cursors inside")

    def unseen(self, by: Cursor) -> Page:
        """The events of this page that a reader at that cursor has not seen, and its next cursor."""
        if not self.events:
            return Page((), by)
        raise TypeError("the pages of this journal cannot be compared with a cursor")

    def covers(self, seen: Cursor) -> bool:
        """Whether a reader of this page has seen everything that a reader at that cursor has.

        Always true where arriving events are numbered: a later page includes everything before it.
        """
        return True


def new_event_id(at_ms: int) -> str:
    """A new ID that sorts by time: 12 hex digits of milliseconds and 20 random ones."""
    return f"{at_ms:012x}{os.urandom(10).hex()}"


def numbered_event_id(slot: int, producer: str, number: int) -> str:
    """The ID of a recorder's event: 12 hex digits of the slot, 12 of the producer, 8 of the number.

    The slot is the event's millisecond, or the next one if the producer has used it for an earlier event.
    """
    return f"{slot:012x}{producer}{number:08x}"


def slot_of(event: Event) -> int | None:
    """The slot in an event ID of a recorder, else None."""
    if event.producer is None or event.number is None:
        return None
    try:
        slot = int(event.event_id[:12], 16)
    except ValueError:
        return None
    if not 0 <= slot - event.occurred_at <= MAX_SLOT_DRIFT_MS:
        return None
    return slot if event.event_id == numbered_event_id(slot, event.producer, event.number) else None


def parse_event_id(event_id: str) -> tuple[int, str, int] | None:
    """Slot, producer and number in an event ID of a recorder, else None."""
    if len(event_id) != 32:
        return None
    try:
        slot, number = int(event_id[:12], 16), int(event_id[24:], 16)
        int(event_id[12:24], 16)
    except ValueError:
        return None
    if event_id != numbered_event_id(slot, event_id[12:24], number) or not number:
        return None
    return (slot, event_id[12:24], number) if slot <= MAX_OCCURRED_AT else None


TOOL_NAMES = ("operation", "tool_name", "name")  # fields with the name of a called tool


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A `tool_call` event, including the field names of other producers."""

    call_id: str | None
    agent_name: str | None
    system: str | None
    operation: str
    status: str  # as `call_status` has it
    input: object = None
    output: object = None
    error_message: str | None = None
    duration_ms: float | None = None

    @classmethod
    def of(cls, event: Event) -> ToolCall:
        """The tool call in this event."""
        payload = event.payload
        return cls(
            call_id=event.call_id,
            agent_name=event.agent_name or text_of(payload, "agent_name"),
            system=text_of(payload, "system"),
            operation=text_of(payload, *TOOL_NAMES) or "tool",
            status=tool_status(payload),
            input=payload.get("input"),
            output=payload.get("output"),
            error_message=error_of(payload),
            duration_ms=duration_of(payload),
        )


@dataclass(frozen=True, slots=True)
class AgentSpan:
    """An `agent_start` or `agent_end` event."""

    call_id: str | None
    agent_name: str
    ended: bool
    status: str  # as `call_status` has it
    role: str | None = None
    output: object = None
    error_message: str | None = None
    duration_ms: float | None = None

    @classmethod
    def of(cls, event: Event) -> AgentSpan:
        """The start or end of an agent span in this event."""
        payload, ended = event.payload, event.type == "agent_end"
        return cls(
            call_id=event.call_id,
            agent_name=event.agent_name or text_of(payload, "agent_name", "node_name") or "agent",
            ended=ended,
            status=end_status(payload) if ended else "started",
            role=text_of(payload, "role"),
            output=payload.get("output"),
            error_message=error_of(payload),
            duration_ms=duration_of(payload),
        )


CALL_WORDS: Mapping[str, str] = {  # status of other producers -> status
    "start": "started",
    "running": "started",
    "pending": "started",
    "in_progress": "started",
    "complete": "completed",
    "success": "completed",
    "succeeded": "completed",
    "ok": "completed",
    "error": "failed",
    "failure": "failed",
}


def call_status(text: str) -> str:
    """The status of a call: started, completed, failed or skipped.

    An unknown status stays as it is, in lower case, and counts as an end.
    """
    lowered = text.lower()
    return CALL_WORDS.get(lowered, lowered)


def tool_status(payload: Mapping[str, object]) -> str:
    """The status of a tool call. Without a status, an error or an output means that it has ended."""
    word = text_of(payload, "status")
    if word is not None:
        return call_status(word)
    if error_of(payload) is not None:
        return "failed"
    return "completed" if payload.get("output") is not None else "started"


def end_status(payload: Mapping[str, object]) -> str:
    """The status at the end of an agent span or a node. Without a status, an error means failed."""
    word = text_of(payload, "status")
    if word is not None:
        return call_status(word)
    return "completed" if error_of(payload) is None else "failed"


def error_of(payload: Mapping[str, object]) -> str | None:
    """The error message, if any."""
    return text_of(payload, "error_message", "error")


def run_duration_ms(started_at: int, ended_at: int) -> int:
    """The duration of a run: from its start event to the ending that counts.

    Every display of a duration uses this, and recorders store it as `execution_time_ms` of the ending. Never
    negative, although a clock can be set back.
    """
    return max(0, ended_at - started_at)


def duration_of(payload: Mapping[str, object]) -> float | None:
    """The duration that the producer measured, in milliseconds."""
    return number_of(payload, "duration_ms", "execution_time_ms")


def plain_payload(event: Event) -> Mapping[str, object]:
    """The payload, for a reader of many of its fields.

    A store may decode payloads on first access. Their `get` costs several times that of a dict.
    """
    payload = event.payload
    decode = getattr(payload, "decode", None)
    return payload if decode is None else cast(Mapping[str, object], decode())


def text_of(payload: Mapping[str, object], *names: str) -> str | None:
    """The first of these fields that is a non-empty string."""
    for name in names:
        value = payload.get(name)
        if value and isinstance(value, str):
            return value
    return None


def number_of(payload: Mapping[str, object], *names: str) -> float | None:
    """The first of these fields that is a finite number."""
    for name in names:
        value = payload.get(name)
        if value is None:
            continue
        if type(value) is int and -_EXACT < value < _EXACT:  # the usual case
            return value
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            try:
                number = float(value)
            except (OverflowError, ValueError):  # a number of more than 308 digits; a signalling NaN
                continue
            if isfinite(number):
                return value if isinstance(value, int) else number
    return None


def epoch_ms(number: float | Decimal) -> int:
    """The milliseconds since 1970 in a number of seconds, milli-, micro- or nanoseconds.

    Small numbers are milliseconds: no event is from 1970.
    """
    exact = Decimal(number) if isinstance(number, int) else Decimal(str(number))
    if 10**9 <= exact < _SECONDS:
        return int(exact * 1000)
    if exact < _MILLISECONDS:
        return max(0, int(exact))
    return int(exact / 1000) if exact < _MICROSECONDS else int(exact / 1_000_000)

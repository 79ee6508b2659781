"""Splits the output of a process into lines, and parses lines as events.

This module alone translates the spellings of other producers: `event_type` or `type`, `error` or
`error_message`, and a tool call's `event_id`, which identifies the call (`call_id` here), not the event.
"""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from longwatch.errors import InvalidEvent, InvalidInput
from longwatch.journal.codec import from_wire
from longwatch.model.event import Event, epoch_ms, text_of

MAX_LINE_BYTES = 1_000_000  # of one line; a program that never ends its line must not fill the memory


@dataclass(frozen=True, slots=True)
class OutputLine:
    """One line without its line end. Invalid UTF-8 is replaced by U+FFFD."""

    text: str
    left_out: int = 0  # bytes past the limit that are not in `text`

    @property
    def shown(self) -> str:
        """The text, with a marker if it was cut."""
        return f"{self.text}…[cut, {self.left_out} more bytes]" if self.left_out else self.text


class LineSplitter:
    """Splits a stream into lines at `\\n` or `\\r\\n`, and buffers a line that is not complete yet."""

    def __init__(self, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max = max_line_bytes
        self._begun = bytearray()  # of the incomplete line, up to the limit
        self._left_out = 0
        self._last = b""  # of the bytes left out, to recognise a carriage return before the line end

    def feed(self, chunk: bytes) -> Iterator[OutputLine]:
        """The lines that these bytes complete."""
        *ends, rest = chunk.split(b"\n")
        for part in ends:
            self._add(part)
            yield self._finish_line(complete=True)
        self._add(rest)

    def flush(self) -> Iterator[OutputLine]:
        """The last line, if the stream did not end with a line end."""
        if self._begun:
            yield self._finish_line(complete=False)

    def _add(self, part: bytes) -> None:
        room = self._max - len(self._begun)
        self._begun += part[:room]
        if len(part) > room:
            self._left_out += len(part) - room
            self._last = part[-1:]

    def _finish_line(self, *, complete: bool) -> OutputLine:
        line, left_out = bytes(self._begun), self._left_out
        if complete and (self._last == b"\r" if left_out else line.endswith(b"\r")):
            if left_out:
                left_out -= 1
            else:
                line = line[:-1]
        self._begun, self._left_out, self._last = bytearray(), 0, b""
        # A character that the limit would cut in two is left out.
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        return OutputLine(decoder.decode(line, final=not left_out), left_out)


_OWN_FIELDS = frozenset({"run_id", "event_id", "producer", "number"})


@dataclass(frozen=True, slots=True)
class Output:
    """A line that is not an event."""

    text: str


@dataclass(frozen=True, slots=True)
class ParseError:
    """A line that begins like an event and cannot be stored as one."""

    text: str
    error: str


@dataclass(frozen=True, slots=True)
class OwnEvent:
    """An event that a longwatch recorder numbered and chained. It is stored unchanged."""

    event: Event


@dataclass(frozen=True, slots=True)
class ForeignEvent:
    """A translated event of another producer. It gets its id and number when it is recorded."""

    run_id: str
    type: str
    occurred_at: int  # epoch milliseconds
    payload: Mapping[str, object]
    agent_name: str | None = None
    call_id: str | None = None
    parent_call_id: str | None = None
    trace_id: str | None = None


LineContent = Output | ParseError | OwnEvent | ForeignEvent


def parse_line(line: OutputLine) -> LineContent:
    trimmed = line.text.strip()
    if not (trimmed.startswith("{") and trimmed[1:64].lstrip().startswith('"')):  # not {'a': 1} of Python
        return Output(line.shown)
    if line.left_out:
        return ParseError(line.shown, f"the line exceeds the limit by {line.left_out} bytes")
    try:
        value = json.loads(trimmed)
    except (ValueError, RecursionError) as error:
        return ParseError(line.text, f"not JSON: {error}")
    if not isinstance(value, dict):
        return Output(line.text)
    if "\\ud" in trimmed or "\\uD" in trimmed:
        value = _without_surrogates(value)
    try:
        return _own_event(value) or _foreign_event(value) or Output(line.text)
    except (InvalidEvent, InvalidInput) as error:
        return ParseError(line.text, str(error))


def _own_event(value: Mapping[str, object]) -> OwnEvent | None:
    if not value.keys() >= _OWN_FIELDS or "workflow_id" in value:
        return None
    return OwnEvent(from_wire(value))


def _foreign_event(value: Mapping[str, object]) -> ForeignEvent | None:
    rest = dict(value)
    type_ = rest.pop("event_type" if isinstance(rest.get("event_type"), str) else "type", None)
    run_id = rest.pop("workflow_id", None)
    timestamp = rest.pop("timestamp", None)
    if not (isinstance(type_, str) and type_ and isinstance(run_id, str) and run_id):
        return None
    if not isinstance(timestamp, int | float) or isinstance(timestamp, bool):
        return None
    nested = rest.pop("payload", None)  # as an item of the table has it; most lines are flat
    if isinstance(nested, dict):
        rest = {**nested, **rest}
    elif nested is not None:
        rest["payload"] = nested
    if isinstance(rest.get("error"), str) and "error_message" not in rest:
        rest["error_message"] = rest.pop("error")
    event = ForeignEvent(
        run_id=run_id,
        type=type_,
        occurred_at=_milliseconds(timestamp),
        agent_name=_pop_text(rest, "agent_name"),
        call_id=_pop_text(rest, "call_id") or (_pop_text(rest, "event_id") if type_ == "tool_call" else None),
        parent_call_id=_pop_text(rest, "parent_call_id"),
        trace_id=_pop_text(rest, "trace_id"),
        payload=rest,
    )
    _check_storable(event)
    return event


def _milliseconds(timestamp: float) -> int:
    if not math.isfinite(timestamp) or timestamp < 0:
        raise InvalidEvent(f"Invalid timestamp {timestamp}. Use milliseconds since 1970.")
    return epoch_ms(timestamp)  # the same rule as for items of a table, or one event would have two times


def _pop_text(fields: dict[str, object], name: str) -> str | None:
    """Remove a text from the payload that is a field of its own in an event."""
    if text_of(fields, name) is None:
        return None
    return str(fields.pop(name))


def _check_storable(event: ForeignEvent) -> None:
    """Raise `InvalidEvent` now, while the line is available, for an event that no journal accepts."""
    Event(run_id=event.run_id, event_id="-", type=event.type, occurred_at=event.occurred_at)


def _without_surrogates(value: object) -> object:
    """Replace lone surrogates, which are valid JSON and cannot be stored."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    return value

"""What one line of a workflow process's standard output says: an event, plain output, or a broken event.

Other producers' spellings are translated here and nowhere else: `event_type` or `type`, `error` or
`error_message`, and a tool call's `event_id`, which names the call (longwatch: `call_id`) and not the event.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from longwatch.errors import InvalidEvent, InvalidInput
from longwatch.journal.codec import from_wire
from longwatch.model.event import Event, epoch_ms, text_of
from longwatch.recording.process.lines import Line

_OWN_FIELDS = frozenset({"run_id", "event_id", "producer", "number"})


@dataclass(frozen=True, slots=True)
class Output:
    """A line that is meant for people."""

    text: str


@dataclass(frozen=True, slots=True)
class ParseError:
    """A line that begins like an event and is none that can be kept."""

    text: str
    error: str


@dataclass(frozen=True, slots=True)
class OwnEvent:
    """An event that a longwatch recorder numbered and chained: it is kept exactly as it is."""

    event: Event


@dataclass(frozen=True, slots=True)
class ForeignEvent:
    """An event of another producer, in our words. It gets its id and number when it is recorded."""

    run_id: str
    type: str
    occurred_at: int  # epoch milliseconds
    payload: Mapping[str, object]
    agent_name: str | None = None
    call_id: str | None = None
    parent_call_id: str | None = None
    trace_id: str | None = None


Said = Output | ParseError | OwnEvent | ForeignEvent


def parse(line: Line) -> Said:
    """What this line of standard output says."""
    trimmed = line.text.strip()
    if not trimmed.startswith("{"):
        return Output(line.shown)
    if line.left_out:
        return ParseError(line.shown, f"the line is {line.left_out} bytes longer than longwatch reads")
    try:
        value = json.loads(trimmed)
    except (ValueError, RecursionError) as error:
        return ParseError(line.text, f"not JSON: {error}")
    if not isinstance(value, dict):
        return Output(line.text)
    if "\\ud" in trimmed or "\\uD" in trimmed:
        value = _without_surrogates(value)
    try:
        return _own(value) or _foreign(value) or Output(line.text)
    except (InvalidEvent, InvalidInput) as error:
        return ParseError(line.text, str(error))


def _own(value: Mapping[str, object]) -> OwnEvent | None:
    if not value.keys() >= _OWN_FIELDS or "workflow_id" in value:
        return None
    return OwnEvent(from_wire(value))


def _foreign(value: Mapping[str, object]) -> ForeignEvent | None:
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
        agent_name=_taken(rest, "agent_name"),
        call_id=_taken(rest, "call_id") or (_taken(rest, "event_id") if type_ == "tool_call" else None),
        parent_call_id=_taken(rest, "parent_call_id"),
        trace_id=_taken(rest, "trace_id"),
        payload=rest,
    )
    _refuse_unstorable(event)
    return event


def _milliseconds(timestamp: float) -> int:
    if not math.isfinite(timestamp) or timestamp < 0:
        raise InvalidEvent(f"timestamp {timestamp} is no time in milliseconds since 1970")
    return epoch_ms(timestamp)  # the same rule as for items of a table, or one event would have two times


def _taken(fields: dict[str, object], name: str) -> str | None:
    """A text that has a place of its own in an event, taken out of the payload."""
    if text_of(fields, name) is None:
        return None
    return str(fields.pop(name))


def _refuse_unstorable(event: ForeignEvent) -> None:
    """Refuse at the door, with the line still at hand, what no journal may hold."""
    Event(run_id=event.run_id, event_id="-", type=event.type, occurred_at=event.occurred_at)


def _without_surrogates(value: object) -> object:
    """Half of a surrogate pair is valid JSON and can be stored nowhere."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    return value

"""Reads events from items of other producers: identified by their key, and with all of their attributes.

Their `event_id` is shared by the start and the end of a call, so it is read as the call id.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from longwatch.model.event import MAX_WHOLE, Event, unreadable_event
from longwatch.storage.dynamodb.values import AttributeMap, from_attribute, text_in

if TYPE_CHECKING:
    from longwatch.journal.dynamodb.layout import EventNames

UNREADABLE = "unreadable_item"


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherNames:
    """The attribute names that other producers use for one field each."""

    types: tuple[str, ...]
    agents: tuple[str, ...]
    calls: tuple[str, ...]
    payloads: tuple[str, ...]
    errors: tuple[str, ...]


def read_other_event(run_id: str, key: str, at: int, values: dict[str, object], names: OtherNames) -> Event:
    """The event in the attributes of an item. Unknown attributes are added to its payload.

    An item without a type is unreadable.
    """
    rest = dict(values)
    type_ = _take_text(rest, *names.types)
    if type_ is None:
        return _unreadable_event(run_id, key, at, values)
    agent_name = _take_text(rest, *names.agents)
    call_id = _take_text(rest, *names.calls)
    parent_call_id = _take_text(rest, "parent_call_id")
    trace_id = _take_text(rest, "trace_id")
    ttl = _take_integer(rest, "ttl")
    payload: dict[str, object] = {}
    for name in names.payloads:
        if name in rest:
            payload.update(_parse_payload(name, rest.pop(name)))
    if "error_message" not in payload:
        error = _take_text(rest, *names.errors)
        if error is not None:
            payload["error_message"] = error
    for name, value in rest.items():
        payload[name if payload.get(name, value) == value else f"item_{name}"] = value
    return Event(
        run_id=run_id,
        event_id=f"key:{run_id}:{key}",
        type=type_,
        occurred_at=at,
        agent_name=agent_name,
        payload=payload,
        call_id=call_id,
        parent_call_id=parent_call_id,
        trace_id=trace_id,
        ttl=ttl,
    )


def _unreadable_event(run_id: str, key: str, at: int, values: dict[str, object]) -> Event:
    """An event whose payload contains the item."""
    return Event(
        run_id=run_id,
        event_id=f"key:{run_id}:{key}",
        type=UNREADABLE,
        occurred_at=at,
        payload={"item": values},
    )


def unreadable_item(run_id: str, key: str, at: int, item: AttributeMap) -> Event:
    """An event for an item with attributes that cannot be decoded; their text is in the payload."""
    values = {str(name): _decode_or_text(attribute) for name, attribute in item.items()}
    return _unreadable_event(run_id, key, at, values)


def damaged_event(run_id: str, key: str, at: int, item: AttributeMap, names: EventNames) -> Event:
    """The event that replaces a damaged item of a longwatch recorder. Raises KeyError for other items."""
    int(item[names.marker]["N"])
    producer = text_in(item, names.producer)
    text = item.get(names.number, {}).get("N")
    number = int(text) if isinstance(text, str) and text.isdecimal() else 0
    is_numbered = producer is not None and 0 < number <= MAX_WHOLE
    return unreadable_event(
        run_id,
        key,
        "its item cannot be decoded",
        occurred_at=at,
        event_id=text_in(item, names.event_id),
        producer=producer if is_numbered else None,
        number=number if is_numbered else None,
    )


def _take_text(values: dict[str, object], *names: str) -> str | None:
    """Remove and return the first of these that is text; others with the same text are removed too."""
    found: str | None = None
    for name in names:
        value = values.get(name)
        if isinstance(value, str) and value and found in (None, value):
            found = value
            del values[name]
    return found


def _take_integer(values: dict[str, object], name: str) -> int | None:
    value = values.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 2**63:
        return None
    del values[name]
    return int(value)


def _parse_payload(name: str, value: object) -> dict[str, object]:
    """A payload that is a map, a map as JSON text, or any other value."""
    if isinstance(value, str):
        try:
            value = json.loads(value, parse_float=_float_or_text, parse_constant=str)
        except (ValueError, RecursionError):
            pass  # plain text
    return value if isinstance(value, dict) else {} if value is None else {name: value}


def _float_or_text(text: str) -> float | str:
    number = float(text)
    return number if isfinite(number) else text


def _decode_or_text(attribute: object) -> object:
    try:
        return from_attribute(attribute)  # type: ignore[arg-type]
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
        return str(attribute)

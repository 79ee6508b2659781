"""Events in items that other producers wrote: named by their key, spelled their way, nothing lost.

What they call `event_id` is shared by the start and the end of a call, so it is our call id.
"""

from __future__ import annotations

import json
from math import isfinite

from longwatch.journal.dynamodb.layout import shown, text_in
from longwatch.model.event import MAX_WHOLE, Event, unreadable_event
from longwatch.storage.dynamodb.values import AttributeMap

UNREADABLE = "unreadable_item"


def foreign_event(
    run_id: str,
    key: str,
    at: int,
    values: dict[str, object],
    *,
    types: tuple[str, ...],
    agents: tuple[str, ...],
    calls: tuple[str, ...],
    payloads: tuple[str, ...],
    errors: tuple[str, ...],
) -> Event:
    """The event in the attributes of an item, each of which may be spelled in several ways.

    Attributes that we do not know go into the payload. An item that names no type is an unreadable one.
    """
    rest = dict(values)
    type_ = _take_text(rest, *types)
    if type_ is None:
        return unreadable(run_id, key, at, values)
    agent_name = _take_text(rest, *agents)
    call_id = _take_text(rest, *calls)
    parent_call_id = _take_text(rest, "parent_call_id")
    trace_id = _take_text(rest, "trace_id")
    ttl = _take_whole_number(rest, "ttl")
    payload: dict[str, object] = {}
    for name in payloads:
        if name in rest:
            payload.update(_opened(name, rest.pop(name)))
    if "error_message" not in payload:
        error = _take_text(rest, *errors)
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


def unreadable(run_id: str, key: str, at: int, values: dict[str, object]) -> Event:
    """An event that carries what was there."""
    return Event(
        run_id=run_id,
        event_id=f"key:{run_id}:{key}",
        type=UNREADABLE,
        occurred_at=at,
        payload={"item": values},
    )


def unreadable_item(run_id: str, key: str, at: int, item: AttributeMap) -> Event:
    """The same from an item whose attributes could not all be read."""
    return unreadable(run_id, key, at, shown(item))


def damaged_event(
    run_id: str,
    key: str,
    at: int,
    item: AttributeMap,
    *,
    marker: str,
    event_id: str,
    producer: str,
    number: str,
) -> Event:
    """What stands for an item of a longwatch recorder that cannot be decoded; an error for other items.

    The last four are the names of attributes.
    """
    int(item[marker]["N"])  # a KeyError here: another producer wrote it
    named = text_in(item, producer)
    count = item.get(number, {}).get("N")
    counted = int(count) if isinstance(count, str) and count.isdecimal() else 0
    is_numbered = named is not None and 0 < counted <= MAX_WHOLE
    return unreadable_event(
        run_id,
        key,
        "its item cannot be decoded",
        occurred_at=at,
        event_id=text_in(item, event_id),
        producer=named if is_numbered else None,
        number=counted if is_numbered else None,
    )


def _take_text(values: dict[str, object], *names: str) -> str | None:
    """The first of these that holds text, removed; others that hold the very same go with it."""
    found: str | None = None
    for name in names:
        value = values.get(name)
        if isinstance(value, str) and value and found in (None, value):
            found = value
            del values[name]
    return found


def _take_whole_number(values: dict[str, object], name: str) -> int | None:
    value = values.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 2**63:
        return None
    del values[name]
    return int(value)


def _opened(name: str, value: object) -> dict[str, object]:
    """A payload that is a map, or a map as JSON text, or anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value, parse_float=_float_or_text, parse_constant=str)
        except (ValueError, RecursionError):
            pass  # it is just text
    return value if isinstance(value, dict) else {} if value is None else {name: value}


def _float_or_text(text: str) -> float | str:
    number = float(text)
    return number if isfinite(number) else text

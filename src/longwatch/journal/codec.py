"""Events as text: one canonical JSON form for storage, export, the outbox and the digest chain.

JSON has no sets, bytes or exact decimals, so those are written as one-key objects (`{"$set": [...]}`,
`{"$bytes": "…"}`, `{"$decimal": "…"}`); a map that happens to look like one is wrapped in `{"$map": …}`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from hashlib import sha256
from typing import Any

from longwatch.errors import InvalidEvent, InvalidInput
from longwatch.events import Event

DIGEST_HEX_DIGITS = 32  # 128 bits: it detects damage, it does not stop an adversary

_TAGS = frozenset({"$set", "$bytes", "$decimal", "$map"})


def encode_payload(payload: Mapping[str, object]) -> str:
    """The payload as canonical JSON: sorted keys, no spaces, non-ASCII as it is."""
    try:
        text = _encode(payload if type(payload) is dict else dict(payload))
        if '"$' in text:
            text = _encode(_escaped(payload))
        text.encode()  # a lone surrogate cannot be stored anywhere
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEvent(f"the payload cannot be stored: {error}") from error
    return text


def decode_payload(text: str) -> dict[str, object]:
    """The payload that `encode_payload` wrote."""
    value = json.loads(text)
    if '"$' in text:
        value = _restored(value)
    if not isinstance(value, dict):
        raise InvalidInput("a payload must be a JSON object")
    return value


def payload_text(event: Event) -> str:
    """The event's payload as canonical JSON, written only once."""
    return event.encoded if event.encoded is not None else encode_payload(event.payload)


def canonical(event: Event) -> str:
    """Everything an event says, without where it is stored: no key, no ttl, no arrival."""
    head = _encode(
        [
            event.run_id,
            event.event_id,
            event.type,
            event.occurred_at,
            event.agent_name,
            event.call_id,
            event.parent_call_id,
            event.producer,
            event.number,
            event.previous_digest,
            event.trace_id,
        ]
    )
    return head + payload_text(event)


def digest(event: Event) -> str:
    """What the producer's next event carries as `previous_digest`."""
    return sha256(canonical(event).encode()).hexdigest()[:DIGEST_HEX_DIGITS]


def same_content(one: Event, other: Event) -> bool:
    """Whether two events say the same. 1 and 1.0 are the same number; not every store keeps them apart."""
    if canonical(one) == canonical(other):
        return True
    plain = [replace(event, payload={}, encoded=None, ttl=None) for event in (one, other)]
    payloads = [decode_payload(payload_text(event)) for event in (one, other)]
    return plain[0] == plain[1] and payloads[0] == payloads[1]


_WIRE_FIELDS = (
    "run_id",
    "event_id",
    "type",
    "occurred_at",
    "agent_name",
    "call_id",
    "parent_call_id",
    "producer",
    "number",
    "previous_digest",
    "trace_id",
    "ttl",
)
_INTEGERS = frozenset({"occurred_at", "number", "ttl"})
_REQUIRED = frozenset({"run_id", "event_id", "type", "occurred_at"})


def to_line(event: Event) -> str:
    """The event as one line of JSON, as `longwatch export` prints it."""
    head = {name: value for name in _WIRE_FIELDS if (value := getattr(event, name)) is not None}
    return f'{_encode(head)[:-1]},"payload":{payload_text(event)}}}'


def from_line(line: str | bytes) -> Event:
    """The event that `to_line` wrote. Raises `InvalidInput` with the reason if it is none."""
    try:
        value = json.loads(line)
    except ValueError as error:
        raise InvalidInput(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidInput(f"an event is a JSON object, not {type(value).__name__}")
    return from_wire(value)


def from_wire(value: Mapping[str, Any]) -> Event:
    """The event in a decoded JSON object, every field checked."""
    unknown = sorted(set(value) - set(_WIRE_FIELDS) - {"payload"})
    if unknown:
        raise InvalidInput(
            f"unknown field {', '.join(unknown)}; an event has {', '.join(_WIRE_FIELDS)}, payload"
        )
    fields: dict[str, Any] = {}
    for name in _WIRE_FIELDS:
        found = value.get(name)
        if found is None:
            if name in _REQUIRED:
                raise InvalidInput(f"field {name} is missing")
            continue
        wanted = int if name in _INTEGERS else str
        if type(found) is not wanted:
            raise InvalidInput(f"field {name} must be {wanted.__name__}, not {type(found).__name__}")
        fields[name] = found
    payload = value.get("payload", {})
    if not isinstance(payload, dict):
        raise InvalidInput("field payload must be an object")
    restored = _restored(payload)
    if not isinstance(restored, dict):
        raise InvalidInput("field payload must be an object")
    return Event(payload=restored, **fields)


def _plain(value: object) -> object:
    """What JSON itself cannot say, as a tagged object."""
    if isinstance(value, bytes | bytearray | memoryview):
        return {"$bytes": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, set | frozenset):
        items = [_plain(item) if isinstance(item, bytes | Decimal) else item for item in value]
        return {"$set": sorted(items, key=lambda item: _encode(item))}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no storable value")


_encode = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain
).encode


def _escaped(value: object) -> object:
    if isinstance(value, Mapping):
        inner = {key: _escaped(item) for key, item in value.items()}
        return {"$map": inner} if len(inner) == 1 and next(iter(inner)) in _TAGS else inner
    if isinstance(value, list | tuple):
        return [_escaped(item) for item in value]
    return value


def _restored(value: object) -> object:
    if isinstance(value, list):
        return [_restored(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        tag, inner = next(iter(value.items()))
        try:
            if tag == "$bytes":
                return base64.b64decode(inner, validate=True)
            if tag == "$decimal":
                return Decimal(inner)
            if tag == "$set":
                return {_restored(item) for item in inner}
        except (TypeError, ValueError, ArithmeticError) as error:
            raise InvalidInput(f"{tag} does not hold what it should: {inner!r}") from error
        if tag == "$map" and isinstance(inner, dict):
            return {key: _restored(item) for key, item in inner.items()}
    return {key: _restored(item) for key, item in value.items()}

"""Events as text: one canonical JSON form for storage, export, the outbox and the digest chain.

JSON has no sets, bytes or exact decimals, so those are written as one-key objects (`{"$set": [...]}`,
`{"$bytes": "…"}`, `{"$decimal": "…"}`); a map that happens to look like one is wrapped in `{"$map": …}`.
Tuples become lists, and keys become text, as in any JSON.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from hashlib import sha256
from json.encoder import (
    encode_basestring as _quoted,  # called directly, it halves the cost of the head
)
from math import isfinite
from sys import getsizeof
from typing import Any, NoReturn

from longwatch.errors import InvalidEvent, InvalidInput
from longwatch.model.event import RUN_DELETED, UNREADABLE, Event

DIGEST_HEX_DIGITS = 32  # 128 bits: detects damage, does not stop an adversary
MAX_LEVELS = 100  # of nested maps and lists; not every parser reads deeper text
TOO_DEEP = f"it nests deeper than {MAX_LEVELS} levels; flatten it"

_TAGS = frozenset({"$set", "$bytes", "$decimal", "$map"})
_SHOWN = 60  # characters of an invalid value in a message


def encode_payload(payload: Mapping[str, object]) -> str:
    """The payload as canonical JSON: sorted keys, no spaces, non-ASCII as it is."""
    try:
        text = _encode(payload if type(payload) is dict else dict(payload))
        if _may_have_tags(text):
            text = _encode(_escape_tags(payload))
        text.encode()  # a lone surrogate cannot be stored anywhere
        # Most payloads contain no map or list, and finding the first is ten times faster than counting.
        if ("[" in text or text.find("{", 1) > 0) and text.count("{") + text.count("[") > MAX_LEVELS:
            check_levels(_decoder.decode(text))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEvent(f"the payload cannot be stored: {error}") from error
    return text


def decode_payload(text: str) -> dict[str, object]:
    """The payload that `encode_payload` wrote."""
    value, end = None, -1
    try:
        value, end = _decoder.raw_decode(text)  # canonical text has no spaces around it
    except (ValueError, RecursionError):
        pass  # `_decode` raises the error with its message
    if end != len(text):
        value = _decode(text)
    if _may_have_tags(text):
        value = _untag(value)
    if not isinstance(value, dict):
        raise InvalidInput(f"a payload must be a JSON object, not {_kind(value)}")
    return value


def payload_text(event: Event) -> str:
    """The event's payload as canonical JSON, encoded only once."""
    return event.encoded if event.encoded is not None else encode_payload(event.payload)


def payload_size(event: Event) -> int:
    """The approximate size of a payload in memory: exact if its text is cached, else estimated.

    A single character beyond Latin-1 makes a whole text take two or four bytes per character.
    """
    return getsizeof(event.encoded) if event.encoded is not None else _count_bytes(event.payload)


def _count_bytes(value: object) -> int:
    if isinstance(value, str | bytes):
        return getsizeof(value)
    if isinstance(value, Mapping):
        return sum(len(str(key)) + _count_bytes(item) for key, item in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return sum(map(_count_bytes, value))
    return 8  # a number, true, false or null


def canonical(event: Event) -> str:
    """The content of an event, without anything about its storage: no key, no ttl, no position."""
    # Runs for each recorded event: a helper for "or null" would take a quarter of the time.
    agent, call, parent = event.agent_name, event.call_id, event.parent_call_id
    producer, number = event.producer, event.number
    previous, trace = event.previous_digest, event.trace_id
    return (
        f"[{_quoted(event.run_id)},{_quoted(event.event_id)},{_quoted(event.type)},{event.occurred_at},"
        f"{'null' if agent is None else _quoted(agent)},{'null' if call is None else _quoted(call)},"
        f"{'null' if parent is None else _quoted(parent)},"
        f"{'null' if producer is None else _quoted(producer)},{'null' if number is None else number},"
        f"{'null' if previous is None else _quoted(previous)},{'null' if trace is None else _quoted(trace)}]"
        f"{payload_text(event)}"
    )


def digest(event: Event) -> str:
    """The `previous_digest` of the producer's next event."""
    return sha256(canonical(event).encode()).hexdigest()[:DIGEST_HEX_DIGITS]


def same_content(one: Event, other: Event) -> bool:
    """Whether two events have the same content. 1 equals 1.0: not every store distinguishes them."""
    if canonical(one) == canonical(other):
        return True
    bare = [replace(event, payload={}, encoded=None, ttl=None) for event in (one, other)]
    payloads = [decode_payload(payload_text(event)) for event in (one, other)]
    return bare[0] == bare[1] and _same(payloads[0], payloads[1])


def _same(one: object, other: object) -> bool:
    """Equality that distinguishes True from 1, unlike Python's."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(item, other[key]) for key, item in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


_TEXTS = (
    "run_id",
    "event_id",
    "type",
    "agent_name",
    "call_id",
    "parent_call_id",
    "producer",
    "previous_digest",
    "trace_id",
)
_WHOLE_NUMBERS = ("occurred_at", "number", "ttl")
_FIELDS = (*_TEXTS, *_WHOLE_NUMBERS, "payload")
_REQUIRED = ("run_id", "event_id", "type", "occurred_at")


def to_line(event: Event) -> str:
    """The event as one line of JSON, as `longwatch export` prints it."""
    names = (*_TEXTS, *_WHOLE_NUMBERS)
    head = {name: value for name in names if (value := getattr(event, name)) is not None}
    return f'{_encode(head)[:-1]},"payload":{payload_text(event)}}}'


def from_line(line: str | bytes) -> Event:
    """The event that `to_line` wrote. Raises `InvalidInput` or `InvalidEvent` with the reason."""
    value = _decode(line)
    if not isinstance(value, dict):
        raise InvalidInput(f"an event must be a JSON object, not {_kind(value)}")
    return from_wire(value)


def from_wire(value: Mapping[str, Any]) -> Event:
    """The event in a decoded JSON object, with every field validated."""
    unknown = sorted(value.keys() - set(_FIELDS))
    if unknown:
        raise InvalidInput(
            f"unknown field {_short(', '.join(unknown))}; the fields of an event are {', '.join(_FIELDS)}"
        )
    given = {name: found for name, found in value.items() if found is not None}
    for name in _REQUIRED:
        if name not in given:
            raise InvalidInput(f"field {name} is missing")
    if given["type"] == RUN_DELETED:
        raise InvalidInput(f"the type {RUN_DELETED} is reserved; delete a run with `longwatch delete`")
    _check_fields(given, _TEXTS, str, "text")
    _check_fields(given, _WHOLE_NUMBERS, int, "an integer")
    _check_fields(given, ("payload",), dict, "an object")
    try:
        check_levels(given.get("payload"))
    except ValueError as error:
        raise InvalidInput(f"field payload cannot be stored: {error}") from error
    if given["type"] == UNREADABLE:
        raise InvalidInput(
            f"{UNREADABLE} is a placeholder for an event that could not be read; it cannot be stored"
        )
    payload = _untag(given.pop("payload", {}))
    if not isinstance(payload, dict):
        raise InvalidInput("field payload must be an object, not a tagged value")
    # Encoded here, so that a payload that no journal can store is rejected with its line.
    return Event(payload=payload, encoded=encode_payload(payload), **given)


def _check_fields(given: Mapping[str, object], names: Iterable[str], expected: type, noun: str) -> None:
    for name in names:
        if name in given and type(given[name]) is not expected:  # True is an int
            raise InvalidInput(f"field {name} must be {noun}, not {_kind(given[name])}")


def _kind(value: object) -> str:
    """The JSON name of a value's type."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "text"
        case int() | float():
            return "a number"
        case list():
            return "an array"
        case dict():
            return "an object"
        case _:
            return "a tagged value"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _tag(value: object) -> object:
    """A value that JSON lacks, as a tagged object."""
    if isinstance(value, bytes | bytearray | memoryview):
        return {"$bytes": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"the number {value} cannot be stored")
        return {"$decimal": str(value)}
    if isinstance(value, set | frozenset):
        for item in value:
            if not isinstance(item, str | bytes | int | float | Decimal | None):
                raise TypeError(f"a set may contain strings, numbers and bytes, not {type(item).__name__}")
        return {"$set": sorted(value, key=_encode)}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a value of type {type(value).__name__} cannot be stored")


# The check for cycles costs a tenth of the time; without it a cycle raises RecursionError.
_encoder = json.JSONEncoder(
    sort_keys=True,
    separators=(",", ":"),
    ensure_ascii=False,
    allow_nan=False,
    check_circular=False,
    default=_tag,
)


def _make_encode() -> Callable[[object], str]:
    """`_encoder.encode` with a C encoder that is created once instead of for every value.

    That encoder is an undocumented part of Python. Where it is missing or takes other arguments, the
    documented function is used, which writes the same text.
    """
    try:
        chunks = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
            None, _tag, _quoted, None, ":", ",", True, False, False
        )
        sample = {"b": [1.5, None, True], "a": 'é"'}
        if "".join(chunks(sample, 0)) == _encoder.encode(sample):
            return lambda value: "".join(chunks(value, 0))
    except (AttributeError, TypeError, ValueError):
        pass
    return _encoder.encode


_encode = _make_encode()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)


def _decode(line: str | bytes) -> object:
    try:
        return _decoder.decode(line.decode() if isinstance(line, bytes) else line)
    except RecursionError as error:
        raise InvalidInput(TOO_DEEP) from error
    except ValueError as error:
        raise InvalidInput(f"not JSON: {error}") from error


def _may_have_tags(text: str) -> bool:
    return "$" in text and '"$' in text  # the first test is ten times faster, and usually sufficient


def check_levels(value: object) -> None:
    """Raise ValueError if maps and lists nest too deeply. Does not recurse, so any depth is safe."""
    containers, levels = [value] if isinstance(value, dict | list) else [], 0
    while containers:
        levels += 1
        if levels > MAX_LEVELS:
            raise ValueError(TOO_DEEP)
        containers = [
            item
            for container in containers
            for item in (container.values() if isinstance(container, dict) else container)
            if isinstance(item, dict | list)
        ]


def _escape_tags(value: object) -> object:
    if isinstance(value, Mapping):
        inner = {key: _escape_tags(item) for key, item in value.items()}
        return {"$map": inner} if len(inner) == 1 and next(iter(inner)) in _TAGS else inner
    if isinstance(value, list | tuple):
        return [_escape_tags(item) for item in value]
    return value


def _untag(value: object) -> object:
    if isinstance(value, list):
        return [_untag(item) for item in value]
    if isinstance(value, float) and not isfinite(value):  # 1e999 is valid JSON
        raise InvalidInput("a number is too large to store")
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        tag, inner = next(iter(value.items()))
        if tag == "$map" and isinstance(inner, dict):
            return {key: _untag(item) for key, item in inner.items()}
        if tag in _TAGS:
            return _decode_tag(tag, inner)
    return {key: _untag(item) for key, item in value.items()}


def _decode_tag(tag: str, inner: object) -> object:
    try:
        match tag, inner:
            case "$bytes", str():
                return base64.b64decode(inner, validate=True)
            case "$decimal", str():
                return Decimal(inner)
            case "$set", list():
                return {_untag(item) for item in inner}
    except (TypeError, ValueError, ArithmeticError) as error:
        raise InvalidInput(f"invalid value of {tag}: {_short(repr(inner))}") from error
    raise InvalidInput(f"invalid value of {tag}: {_short(repr(inner))}")

"""Converts Python values to DynamoDB attribute values and back, several times faster than boto3.

A number is read as int if it is whole, as float if a float has exactly this value, else as Decimal. So 1.0 is
read as 1: DynamoDB does not distinguish the two. A whole number of more than 38 digits is read as a float
where that is exact, because it was most likely written as one.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping
from decimal import Context, Decimal, Inexact, InvalidOperation, Rounded
from math import isfinite
from typing import Any

from longwatch.errors import InvalidEvent

MAX_DIGITS = 38
MAX_LEVELS = 31  # of nested maps and lists; DynamoDB's 32 include the values in the last one
MAX_ITEM_BYTES = 400 * 1024
NO_NAME = "∅"  # replaces the empty key of a map, which DynamoDB rejects; doubled for itself
LARGEST_EXPONENT, SMALLEST_EXPONENT = 125, -130

AttributeValue = dict[str, Any]
AttributeMap = dict[str, AttributeValue]

_NUMBERS = Context(prec=MAX_DIGITS, traps=[Inexact, Rounded, InvalidOperation])
_FIRST_TOO_LONG = 10**MAX_DIGITS


def to_attribute(value: object) -> AttributeValue:
    """The value as an attribute value. Raises `InvalidEvent` for a value that DynamoDB cannot store."""
    return _encode(value, MAX_LEVELS)


def to_map(values: Mapping[str, object]) -> AttributeValue:
    """A map of values, to be stored as an attribute of an item."""
    return _encode_map(values, MAX_LEVELS)


def from_attribute(attribute: Mapping[str, Any]) -> object:
    """The value of an attribute. Raises ValueError for anything but an attribute value."""
    ((kind, held),) = attribute.items()
    match kind:
        case "S" | "BOOL":
            return held
        case "N":
            return number_from(held)
        case "M":
            return {_key_from(key): from_attribute(item) for key, item in held.items()}
        case "L":
            return [from_attribute(item) for item in held]
        case "NULL":
            return None
        case "B":
            return _bytes_from(held)
        case "SS":
            return set(held)
        case "NS":
            return {number_from(text) for text in held}
        case "BS":
            return {_bytes_from(item) for item in held}
        case _:
            raise ValueError(f"unknown DynamoDB type {kind!r}")


def _bytes_from(held: Any) -> bytes:
    return b64decode(held, validate=True) if type(held) is str else bytes(held)  # the wire has base64 text


def text_in(item: AttributeMap, name: str) -> str | None:
    """The text of an attribute; None without one."""
    attribute = item.get(name)
    if attribute is None:
        return None
    text = attribute.get("S")
    return text if isinstance(text, str) else None


def integer_in(item: AttributeMap, name: str) -> int | None:
    """The integer in an attribute that longwatch wrote; None without one."""
    attribute = item.get(name)
    return None if attribute is None else int(attribute["N"])


def number_from(text: str) -> int | float | Decimal:
    """The simplest Python number that is equal to the number in this text."""
    if len(text) <= MAX_DIGITS:
        try:
            return int(text)
        except ValueError:
            pass  # it has a point or an exponent
    exact = Decimal(text)
    whole = exact == exact.to_integral_value()
    if whole and exact.adjusted() < MAX_DIGITS:
        return int(exact)
    close = float(exact)
    if Decimal(repr(close)) == exact:
        return close
    return int(exact) if whole else exact


def number_text(number: float | Decimal) -> str:
    """The number as DynamoDB text. Raises `InvalidEvent` beyond 38 digits or its range."""
    if isinstance(number, int):
        if -_FIRST_TOO_LONG < number < _FIRST_TOO_LONG:
            return str(int(number))
        raise InvalidEvent(
            f"a DynamoDB number has at most {MAX_DIGITS} digits, not {_short(number)}; record it as a string"
        )
    if isinstance(number, float):
        if not isfinite(number):
            raise InvalidEvent(f"DynamoDB cannot store the number {number!r}; record it as a string")
        if number.is_integer() and abs(number) < _FIRST_TOO_LONG:
            return str(int(number))  # beyond 2**53 the repr of a float is not exact
        exact = Decimal(repr(float(number)))
    else:
        exact = number
    if not exact.is_finite():
        raise InvalidEvent(f"DynamoDB cannot store the number {exact}; record it as a string")
    try:
        exact = exact.normalize(_NUMBERS)
    except (Inexact, Rounded, InvalidOperation) as error:
        raise InvalidEvent(
            f"a DynamoDB number has at most {MAX_DIGITS} digits, not {_short(number)}; record it as a string"
        ) from error
    if exact and not SMALLEST_EXPONENT <= exact.adjusted() <= LARGEST_EXPONENT:
        raise InvalidEvent(
            f"a DynamoDB number is from 1E{SMALLEST_EXPONENT} to 9.9E+{LARGEST_EXPONENT}, not "
            f"{_short(number)}; record it as a string"
        )
    return str(exact) if exact else "0"


def size_of(item: AttributeMap) -> int:
    """The approximate size by DynamoDB's rules: names, values and a few bytes for each container."""
    return sum(_length(name) + _size(value) for name, value in item.items())


def _encode(value: object, levels: int) -> AttributeValue:
    kind = type(value)
    if kind is str:
        return _encode_text(value)  # type: ignore[arg-type]  # mypy does not narrow by type()
    if kind is bool:
        return {"BOOL": value}
    if value is None:
        return {"NULL": True}
    if kind is int or kind is float or isinstance(value, int | float | Decimal):
        return {"N": number_text(value)}  # type: ignore[arg-type]
    if kind is dict or isinstance(value, Mapping):
        return _encode_map(value, levels)  # type: ignore[arg-type]
    if isinstance(value, list | tuple):
        if not levels:
            raise InvalidEvent(
                f"maps and lists are nested deeper than DynamoDB's limit of {MAX_LEVELS} levels; flatten them"
            )
        return {"L": [_encode(item, levels - 1) for item in value]}
    if isinstance(value, bytes | bytearray | memoryview):
        return {"B": bytes(value)}
    if isinstance(value, set | frozenset):
        return _encode_set(value)
    if isinstance(value, str):  # a StrEnum
        return _encode_text(str.__str__(value))
    raise InvalidEvent(f"a journal cannot store a value of type {kind.__name__}: {_short(value)}")


def _encode_text(text: str) -> AttributeValue:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidEvent(f"the string {_short(text)} cannot be encoded as UTF-8: {error}") from error
    return {"S": text}


def _encode_map(values: Mapping[str, object], levels: int) -> AttributeValue:
    if not levels:
        raise InvalidEvent(
            f"maps and lists are nested deeper than DynamoDB's limit of {MAX_LEVELS} levels; flatten them"
        )
    return {
        "M": {
            key if type(key) is str and key and key.isascii() else _key(key): _encode(item, levels - 1)
            for key, item in values.items()
        }
    }


def _key(key: object) -> str:
    """A map key as text, as in JSON."""
    match key:
        case str():
            _encode_text(key)
            return str.__str__(key) if key.strip(NO_NAME) else key + NO_NAME
        case bool() | None:
            return {True: "true", False: "false", None: "null"}[key]
        case int() | float():
            return repr(key)
        case _:
            raise InvalidEvent(f"map keys must be strings, not {type(key).__name__}: {_short(key)}")


def _key_from(key: str) -> str:
    return key if key.strip(NO_NAME) else key[: -len(NO_NAME)]


def _encode_set(values: Iterable[object]) -> AttributeValue:
    items = list(values)
    if not items:
        raise InvalidEvent("DynamoDB cannot store an empty set; record an empty list")
    if all(isinstance(item, str) for item in items):
        return {"SS": sorted(_encode_text(str(item))["S"] for item in items)}
    if all(isinstance(item, bytes) for item in items):
        return {"BS": sorted(items)}
    if all(isinstance(item, int | float | Decimal) and not isinstance(item, bool) for item in items):
        return {"NS": sorted({number_text(item) for item in items})}  # type: ignore[arg-type]
    raise InvalidEvent(
        "a DynamoDB set holds only strings, only numbers or only bytes; record a mixed set as a list"
    )


def _size(attribute: AttributeValue) -> int:
    ((kind, held),) = attribute.items()
    match kind:
        case "S":
            return _length(held)
        case "N":
            return len(held) // 2 + 2
        case "B":
            return len(held)
        case "M":
            return 3 + sum(1 + _length(key) + _size(item) for key, item in held.items())
        case "L":
            return 3 + sum(1 + _size(item) for item in held)
        case "SS":
            return sum(map(_length, held))
        case "NS":
            return sum(len(text) // 2 + 2 for text in held)
        case "BS":
            return sum(map(len, held))
        case _:
            return 1


def _length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _short(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 1_000:
        # Python does not convert longer ones to text.
        return f"a number of about {value.bit_length() * 3 // 10} digits"
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"

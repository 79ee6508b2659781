"""Values as they are at this moment: a copy that later changes cannot reach, made of what journals can store.

It runs in the observed code, so the usual small values take the short way. What cannot be stored becomes a
readable stand-in: NaN and infinities, numbers beyond 38 digits, empty or mixed sets, deep nesting, cycles,
and objects of any other kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

from longwatch.recording.redaction import REDACTED, SecretNames, redact_text

MAX_DEPTH = 28  # DynamoDB nests 32 levels; the payload itself and its item take some
MAX_INTEGER = 10**38
SMALLEST_FLOAT, LARGEST_FLOAT = 1e-130, 9.9e125  # DynamoDB's range
REPR_CHARACTERS = 200
LONGEST_TOKEN = 4_096  # characters


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a value is kept."""

    characters: int  # of one text
    items: int  # of one list, map or set
    depth: int
    total: int  # characters and items of one event together


SUMMARY = Limits(characters=1_000, items=20, depth=4, total=20_000)
FULL = Limits(characters=400_000, items=50_000, depth=MAX_DEPTH, total=800_000)


class Capture:
    """One copying of one payload. `weight` tells afterwards about how many bytes it holds in memory."""

    __slots__ = ("_limits", "_path", "_secrets", "weight")

    def __init__(self, limits: Limits, secrets: SecretNames) -> None:
        self._limits = limits
        self._secrets = secrets
        self._path: list[int] = []  # ids of the containers we are inside of, to notice cycles
        self.weight = 0

    def fields(self, named: Mapping[str, object]) -> dict[str, object]:
        """A copy of a map of named values, secrets blanked by name."""
        secrets = self._secrets
        return {
            name: REDACTED if name in secrets and value is not None else self.value(value)
            for name, value in named.items()
        }

    def value(self, value: object) -> object:
        """A storable copy of any value."""
        kind = type(value)
        if kind is str:
            return self._text(cast(str, value))
        if value is None or kind is bool:
            return value
        if kind is int:
            return value if -MAX_INTEGER < cast(int, value) < MAX_INTEGER else f"{value}"[:REPR_CHARACTERS]
        if kind is float:
            return _number(cast(float, value))
        self.weight += 50
        if self.weight > self._limits.total:
            return f"[{kind.__name__} left out: the event is full]"
        try:
            return self._other(value)
        except Exception as error:  # noqa: BLE001 - a strange object must never break the observed code
            return f"<{kind.__name__} that cannot be shown: {type(error).__name__}>"

    def _text(self, text: str) -> str:
        kept = min(self._limits.characters, max(0, self._limits.total - self.weight))
        if len(text) <= kept:
            self.weight += len(text)
            return text
        self.weight += kept
        # Half a token is still a secret, and no longer looks like one: blank whole ones before the cut.
        beginning = redact_text(text[: kept + LONGEST_TOKEN])[:kept]
        return f"{beginning}…[shortened, {len(text)} characters]"

    def _other(self, value: object) -> object:
        match value:
            case Mapping():
                return self._inside(value, self._map)
            case list() | tuple():
                if isinstance(value, tuple) and hasattr(value, "_asdict"):
                    return self._inside(value._asdict(), self._map)
                return self._inside(value, self._list)
            case set() | frozenset():
                return self._set(value)
            case bytes() | bytearray() | memoryview():
                return self._bytes(bytes(value))
            case str():
                return self._text(str.__str__(value))
            case Enum():
                return self.value(value.value)
            case bool() | int() | float():
                return self.value(int(value) if isinstance(value, int) else float(value))
            case Decimal():
                return decimal_number(value)
            case datetime() | date() | time():
                return value.isoformat()
            case timedelta():
                return _number(value.total_seconds())
            case UUID() | PurePath():
                return str(value)
            case BaseException():
                return self._text(error_text(value))
            case type():
                return f"<class {value.__qualname__}>"
        return self._object(value)

    def _object(self, value: object) -> object:
        if is_dataclass(value) and not isinstance(value, type):
            named = {each.name: getattr(value, each.name, None) for each in fields(value)}
            return self._inside(value, lambda _: self._map(named))
        dump = getattr(type(value), "model_dump", None)  # pydantic, without importing it
        if callable(dump):
            return self._inside(value, lambda it: self._map(dump(it)))
        if hasattr(value, "__qualname__"):
            return f"<{type(value).__name__} {value.__qualname__}>"
        return self._text(shortened(repr(value), REPR_CHARACTERS))

    def _inside(self, value: object, copy: Callable[[Any], object]) -> object:
        identity = id(value)
        if identity in self._path:
            return f"[{type(value).__name__} that contains itself]"
        if len(self._path) >= self._limits.depth:
            size = f" of {len(value)}" if isinstance(value, Sequence | Mapping) else ""
            return f"[{type(value).__name__}{size}, nested too deep to keep]"
        self._path.append(identity)
        try:
            return copy(value)
        finally:
            self._path.pop()

    def _map(self, value: Mapping[Any, object]) -> dict[str, object]:
        kept: dict[str, object] = {}
        for index, (key, item) in enumerate(list(value.items())):
            if index >= self._limits.items:
                kept["…"] = f"[{len(value) - index} more]"
                break
            name = self._text(key if type(key) is str else str(key))
            while name in kept:  # 1 and "1" are two keys in Python
                name += "′"
            kept[name] = REDACTED if name in self._secrets and item is not None else self.value(item)
        return kept

    def _list(self, value: Sequence[object]) -> list[object]:
        kept = [self.value(item) for item in value[: self._limits.items]]
        if len(value) > self._limits.items:
            kept.append(f"[{len(value) - self._limits.items} more]")
        return kept

    def _set(self, value: frozenset[object] | set[object]) -> object:
        items = [self.value(item) for item in value]
        kinds = {float if type(item) in (int, Decimal) else type(item) for item in items}
        if not items:
            return "set()"
        if len(items) <= self._limits.items and kinds in ({str}, {float}, {bytes}):
            return set(items)
        return self._list(sorted(items, key=repr))

    def _bytes(self, value: bytes) -> object:
        if len(value) > self._limits.characters:
            return f"<{len(value)} bytes>"
        self.weight += len(value)
        return value


def shortened(text: str, characters: int) -> str:
    """The beginning of a text, and how long it was."""
    if len(text) <= characters:
        return text
    return f"{text[:characters]}…[shortened, {len(text)} characters]"


def error_text(error: BaseException) -> str:
    """The class and the message, as every failure is told."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - an error whose text fails is told by its class
        message = ""
    name = type(error).__name__
    return f"{name}: {message}" if message else name


def _number(value: float) -> int | float | str:
    if value != value or math.isinf(value):
        return str(value)  # nan, inf, -inf
    if value.is_integer() and abs(value) < MAX_INTEGER:
        return int(value)  # DynamoDB keeps 1.0 as 1: one form everywhere
    return value if SMALLEST_FLOAT <= abs(value) <= LARGEST_FLOAT else str(value)


def decimal_number(value: Decimal) -> int | float | Decimal | str:
    """The simplest number that is exactly this one; text if no journal can hold it."""
    if not value.is_finite():
        return str(value)
    if len(value.normalize().as_tuple().digits) > 38 or not -130 <= value.adjusted() <= 125:
        return str(value) if value else 0
    if value == value.to_integral_value():
        return int(value) if abs(value) < MAX_INTEGER else str(value)
    as_float = float(value)
    return as_float if Decimal(repr(as_float)) == value else value

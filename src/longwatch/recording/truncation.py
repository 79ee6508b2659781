"""Truncates payloads that are too large: structure is kept before length, up to the limit.

Every map and list divides its room among its items: small items stay whole, large ones are cut to the same
size, and unused room goes to the next. Items are left out, from the end, only if less than `SMALLEST_SHARE`
would remain for each. Every cut has a marker, and the payload states its original size.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from json.encoder import encode_basestring
from typing import NamedTuple, TypeVar

from longwatch.journal.codec import encode_payload
from longwatch.recording.capture import (
    BYTES_IN_ALL,
    DECIDING_FIELDS,
    LONGEST_MARKER,
    SHORTENED,
    CutWeight,
    bytes_marker,
    truncate_text,
    truncation_marker,
)

TRUNCATED = "truncated"  # the field of a truncated payload: {"original_bytes": 812345}
MARKER_BYTES = 100  # of that field, at most
SMALLEST_SHARE = 64  # bytes; less would be little more than the marker
NAME_CHARACTERS = 1_000
LONG_CHARACTERS = 1_000  # of a text whose cost is cached
UNCUT_SHARE = 16  # a deciding field stays whole up to a sixteenth of the limit
ROUNDS = 8  # of the search for the budget whose result comes closest to the limit
CLOSE_ENOUGH = 0.97

MEASURED_ITEMS = 20_000  # about 10 ms
MEASURED_CHARACTERS = 4_000_000  # about 10 ms
MAX_PLAIN = 2**53

T = TypeVar("T")

_MORE = re.compile(r"\[(\d+) more\]")
_REST = "…"  # the key of the marker in a map


def fit_payload(
    payload: Mapping[str, object], text: str, max_bytes: int, weight: int = 0
) -> tuple[Mapping[str, object], str]:
    """The payload and its text, truncated to `max_bytes` both as JSON and in DynamoDB.

    `weight` comes from capture, which may have left out a part of the payload.
    """
    cut = weight if isinstance(weight, CutWeight) else None
    is_whole = cut is None or cut.is_summary
    # The usual case. A character takes at most four bytes, and an item at most four times its text.
    if is_whole and (len(text) * 4 <= max_bytes or stored_size(payload, text) <= max_bytes):
        return payload, text
    json, item = len(text.encode()), _item_size(payload)
    marker = _size_marker(json, item, cut)
    if not is_whole and max(json, item) + MARKER_BYTES <= max_bytes:  # capture has cut enough
        marked = {**payload, TRUNCATED: marker}
        return marked, encode_payload(marked)
    return _closest(payload, marker, max_bytes)


def _size_marker(json: int, item: int, cut: CutWeight | None) -> dict[str, object]:
    """The size of the payload in its larger form, before anything was left out."""
    if cut is None:
        return {"original_bytes": max(json, item)}
    size = max(json + cut.omitted_json, item + cut.omitted_item)
    return {"original_bytes": size} if cut.is_exact else {"original_bytes": size, "at_least": True}


def _closest(
    payload: Mapping[str, object], marker: Mapping[str, object], max_bytes: int
) -> tuple[Mapping[str, object], str]:
    """The largest cut that fits. Costs are upper bounds, so the search starts at the limit itself."""
    cutter = _Cutter()
    uncut = _uncut_fields(cutter, payload, max_bytes // UNCUT_SHARE)
    whole = {
        truncate_text(str(key), NAME_CHARACTERS): item
        for key, item in payload.items()
        if key != TRUNCATED and key not in uncut
    }
    budget, low, high = max_bytes - MARKER_BYTES - cutter.cost(uncut), 0, 2 * cutter.cost(whole)
    best: tuple[int, Mapping[str, object], str] | None = None
    rounds = 0
    while best is None or rounds < ROUNDS:
        rounds += 1
        copied, _ = cutter.cut(whole, budget)
        assert isinstance(copied, dict)
        cut = {**copied, **uncut, TRUNCATED: marker}
        text = encode_payload(cut)
        size = stored_size(cut, text)
        if size <= max_bytes:
            low = budget
            if best is None or size > best[0]:
                best = size, cut, text
            if size >= CLOSE_ENOUGH * max_bytes:
                break
        else:
            high = budget
        if high - low <= 1:
            low = low // 2  # only while nothing fits
        guess = int(budget * max_bytes * 0.99 / size)
        budget = guess if low < guess < high and rounds < ROUNDS // 2 else (low + high) // 2
    return best[1], best[2]


def _uncut_fields(cutter: _Cutter, payload: Mapping[str, object], most_bytes: int) -> dict[str, object]:
    """The deciding fields that are small: truncated ones would change the status or kind of the run."""
    return {
        name: payload[name]
        for name in DECIDING_FIELDS
        if name in payload and cutter.cost(payload[name]) <= most_bytes
    }


def stored_size(payload: Mapping[str, object], text: str) -> int:
    """The larger of the payload's size as JSON and as a DynamoDB map, in bytes."""
    return max(len(text.encode()), _item_size(payload))


def _item_size(value: object) -> int:
    """The size by DynamoDB's published rules, with upper bounds for numbers."""
    match value:
        case None | bool():
            return 1
        case str():
            return len(value.encode())
        case bytes():
            return len(value)
        case int() | float() | Decimal():
            return number_bytes(value)
        case Mapping():
            return 3 + sum(len(str(key).encode()) + 1 + _item_size(item) for key, item in value.items())
        case list() | tuple() | set() | frozenset():
            return 3 + sum(1 + _item_size(item) for item in value)
    return 0


class _Entry(NamedTuple):
    """An item of a map or list: its cost, and the overhead of its key and separators."""

    key: str
    value: object
    cost: int
    overhead: int


class _Cutter:
    """Cuts values to a budget. A cost is an upper bound of the size in JSON and in DynamoDB."""

    def __init__(self) -> None:
        self._costs: dict[int, int] = {}  # of containers and long texts, by identity

    def cost(self, value: object) -> int:
        if isinstance(value, str) and len(value) < LONG_CHARACTERS:
            return _text_cost(value)
        if value is None or isinstance(value, bool):
            return 5
        if isinstance(value, int | float):
            digits = len(repr(value))
            return max(digits, digits // 2 + 2)
        if isinstance(value, bytes):
            return stored_bytes(len(value))
        if isinstance(value, Decimal):
            return len(str(value)) + 14
        cost = self._costs.get(id(value))
        if cost is None:
            cost = self._costs[id(value)] = self._measure(value)
        return cost

    def _measure(self, value: object) -> int:
        match value:
            case str():
                return _text_cost(value)
            case Mapping():
                return 3 + sum(entry.cost + entry.overhead for entry in self._map_entries(value))
            case list() | tuple():
                return 3 + sum(1 + self.cost(item) for item in value)
            case set() | frozenset():
                return 12 + sum(1 + self.cost(item) for item in value)
        return 5

    def cut(self, value: object, budget: int) -> tuple[object, int]:
        """The value, or as much of it as the budget allows, and its cost."""
        cost = self.cost(value)
        if cost <= budget:
            return value, cost
        match value:
            case str():
                return _cut_text(value, budget)
            case bytes():
                return _cut_bytes(value, len(value), budget)
            case [bytes() as beginning, str() as marker] if found := BYTES_IN_ALL.fullmatch(marker):
                return _cut_bytes(beginning, int(found[1]), budget)  # capture has cut them already
            case Mapping():
                return self._cut_map(value, budget)
            case list() | tuple():
                return self._cut_list(value, budget)
            case set() | frozenset():
                return self._cut_list(sorted(value, key=repr), budget)
        return value, cost

    def _cut_list(self, value: Sequence[object], budget: int) -> tuple[object, int]:
        items, omitted_count = list(value), 0
        if items and isinstance(items[-1], str) and (marker := _MORE.fullmatch(items[-1])):
            omitted_count = int(marker[1])  # capture has left some out already
            items.pop()
        entries = (_Entry("", item, self.cost(item), 1) for item in items)
        copied, used = self._share(entries, budget - 3 - _more_cost(len(value) + omitted_count))
        omitted_count += len(items) - len(copied)
        if not omitted_count:
            return copied, 3 + used
        return [*copied, f"[{omitted_count} more]"], 3 + used + _more_cost(omitted_count)

    def _cut_map(self, value: Mapping[str, object], budget: int) -> tuple[object, int]:
        rest = value.get(_REST)
        marker = _MORE.fullmatch(rest) if isinstance(rest, str) else None
        omitted_count = int(marker[1]) if marker else 0
        items = {key: item for key, item in value.items() if not (marker and key == _REST)}
        more = _more_cost(len(value) + omitted_count) + _text_cost(_REST) + 1
        values, used = self._share(self._map_entries(items), budget - 3 - more)
        copied = dict(zip(items, values, strict=False))
        omitted_count += len(items) - len(copied)
        if not omitted_count:
            return copied, 3 + used
        return {**copied, _REST: f"[{omitted_count} more]"}, 3 + used + more

    def _map_entries(self, value: Mapping[str, object]) -> Iterator[_Entry]:
        return (_Entry(key, item, self.cost(item), _text_cost(key) + 2) for key, item in value.items())

    def _share(self, candidates: Iterator[_Entry], room: int) -> tuple[list[object], int]:
        """Divide the room among as many of the first entries as it can hold."""
        entries: list[_Entry] = []
        least = 0
        for entry in candidates:
            least += entry.overhead + min(entry.cost, SMALLEST_SHARE)
            if least > room:
                break
            entries.append(entry)
        level = _water_level(
            [entry.cost for entry in entries], room - sum(entry.overhead for entry in entries)
        )
        copied: list[object] = []
        used, spare = 0, 0
        for entry in entries:
            if entry.cost <= level:
                item, cost = entry.value, entry.cost
            else:
                item, cost = self.cut(entry.value, level + spare)
                spare += level - cost
            copied.append(item)
            used += entry.overhead + cost
        return copied, used


def _water_level(costs: list[int], room: int) -> int:
    """The size to which larger entries are cut so that all entries together fill the room."""
    left = room
    ordered = sorted(costs)
    for index, cost in enumerate(ordered):
        share = left // (len(ordered) - index)
        if cost > share:
            return share
        left -= cost
    return ordered[-1] if ordered else 0


def _text_cost(text: str) -> int:
    return len(encode_basestring(text).encode())


def _more_cost(count: int) -> int:
    return 1 + len(f'"[{count} more]"')


def _cut_text(text: str, budget: int) -> tuple[str, int]:
    found = SHORTENED.search(text, len(text) - LONGEST_MARKER)
    body, length = (text[: found.start()], int(found[1])) if found else (text, len(text))
    marker = truncation_marker(length)
    count, cost = _fit_text(body, budget - _text_cost(marker))
    return f"{body[:count]}{marker}", cost + _text_cost(marker)


def _fit_text(text: str, room: int) -> tuple[int, int]:
    """How many characters fit into this many bytes of JSON, and how many bytes they take."""

    def cost(count: int) -> int:
        return _text_cost(text[:count]) - 2

    most = max(0, min(len(text), room))
    fits, taken = most, cost(most)
    while taken > room:  # not ASCII, or escaped
        most, fits = fits, fits * room // taken
        taken = cost(fits)
    if fits < most and taken < room * CLOSE_ENOUGH:  # characters with longer encodings come later in the text
        fits = bisect_right(range(most), room, lo=fits, key=cost) - 1
        taken = cost(fits)
    return fits, taken


def _cut_bytes(value: bytes, length: int, budget: int) -> tuple[object, int]:
    marker = bytes_marker(length)
    room = budget - 3 - 1 - stored_bytes(0) - 1 - _text_cost(marker)
    count = max(0, room // 4 * 3)
    return [value[:count], marker], 5 + stored_bytes(count) + _text_cost(marker)


class OmittedBytes:
    """Counts the stored bytes that a copy leaves out, as JSON and as a DynamoDB map, without copying them.

    Both forms are counted, because the size of a payload is the larger of the two. Counting runs in the
    observed code, so it ends after `MEASURED_ITEMS` values and `MEASURED_CHARACTERS` characters; the count
    is then a minimum.
    """

    __slots__ = ("_characters_left", "_items_left", "_secrets", "is_exact", "item", "json")

    def __init__(self, secrets: Container[object]) -> None:
        self._secrets = secrets
        self._items_left = MEASURED_ITEMS
        self._characters_left = MEASURED_CHARACTERS
        self.json = 0
        self.item = 0
        self.is_exact = True  # False: the counts are minimums

    def text(self, text: str) -> None:
        if len(text) > self._characters_left:
            self.is_exact = False
            self.json += len(text)
            self.item += len(text)
            return
        self._characters_left -= len(text)
        if text.isascii():
            self.item += len(text)
            self.json += len(encode_basestring(text)) - 2
        else:  # a lone surrogate is stored escaped
            text = text.encode(errors="backslashreplace").decode()
            self.item += len(text.encode())
            self.json += len(encode_basestring(text).encode()) - 2

    def marker(self, text: str, json: int, item: int) -> None:
        """Subtract the marker in the copy: its text, and the given bytes around it."""
        self.json -= len(encode_basestring(text).encode()) + json
        self.item -= len(text.encode()) + item

    def items(self, items: Iterable[object], count: int) -> None:
        """Count items of a list that has others too; each has a comma."""
        self._add(self._add_list(items, count))

    def entries(self, entries: Iterable[tuple[object, object]], count: int) -> None:
        """Count entries of a map that has others too; each has a comma and a colon."""
        self._add(self._add_map(entries, count))

    def value(self, value: object) -> None:
        self._add([value])

    def bytes(self, count: int, *, copied: int) -> None:
        """Count all but the first `copied` of these bytes."""
        self.json += stored_bytes(count) - stored_bytes(copied)
        self.item += count - copied

    def _add(self, values: list[object]) -> None:
        """Count values and everything inside them, without recursion, so any depth is safe."""
        seen: set[int] = set()
        while values:
            value = values.pop()
            self._items_left -= 1
            if self._items_left < 0:
                self.is_exact = False
                return
            if isinstance(value, dict | list | tuple) and id(value) in seen:  # it may contain itself
                self.is_exact = False
                continue
            seen.add(id(value))
            if type(value) is dict:
                self._brackets(len(value))
                values += self._add_map(value.items(), len(value))
            elif type(value) is list or type(value) is tuple:
                self._brackets(len(value))
                values += self._add_list(value, len(value))
            else:
                self._leaf(value)

    def _brackets(self, count: int) -> None:
        self.json += 2 - (count > 0)  # one comma less than items
        self.item += 3

    def _add_list(self, items: Iterable[T], count: int) -> list[T]:
        self.json += count
        self.item += count
        values = list(islice(items, max(0, self._items_left)))
        self.is_exact = self.is_exact and len(values) == count
        return values

    def _add_map(self, entries: Iterable[tuple[object, object]], count: int) -> list[object]:
        self.json += count
        values: list[object] = []
        for key, value in self._add_list(entries, count):
            if type(key) is str and key not in self._secrets and not key.startswith("$"):
                self.json += 2
                self.text(key)
                values.append(value)
            else:
                self.is_exact = False  # the key is converted, the value blanked, or the entry a tag
        return values

    def _leaf(self, value: object) -> None:
        kind = type(value)
        if kind is str:
            self.json += 2
            self.text(value)  # type: ignore[arg-type]
        elif value is None or kind is bool:
            self.json += 5 if value is False else 4
            self.item += 1
        elif kind is int and -MAX_PLAIN < value < MAX_PLAIN:  # type: ignore[operator]
            self.json += len(str(value))
            self.item += number_bytes(value)
        elif kind is bytes:
            self.json += stored_bytes(len(value))  # type: ignore[arg-type]
            self.item += len(value)  # type: ignore[arg-type]
        else:
            self.is_exact = False


def stored_bytes(count: int) -> int:
    """The size of bytes as JSON: `{"$bytes":"…"}`."""
    return 13 + (count + 2) // 3 * 4


def number_bytes(value: object) -> int:
    """An upper bound of a number's size in DynamoDB, by its published rules."""
    return min(21, len(str(value)) // 2 + 2)

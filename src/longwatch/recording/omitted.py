"""How many stored bytes a copy leaves out, counted without copying them.

Both forms are counted, since the size of a payload is the larger of the two: JSON and a DynamoDB map.
Counting runs in the observed code, so it ends after `MEASURED_ITEMS` values and `MEASURED_CHARACTERS`
characters; what is left is then not counted, and the sum is a minimum.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from itertools import islice
from json.encoder import encode_basestring
from typing import TypeVar

T = TypeVar("T")

MEASURED_ITEMS = 20_000  # about 10 ms
MEASURED_CHARACTERS = 4_000_000  # about 10 ms
MAX_PLAIN = 2**53


class Omitted:
    """The bytes that one copy leaves out, as JSON and as a DynamoDB map."""

    __slots__ = ("_characters_left", "_items_left", "_secrets", "is_exact", "item", "json")

    def __init__(self, secrets: Container[object]) -> None:
        self._secrets = secrets
        self._items_left = MEASURED_ITEMS
        self._characters_left = MEASURED_CHARACTERS
        self.json = 0
        self.item = 0
        self.is_exact = True  # False: at least so many

    def text(self, text: str) -> None:
        """Leave out a text, or a part of one."""
        if len(text) > self._characters_left:
            self.is_exact = False
            self.json += len(text)
            self.item += len(text)
            return
        self._characters_left -= len(text)
        if text.isascii():
            self.item += len(text)
            self.json += len(encode_basestring(text)) - 2
        else:  # half of a surrogate pair is stored as its escape
            text = text.encode(errors="backslashreplace").decode()
            self.item += len(text.encode())
            self.json += len(encode_basestring(text).encode()) - 2

    def marker(self, text: str, json: int, item: int) -> None:
        """Take off what the copy holds instead: a text, and so many bytes around it."""
        self.json -= len(encode_basestring(text).encode()) + json
        self.item -= len(text.encode()) + item

    def items(self, items: Iterable[object], count: int) -> None:
        """Leave out items of a list that keeps others; each has a comma."""
        self._add(self._listed(items, count))

    def entries(self, entries: Iterable[tuple[object, object]], count: int) -> None:
        """Leave out entries of a map that keeps others; each has a comma and a colon."""
        self._add(self._mapped(entries, count))

    def value(self, value: object) -> None:
        """Leave out a whole value."""
        self._add([value])

    def bytes(self, count: int, *, kept: int) -> None:
        """Leave out all but the first of so many bytes."""
        self.json += stored_bytes(count) - stored_bytes(kept)
        self.item += count - kept

    def _add(self, values: list[object]) -> None:
        """Count these and all that they hold. Does not recurse, so any depth is safe."""
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
                values += self._mapped(value.items(), len(value))
            elif type(value) is list or type(value) is tuple:
                self._brackets(len(value))
                values += self._listed(value, len(value))
            else:
                self._leaf(value)

    def _brackets(self, count: int) -> None:
        self.json += 2 - (count > 0)  # there is one comma less than items
        self.item += 3

    def _listed(self, items: Iterable[T], count: int) -> list[T]:
        self.json += count
        self.item += count
        values = list(islice(items, max(0, self._items_left)))
        self.is_exact = self.is_exact and len(values) == count
        return values

    def _mapped(self, entries: Iterable[tuple[object, object]], count: int) -> list[object]:
        self.json += count
        values: list[object] = []
        for key, value in self._listed(entries, count):
            if type(key) is str and key not in self._secrets and not key.startswith("$"):
                self.json += 2
                self.text(key)
                values.append(value)
            else:
                self.is_exact = False  # another name, a value that is blanked, or a tag
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
    """How much so many bytes take as JSON: `{"$bytes":"…"}`."""
    return 13 + (count + 2) // 3 * 4


def number_bytes(value: object) -> int:
    """How much a number takes in DynamoDB, by its published rules, at most."""
    return min(21, len(str(value)) // 2 + 2)

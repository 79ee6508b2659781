"""Payloads that are too large are cut to fit, with their structure kept and a marker that names the loss."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from itertools import islice

from longwatch.journal.codec import encode_payload
from longwatch.recording.capture import shortened

TRUNCATED = "truncated"  # the field that says so: {"original_bytes": 812345}

# From mild to harsh: characters of one text, items of one list or map.
_STEPS = (
    (100_000, 20_000),
    (30_000, 5_000),
    (10_000, 2_000),
    (3_000, 500),
    (1_000, 150),
    (300, 50),
    (100, 20),
    (30, 8),
)


def fitted(payload: Mapping[str, object], text: str, max_bytes: int) -> tuple[Mapping[str, object], str]:
    """The payload and its text, cut so that both JSON and DynamoDB hold it in `max_bytes`."""
    # The usual case: no character takes more than four bytes, and no item more than four times its text.
    if len(text) * 4 <= max_bytes:
        return payload, text
    original = stored_size(payload, text)
    if original <= max_bytes:
        return payload, text
    marker = {"original_bytes": original}
    for characters, items in _STEPS:
        cut = {**_cut_map(payload, characters, items), TRUNCATED: marker}
        text = encode_payload(cut)
        if stored_size(cut, text) <= max_bytes:
            return cut, text
    names = sorted(shortened(key, 30) for key in islice(payload, 100))
    while True:  # wide and deep: what is left are the names of the fields, as many as fit
        gist: dict[str, object] = {TRUNCATED: marker, "fields": names}
        text = encode_payload(gist)
        if not names or stored_size(gist, text) <= max_bytes:
            return gist, text
        names = names[: len(names) // 2]


def stored_size(payload: Mapping[str, object], text: str) -> int:
    """The larger of the payload's size as JSON and as a DynamoDB map, in bytes."""
    return max(len(text.encode()), _item_size(payload))


def _item_size(value: object) -> int:
    """By DynamoDB's published rules; numbers are counted at their longest."""
    match value:
        case None | bool():
            return 1
        case str():
            return len(value.encode())
        case bytes():
            return len(value)
        case int() | float() | Decimal():
            return min(21, len(str(value)) // 2 + 2)
        case Mapping():
            return 3 + sum(len(str(key).encode()) + 1 + _item_size(item) for key, item in value.items())
        case list() | tuple() | set() | frozenset():
            return 3 + sum(1 + _item_size(item) for item in value)
    return 0


def _cut(value: object, characters: int, items: int) -> object:
    match value:
        case str():
            return shortened(value, characters)
        case bytes() if len(value) > characters:
            return f"<{len(value)} bytes>"
        case Mapping():
            return _cut_map(value, characters, items)
        case list() | tuple():
            kept = [_cut(item, characters, items) for item in value[:items]]
            return kept if len(value) <= items else [*kept, f"[{len(value) - items} more]"]
        case set() | frozenset() if len(value) > items or any(_is_long(item, characters) for item in value):
            return _cut(sorted(value, key=repr), characters, items)
    return value


def _is_long(item: object, characters: int) -> bool:
    return isinstance(item, str | bytes) and len(item) > characters


def _cut_map(value: Mapping[str, object], characters: int, items: int) -> dict[str, object]:
    kept: dict[str, object] = {}
    for index, (key, item) in enumerate(value.items()):
        if index >= items:
            kept["…"] = f"[{len(value) - items} more]"
            break
        kept[shortened(key, 1_000)] = _cut(item, characters, items)
    return kept

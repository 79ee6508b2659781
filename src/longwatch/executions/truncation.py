"""Truncates texts and payloads to what a DynamoDB item and every store can hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any

MOST_BYTES = 300_000  # of an event's payload as JSON: the limit of DynamoDB is 400 KB with keys and names
LONGEST_STATUS = 200  # characters of a status or a name
# Characters of a text, and entries of a list or map, until it fits.
STEPS = ((4_000, 2_000), (1_000, 1_000), (300, 300), (100, 100), (60, 30))


def fit_payload(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """The payload, truncated to the size of an event; `shortened` (wire) notes what was cut."""
    if _size(payload) <= MOST_BYTES:
        return payload
    small: dict[str, Any] = {}
    for characters, entries in STEPS:
        cut = truncate_texts(payload, characters, entries)
        note = f"texts above {characters:,} characters and lists above {entries:,} entries are cut"
        small = {**cut, "shortened": note}
        if _size(small) <= MOST_BYTES:
            break
    return small


def truncate_texts(value: Any, characters: int, entries: int | None = None) -> Any:
    """Truncate every text of a value and, with `entries`, every list and map."""
    if isinstance(value, str):
        return value if len(value) <= characters else f"{value[: characters - 1]}…"
    if isinstance(value, Mapping):
        return {
            key: truncate_texts(each, characters, entries) for key, each in islice(value.items(), entries)
        }
    if isinstance(value, list | tuple):
        cut = [truncate_texts(each, characters, entries) for each in islice(value, entries)]
        more = len(value) - len(cut)
        return [*cut, f"… and {more:,} more"] if more and isinstance(value[0], str) else cut
    return value


def _size(payload: Mapping[str, Any]) -> int:
    return len(json.dumps(payload, default=str, ensure_ascii=False).encode())


def storable_text(value: object, limit: int) -> str:
    """The value as text that every store accepts: truncated, without the lone surrogates of JSON."""
    return str(value)[:limit].encode(errors="replace").decode()

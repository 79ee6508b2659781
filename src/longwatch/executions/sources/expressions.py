"""Expressions in declarations: templates that an id is put into, and paths of values in a response.

A few lines rather than JMESPath: that comes with botocore only, and HTTP endpoints are watched without it. A
name that holds a dot or a bracket stands in double quotes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from longwatch.errors import InvalidInput

_PLACE = re.compile(r"\{(?P<plus>\+?)(?P<part>id|[1-9])\}")


def fill_template(
    text: str,
    what: str,
    divider: str | None,
    *,
    quote: Callable[[str], str] = str,
    quote_path: Callable[[str], str] = str,
) -> str:
    """The text with `{id}`, or `{1}`, `{2}` of an id in parts. Raises ValueError if the id lacks a part.

    The last divider counts: a name may hold one, a number that follows it does not. `{+id}` and `{+1}` keep
    slashes, as in RFC 6570.
    """
    wanted = [int(number) for number in template_parts(text) if number != "id"]
    parts = what.rsplit(divider, 1) if divider else [what]
    if wanted and (max(wanted) > len(parts) or not all(parts)):
        raise ValueError(f"{what!r} has not enough parts: write FIRST{divider or '/'}SECOND")

    def put(match: re.Match[str]) -> str:
        part = what if match["part"] == "id" else parts[int(match["part"]) - 1]
        return quote_path(part) if match["plus"] else quote(part)

    return _PLACE.sub(put, text)


def template_parts(text: str) -> list[str]:
    """The places that an id is put into."""
    return [match["part"] for match in _PLACE.finditer(text)]


_STEP = re.compile(r'(?:(?:^|(?<=.)\.)(?:"(?P<quoted>[^"]+)"|(?P<name>[^."\[\]]+))|\[(?P<place>-?\d+)\])')

PathStep = str | int


@cache
def parse_path(path: str) -> tuple[PathStep, ...]:
    """The names and places of a path; an empty one means the whole answer. Raises `InvalidInput`."""
    found: list[PathStep] = []
    at = 0
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            raise InvalidInput(
                f"{path!r} is no path: {path[at:]!r} is not understood. Write names divided by dots, and "
                "places in lists in brackets: builds[0].status"
            )
        place = match["place"]
        found.append(int(place) if place is not None else match["quoted"] or match["name"])
        at = match.end()
    return tuple(found)


def value_at(answer: Any, path: str) -> Any:
    """What is there, or None."""
    value = answer
    for step in parse_path(path):
        if isinstance(step, int):
            is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
            value = value[step] if is_list and -len(value) <= step < len(value) else None
        else:
            value = value.get(step) if isinstance(value, Mapping) else None
        if value is None:
            return None
    return value

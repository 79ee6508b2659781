"""Where a value is in an answer: `builds[0].phases`, names divided by dots and places in lists in brackets.

A few lines rather than JMESPath: that comes with botocore only, and HTTP endpoints are watched without it. A
name that holds a dot or a bracket stands in double quotes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from longwatch.errors import InvalidInput

_STEP = re.compile(r'(?:(?:^|(?<=.)\.)(?:"(?P<quoted>[^"]+)"|(?P<name>[^."\[\]]+))|\[(?P<place>-?\d+)\])')

Step = str | int


@cache
def steps(path: str) -> tuple[Step, ...]:
    """The names and places of a path; an empty one means the whole answer. Raises `InvalidInput`."""
    found: list[Step] = []
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
    for step in steps(path):
        if isinstance(step, int):
            is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
            value = value[step] if is_list and -len(value) <= step < len(value) else None
        else:
            value = value.get(step) if isinstance(value, Mapping) else None
        if value is None:
            return None
    return value

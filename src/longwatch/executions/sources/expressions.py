"""The two small languages of a declaration: `{id}` templates, and value paths such as `builds[0].status`.

Not JMESPath: it comes with botocore, and HTTP endpoints are polled without that. A name with a dot or a
bracket is in double quotes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from longwatch.errors import InvalidInput

_FIELD = re.compile(r"\{(?P<plus>\+?)(?P<part>id|[1-9])\}")


def fill_template(
    text: str,
    job_id: str,
    divider: str | None,
    *,
    quote: Callable[[str], str] = str,
    quote_path: Callable[[str], str] = str,
) -> str:
    """Fill `{id}`, or `{1}` and `{2}` of an id in parts. Raises ValueError if the id lacks a part.

    The id is split at the last divider: a name may contain one, the number after it does not. `{+id}` and
    `{+1}` keep slashes, as in RFC 6570.
    """
    wanted = [int(number) for number in template_parts(text) if number != "id"]
    parts = job_id.rsplit(divider, 1) if divider else [job_id]
    if wanted and (max(wanted) > len(parts) or not all(parts)):
        raise ValueError(f"Invalid id {job_id!r}. Use FIRST{divider or '/'}SECOND")

    def put(match: re.Match[str]) -> str:
        part = job_id if match["part"] == "id" else parts[int(match["part"]) - 1]
        return quote_path(part) if match["plus"] else quote(part)

    return _FIELD.sub(put, text)


def template_parts(text: str) -> list[str]:
    """The fields of a template: `id`, or the numbers of parts."""
    return [match["part"] for match in _FIELD.finditer(text)]


_STEP = re.compile(r'(?:(?:^|(?<=.)\.)(?:"(?P<quoted>[^"]+)"|(?P<name>[^."\[\]]+))|\[(?P<index>-?\d+)\])')

PathStep = str | int


@cache
def parse_path(path: str) -> tuple[PathStep, ...]:
    """The names and indexes of a path; an empty path is the whole response. Raises `InvalidInput`."""
    found: list[PathStep] = []
    at = 0
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            raise InvalidInput(
                f"Invalid path {path!r} at {path[at:]!r}. Use names separated by dots and list indexes in "
                "brackets: builds[0].status"
            )
        index = match["index"]
        found.append(int(index) if index is not None else match["quoted"] or match["name"])
        at = match.end()
    return tuple(found)


def value_at(response: Any, path: str) -> Any:
    """The value at this path, or None."""
    value = response
    for step in parse_path(path):
        if isinstance(step, int):
            is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
            value = value[step] if is_list and -len(value) <= step < len(value) else None
        else:
            value = value.get(step) if isinstance(value, Mapping) else None
        if value is None:
            return None
    return value

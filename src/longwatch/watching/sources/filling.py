"""An id put into a parameter or an address: whole, or in parts."""

from __future__ import annotations

import re
from collections.abc import Callable

_PLACE = re.compile(r"\{(?P<plus>\+?)(?P<part>id|[1-9])\}")


def filled(
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
    wanted = [int(number) for number in places_in(text) if number != "id"]
    parts = what.rsplit(divider, 1) if divider else [what]
    if wanted and (max(wanted) > len(parts) or not all(parts)):
        raise ValueError(f"{what!r} has not enough parts: write FIRST{divider or '/'}SECOND")

    def put(match: re.Match[str]) -> str:
        part = what if match["part"] == "id" else parts[int(match["part"]) - 1]
        return quote_path(part) if match["plus"] else quote(part)

    return _PLACE.sub(put, text)


def places_in(text: str) -> list[str]:
    """The places that an id is put into."""
    return [match["part"] for match in _PLACE.finditer(text)]

"""An id put into a parameter or an address: whole, or in parts."""

from __future__ import annotations

import re
from collections.abc import Callable

_PLACE = re.compile(r"\{(id|[1-9])\}")


def filled(text: str, what: str, divider: str | None, *, quote: Callable[[str], str] = str) -> str:
    """The text with `{id}`, or `{1}`, `{2}` of an id in parts. Raises ValueError if the id lacks a part.

    The last divider counts: a name may hold one, a number that follows it does not.
    """
    wanted = [int(number) for number in _PLACE.findall(text) if number != "id"]
    parts = what.rsplit(divider, 1) if divider else [what]
    if wanted and (max(wanted) > len(parts) or not all(parts)):
        raise ValueError(f"{what!r} has not enough parts: write FIRST{divider or '/'}SECOND")
    return _PLACE.sub(lambda match: quote(what if match[1] == "id" else parts[int(match[1]) - 1]), text)


def places_in(text: str) -> list[str]:
    """The places that an id is put into."""
    return _PLACE.findall(text)

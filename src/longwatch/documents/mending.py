"""Characters that somebody cut in half, which the Yjs library for Python can not do.

Yjs counts in UTF-16, where an emoji has two units. A client may delete one of them, or write between them;
Yjs then shows a replacement character for each half. The library takes a whole neighbour instead, and what
it hands on is wrong from then on. So the halves are replaced, as Yjs would, before it sees them: that has
as many units.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence

from longwatch.documents.vetting import Notes, TextBlock, check_update

UTF_16 = "utf-16-le"
TWO_REPLACEMENTS = "\ufffd\ufffd".encode(UTF_16)
SECOND_HALVES = range(0xDC, 0xE0)  # the upper byte of such a unit

# A character of two units has four bytes in UTF-8. Other bytes may look so too: then a look is wasted.
_LONG = re.compile(rb"[\xf0-\xf4][\x80-\xbf]{3}")


def mended(updates: Sequence[bytes]) -> Sequence[bytes]:
    """The updates of one document with each character replaced that one of them cuts in half."""
    if not any(_LONG.search(update) for update in updates):
        return updates
    notes = [_notes_of(update) for update in updates]
    cuts = _by_client({cut for each in notes for cut in each.cuts})
    found = [_without_halves(update, each.texts, cuts) for update, each in zip(updates, notes, strict=True)]
    return found if any(new is not old for new, old in zip(found, updates, strict=True)) else updates


def _notes_of(update: bytes) -> Notes:
    notes = Notes()
    check_update(update, notes)
    return notes


def _by_client(cuts: Iterable[tuple[int, int]]) -> Mapping[int, Sequence[int]]:
    found: dict[int, list[int]] = {}
    for client, clock in sorted(cuts):
        found.setdefault(client, []).append(clock)
    return found


def _without_halves(update: bytes, texts: Sequence[TextBlock], cuts: Mapping[int, Sequence[int]]) -> bytes:
    for block in reversed(texts):  # from the end, because then no text moves the place of another
        here = cuts[block.client]
        inside = here[bisect_right(here, block.clock) : bisect_left(here, block.clock + block.units)]
        if inside:
            text = _replaced(block.text, [cut - block.clock for cut in inside])
            if text != block.text:
                data = text.encode()
                update = update[: block.start] + _number(len(data)) + data + update[block.end :]
    return update


def _replaced(text: str, cuts: Sequence[int]) -> str:
    """The text with both halves replaced wherever a cut lies before a second one."""
    units = bytearray(text.encode(UTF_16))
    for cut in cuts:
        if units[2 * cut + 1] in SECOND_HALVES:
            units[2 * cut - 2 : 2 * cut + 2] = TWO_REPLACEMENTS
    return units.decode(UTF_16)


def _number(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*data, value])

"""The small edits that turn one text into another, so that writing a whole file leaves others' edits alone.

Lines are compared first, then words within the lines that differ. Texts that differ too much for that are
replaced from the first difference to the last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

MOST_COMPARISONS = 4_000_000  # pieces of one text times pieces of the other: a second or so at worst

_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replaces `old[start:end]` by `new`. Positions count characters of the text before all edits."""

    start: int
    end: int
    new: str


def edits(old: str, new: str) -> list[TextEdit]:
    """What to change in the old text to have the new one, in order and without overlap."""
    lines = [
        each
        for middle in _trimmed(0, old, new)
        for each in _compared(middle, old, _LINES, most=MOST_COMPARISONS)
    ]
    return [
        each for line in lines for each in _compared(line, old, _WORDS, most=MOST_COMPARISONS // len(lines))
    ]


def rebased(changes: Sequence[TextEdit], others: Sequence[TextEdit]) -> list[TextEdit]:
    """The same changes for a text that others have changed meanwhile.

    Both start from one text. What others deleted needs no deleting, what they inserted stays, and a text that
    was inserted where others deleted lands in their place.
    """
    found: list[TextEdit] = []
    for change in changes:
        pieces = list(_surviving(change.start, change.end, others))
        if not pieces:
            at = _moved(change.start, others)
            pieces = [(at, at)]
        found += [
            TextEdit(start, end, change.new if number == 0 else "")
            for number, (start, end) in enumerate(pieces)
            if start != end or (number == 0 and change.new)
        ]
    return found


def applied(text: str, changes: Sequence[TextEdit]) -> str:
    """The text with these edits made."""
    parts, at = [], 0
    for change in changes:
        parts += [text[at : change.start], change.new]
        at = change.end
    return "".join([*parts, text[at:]])


def byte_offsets(text: str, changes: Sequence[TextEdit]) -> Iterator[tuple[int, int, str]]:
    """The edits with positions in bytes of UTF-8, which is how pycrdt counts, from the last to the first.

    From the end, because then no edit moves the place of another. Positions lie between whole characters:
    pycrdt takes one inside a character for the end of the text.
    """
    found, at, offset = [], 0, 0
    for change in changes:
        start = offset + len(text[at : change.start].encode())
        end = start + len(text[change.start : change.end].encode())
        found.append((start, end, change.new))
        at, offset = change.end, end
    return reversed(found)


def _trimmed(start: int, old: str, new: str) -> Iterator[TextEdit]:
    """One edit, from the first difference to the last; none if there is no difference."""
    if old == new:
        return
    most = min(len(old), len(new))
    first = _common(old, new, most)
    last = _common(old[::-1], new[::-1], most - first)
    yield TextEdit(start + first, start + len(old) - last, new[first : len(new) - last])


def _common(one: str, other: str, most: int) -> int:
    """How many characters both begin with, at most so many."""
    low, high = 0, most
    while low < high:  # comparing slices is far faster than comparing characters
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _compared(edit: TextEdit, old: str, pieces: re.Pattern[str], *, most: int) -> Iterator[TextEdit]:
    """The edit as smaller ones, by comparing pieces of what it takes away and what it brings."""
    gone, come = pieces.findall(old[edit.start : edit.end]), pieces.findall(edit.new)
    if not gone or not come or len(gone) * len(come) > most:
        yield edit
        return
    at = [edit.start]
    for piece in gone:
        at.append(at[-1] + len(piece))
    for kind, first, last, begin, end in SequenceMatcher(None, gone, come, autojunk=False).get_opcodes():
        if kind != "equal":
            yield from _trimmed(at[first], old[at[first] : at[last]], "".join(come[begin:end]))


def _surviving(start: int, end: int, others: Sequence[TextEdit]) -> Iterator[tuple[int, int]]:
    """Where those characters from start to end are now that others have left there."""
    shift = 0
    for other in others:
        if other.start >= end:
            break
        if start < other.start:
            yield start + shift, other.start + shift
        shift += len(other.new) - (other.end - other.start)
        start = max(start, other.end)
    if start < end:
        yield start + shift, end + shift


def _moved(position: int, others: Sequence[TextEdit]) -> int:
    """Where a place between two characters is now."""
    shift = 0
    for other in others:
        if other.start >= position:
            break
        if other.end > position:  # inside what others replaced: after what they put there
            return other.start + shift + len(other.new)
        shift += len(other.new) - (other.end - other.start)
    return position + shift

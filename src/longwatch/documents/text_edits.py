"""The small edits between two texts, so that writing a whole file preserves the edits of others.

Lines are compared first, then words within the lines that differ. Texts that differ too much for that are
replaced from the first difference to the last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

MAX_COMPARISONS = 4_000_000  # pieces of one text times pieces of the other: about a second at worst

_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replaces `old[start:end]` by `new`. Positions count characters of the text before all edits."""

    start: int
    end: int
    new: str


def find_edits(old: str, new: str) -> list[TextEdit]:
    """The edits that turn the old text into the new one, in order and without overlap."""
    lines = [
        each
        for middle in _trim(0, old, new)
        for each in _compare(middle, old, _LINES, max_comparisons=MAX_COMPARISONS)
    ]
    return [
        each
        for line in lines
        for each in _compare(line, old, _WORDS, max_comparisons=MAX_COMPARISONS // len(lines))
    ]


def rebase_edits(changes: Sequence[TextEdit], others: Sequence[TextEdit]) -> list[TextEdit]:
    """The same changes for a text that others have changed since.

    Both start from the same text. What others deleted is not deleted again, what they inserted stays, and a
    text that was inserted inside a deletion of others moves to the position of that deletion.
    """
    found: list[TextEdit] = []
    for change in changes:
        pieces = list(_surviving(change.start, change.end, others))
        if not pieces:
            at = _shift_position(change.start, others)
            pieces = [(at, at)]
        found += [
            TextEdit(start, end, change.new if number == 0 else "")
            for number, (start, end) in enumerate(pieces)
            if start != end or (number == 0 and change.new)
        ]
    return found


def apply_edits(text: str, changes: Sequence[TextEdit]) -> str:
    """The text with these edits made."""
    parts, at = [], 0
    for change in changes:
        parts += [text[at : change.start], change.new]
        at = change.end
    return "".join([*parts, text[at:]])


def byte_offsets(text: str, changes: Sequence[TextEdit]) -> Iterator[tuple[int, int, str]]:
    """The edits with positions in UTF-8 bytes, as pycrdt counts, from the last to the first.

    In this order no edit shifts the position of another. Positions are between whole characters: pycrdt
    treats one inside a character as the end of the text.
    """
    found, at, offset = [], 0, 0
    for change in changes:
        start = offset + len(text[at : change.start].encode())
        end = start + len(text[change.start : change.end].encode())
        found.append((start, end, change.new))
        at, offset = change.end, end
    return reversed(found)


def _trim(start: int, old: str, new: str) -> Iterator[TextEdit]:
    """One edit from the first difference to the last; none for equal texts."""
    if old == new:
        return
    most = min(len(old), len(new))
    first = _common(old, new, most)
    last = _common(old[::-1], new[::-1], most - first)
    yield TextEdit(start + first, start + len(old) - last, new[first : len(new) - last])


def _common(one: str, other: str, most: int) -> int:
    """The length of the common prefix, up to `most`."""
    low, high = 0, most
    while low < high:  # slices compare far faster than single characters
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _compare(
    edit: TextEdit, old: str, pieces: re.Pattern[str], *, max_comparisons: int
) -> Iterator[TextEdit]:
    """The edit as smaller ones, by comparing pieces of its old and its new text."""
    old_pieces, new_pieces = pieces.findall(old[edit.start : edit.end]), pieces.findall(edit.new)
    if not old_pieces or not new_pieces or len(old_pieces) * len(new_pieces) > max_comparisons:
        yield edit
        return
    at = [edit.start]
    for piece in old_pieces:
        at.append(at[-1] + len(piece))
    for kind, first, last, begin, end in SequenceMatcher(
        None, old_pieces, new_pieces, autojunk=False
    ).get_opcodes():
        if kind != "equal":
            yield from _trim(at[first], old[at[first] : at[last]], "".join(new_pieces[begin:end]))


def _surviving(start: int, end: int, others: Sequence[TextEdit]) -> Iterator[tuple[int, int]]:
    """The current ranges of the characters from start to end that others have not deleted."""
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


def _shift_position(position: int, others: Sequence[TextEdit]) -> int:
    """The current position of a boundary between two characters."""
    shift = 0
    for other in others:
        if other.start >= position:
            break
        if other.end > position:  # inside a replacement of others: after their text
            return other.start + shift + len(other.new)
        shift += len(other.new) - (other.end - other.start)
    return position + shift

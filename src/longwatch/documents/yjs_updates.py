"""Yjs updates: validation before they are stored, and repair of characters that an edit cut in half.

pycrdt trusts its input: a few hundred kilobytes of nested lists crash the process, a large count allocates
memory for as many items, and numbers beyond 32 bits cause a panic. Bytes that pass this validation may still
not be an update, but do no harm. Every update and state vector from outside is validated here.

Yjs counts in UTF-16, where an emoji has two units. A client may delete one of them, or insert between them;
Yjs then shows a replacement character for each half. pycrdt removes a whole neighbour instead, and its later
updates are wrong. So the halves are replaced before pycrdt parses them, as Yjs does: the number of units
stays the same.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from longwatch.documents.files import MAX_CONTENT_BYTES
from longwatch.documents.yjs_encoding import VarintReader
from longwatch.errors import InvalidUpdate

MAX_CLIENT = 2**53  # the largest exact JavaScript integer
MAX_CLOCK = 2**31  # pycrdt counts in 32 bits
MAX_LEVELS = 100  # of nested lists and maps

GC, TEXT, SKIP = 0, 4, 10
HAS_ORIGIN, HAS_RIGHT_ORIGIN, HAS_PARENT_SUB, CONTENT = 0x80, 0x40, 0x20, 0x1F
NAMED_TYPES = frozenset({3, 5})  # XML elements and hooks have a name


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A piece of text in an update: its client, its units and the position of its bytes."""

    client: int
    clock: int  # of its first unit
    start: int  # of the length before its bytes
    end: int
    text: str
    units: int  # its length in Yjs


@dataclass(slots=True)
class TextCuts:
    """The texts of an update, and the positions where it splits text."""

    texts: list[TextBlock] = field(default_factory=list)
    cuts: set[tuple[int, int]] = field(default_factory=set)  # client and clock of the unit after the cut


def check_update(data: bytes, notes: TextCuts | None = None) -> None:
    """Raise `InvalidUpdate` for bytes that are not a Yjs update of version 1, or would do harm.

    Collects the texts and cuts of the update in `notes`.
    """
    if len(data) > MAX_CONTENT_BYTES:
        raise InvalidUpdate(
            f"The update has {len(data):,} bytes; the limit is {MAX_CONTENT_BYTES:,}. Send it in parts."
        )
    reader = VarintReader(data)
    try:
        for _ in range(_count(reader)):
            _skip_blocks(reader, notes)
        for _ in range(_count(reader)):
            _skip_deletions(reader, notes)
    except (IndexError, ValueError) as error:
        raise InvalidUpdate(
            f"Invalid Yjs update of {len(data):,} bytes ({error}). "
            "Send an update of version 1, as Y.encodeStateAsUpdate returns it."
        ) from error


def check_state_vector(data: bytes) -> None:
    """Raise `InvalidUpdate` for bytes that are not a Yjs state vector."""
    reader = VarintReader(data)
    try:
        for _ in range(_count(reader)):
            _client(reader)
            _clock(reader)
    except (IndexError, ValueError) as error:
        raise InvalidUpdate(
            f"Invalid Yjs state vector of {len(data):,} bytes ({error}). "
            "Send what Y.encodeStateVector returns."
        ) from error


def _skip_blocks(reader: VarintReader, notes: TextCuts | None) -> None:
    """All blocks of one client."""
    blocks = _count(reader)
    client = _client(reader)
    clock = _clock(reader)
    if notes is not None:
        notes.cuts.add((client, clock))
    for _ in range(blocks):
        info = reader.byte()
        content = info & CONTENT
        if content in (GC, SKIP):
            clock += _clock(reader)
        else:
            _skip_position(reader, info, notes)
            if content == TEXT and notes is not None:
                clock += _note_text(reader, client, clock, notes)
            else:
                clock += _skip_content(reader, content)
        if notes is not None:
            notes.cuts.add((client, clock))
        if clock > MAX_CLOCK:
            raise ValueError(f"a client has more than {MAX_CLOCK:,} units")


def _note_text(reader: VarintReader, client: int, clock: int, notes: TextCuts) -> int:
    """Collect a text and return its number of units."""
    start = reader.at
    text = reader.take(reader.next()).decode()
    units = len(text.encode("utf-16-le")) // 2
    notes.texts.append(TextBlock(client, clock, start, reader.at, text, units))
    return units


def _skip_position(reader: VarintReader, info: int, notes: TextCuts | None) -> None:
    """The position of a block: beside others or in a parent."""
    for bit, after in ((HAS_ORIGIN, 1), (HAS_RIGHT_ORIGIN, 0)):
        if info & bit:
            client, clock = _client(reader), _clock(reader)
            if notes is not None:
                notes.cuts.add((client, clock + after))
    if info & (HAS_ORIGIN | HAS_RIGHT_ORIGIN):
        return
    if reader.next() == 1:
        _skip_text(reader)
    else:
        _skip_id(reader)
    if info & HAS_PARENT_SUB:
        _skip_text(reader)


def _skip_content(reader: VarintReader, content: int) -> int:
    """Skip the content of a block and return its number of units."""
    match content:
        case 1:  # deleted
            return _clock(reader)
        case 2:  # JSON
            return _skip_all(reader, _skip_text)
        case 3:  # bytes
            _skip_text(reader)
        case 4:  # TEXT
            # Yjs counts in UTF-16, where a character takes at most as many units as it has bytes in UTF-8.
            return _skip_text(reader)
        case 5:  # something embedded in a text
            _skip_text(reader)
        case 6:  # a format: its name and its value
            _skip_text(reader)
            _skip_text(reader)
        case 7:  # a shared type
            if reader.next() in NAMED_TYPES:
                _skip_text(reader)
        case 8:
            return _skip_all(reader, lambda each: _skip_value(each, MAX_LEVELS))
        case 9:  # a document inside this one
            _skip_text(reader)
            _skip_value(reader, MAX_LEVELS)
        case _:
            raise ValueError(f"unknown kind of content {content}")
    return 1


def _skip_value(reader: VarintReader, levels: int) -> None:
    """A JavaScript value."""
    if levels == 0:
        raise ValueError(f"more than {MAX_LEVELS} nested lists or maps")
    match reader.byte():
        case 127 | 126 | 121 | 120:  # undefined, null, false, true
            pass
        case 125:  # an integer
            reader.next()
        case 124:
            reader.take(4)
        case 123 | 122:
            reader.take(8)
        case 119 | 116:  # text, bytes
            _skip_text(reader)
        case 118:  # a map
            for _ in range(_count(reader)):
                _skip_text(reader)
                _skip_value(reader, levels - 1)
        case 117:  # a list
            for _ in range(_count(reader)):
                _skip_value(reader, levels - 1)
        case other:
            raise ValueError(f"unknown kind of value {other}")


def _skip_all(reader: VarintReader, skip: Callable[[VarintReader], object]) -> int:
    count = _count(reader)
    for _ in range(count):
        skip(reader)
    return count


def _skip_deletions(reader: VarintReader, notes: TextCuts | None) -> None:
    """The deleted ranges of one client."""
    client = _client(reader)
    for _ in range(_count(reader)):
        first = _clock(reader)
        end = first + _clock(reader)
        if end > MAX_CLOCK:
            raise ValueError(f"a deletion reaches past {MAX_CLOCK:,} units")
        if notes is not None:
            notes.cuts |= {(client, first), (client, end)}


def _skip_id(reader: VarintReader) -> None:
    _client(reader)
    _clock(reader)


def _skip_text(reader: VarintReader) -> int:
    """Skip text or bytes with their length, and return the length."""
    length = reader.next()
    reader.take(length)
    return length


def _count(reader: VarintReader) -> int:
    """The number of following items, each of at least one byte."""
    count = reader.next()
    if count > reader.left:
        raise ValueError(f"{count:,} items are announced and {reader.left:,} bytes remain")
    return count


def _client(reader: VarintReader) -> int:
    client = reader.next()
    if client > MAX_CLIENT:
        raise ValueError(f"invalid client {client}")
    return client


def _clock(reader: VarintReader) -> int:
    clock = reader.next()
    if clock > MAX_CLOCK:
        raise ValueError(f"{clock:,} is more than {MAX_CLOCK:,} units")
    return clock


UTF_16 = "utf-16-le"
TWO_REPLACEMENTS = "\ufffd\ufffd".encode(UTF_16)
SECOND_HALVES = range(0xDC, 0xE0)  # the upper byte of such a unit

# A character of two units has four bytes in UTF-8. Other bytes may match too, which only costs time.
_LONG = re.compile(rb"[\xf0-\xf4][\x80-\xbf]{3}")


def repair_updates(updates: Sequence[bytes]) -> Sequence[bytes]:
    """The updates of one document, with every character replaced that one of them splits."""
    if not any(_LONG.search(update) for update in updates):
        return updates
    notes = [_collect_cuts(update) for update in updates]
    cuts = _by_client({cut for each in notes for cut in each.cuts})
    found = [_replace_halves(update, each.texts, cuts) for update, each in zip(updates, notes, strict=True)]
    return found if any(new is not old for new, old in zip(found, updates, strict=True)) else updates


def _collect_cuts(update: bytes) -> TextCuts:
    notes = TextCuts()
    check_update(update, notes)
    return notes


def _by_client(cuts: Iterable[tuple[int, int]]) -> Mapping[int, Sequence[int]]:
    found: dict[int, list[int]] = {}
    for client, clock in sorted(cuts):
        found.setdefault(client, []).append(clock)
    return found


def _replace_halves(update: bytes, texts: Sequence[TextBlock], cuts: Mapping[int, Sequence[int]]) -> bytes:
    for block in reversed(texts):  # from the end, so that no text shifts the position of another
        here = cuts[block.client]
        inside = here[bisect_right(here, block.clock) : bisect_left(here, block.clock + block.units)]
        if inside:
            text = _replace_at(block.text, [cut - block.clock for cut in inside])
            if text != block.text:
                data = text.encode()
                update = update[: block.start] + _number(len(data)) + data + update[block.end :]
    return update


def _replace_at(text: str, cuts: Sequence[int]) -> str:
    """The text with both halves replaced at every cut before a second half."""
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

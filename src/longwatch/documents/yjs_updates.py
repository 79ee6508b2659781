"""Yjs updates: validation before they are stored, and repair of characters that an edit cut in half.

That library is fast and trusts what it reads: a few hundred kilobytes of lists in lists end the process, a
large count takes memory for as many, and numbers beyond 32 bits make it panic. What passes here may still
be no update, but does no harm. Every update and state vector from outside goes through here.

Yjs counts in UTF-16, where an emoji has two units. A client may delete one of them, or write between them;
Yjs then shows a replacement character for each half. The library takes a whole neighbour instead, and what
it hands on is wrong from then on. So the halves are replaced, as Yjs would, before it sees them: that has
as many units.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from longwatch.documents.files import MAX_CONTENT_BYTES
from longwatch.documents.yjs_encoding import VarintReader
from longwatch.errors import InvalidUpdate

MAX_CLIENT = 2**53  # what a JavaScript number holds
MAX_CLOCK = 2**31  # the library counts in 32 bits
MAX_LEVELS = 100  # of lists and maps in each other

GC, TEXT, SKIP = 0, 4, 10
HAS_ORIGIN, HAS_RIGHT_ORIGIN, HAS_PARENT_SUB, CONTENT = 0x80, 0x40, 0x20, 0x1F
NAMED_TYPES = frozenset({3, 5})  # XML elements and hooks bring a name


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A piece of text in an update: whose units it is, and where its bytes lie."""

    client: int
    clock: int  # of its first unit
    start: int  # of the length that its bytes follow
    end: int
    text: str
    units: int  # how long Yjs says that it is


@dataclass(slots=True)
class Notes:
    """What an update holds of text, and where it takes text apart."""

    texts: list[TextBlock] = field(default_factory=list)
    cuts: set[tuple[int, int]] = field(default_factory=set)  # client and clock of the unit after the cut


def check_update(data: bytes, notes: Notes | None = None) -> None:
    """Raise `InvalidUpdate` for what is no Yjs update of version 1, or would do harm.

    With `notes`, write down its texts and cuts there.
    """
    if len(data) > MAX_CONTENT_BYTES:
        raise InvalidUpdate(
            f"The update has {len(data):,} bytes, and at most {MAX_CONTENT_BYTES:,} are taken. "
            "Send it in parts."
        )
    reader = VarintReader(data)
    try:
        for _ in range(_count(reader)):
            _skip_blocks(reader, notes)
        for _ in range(_count(reader)):
            _skip_deletions(reader, notes)
    except (IndexError, ValueError) as error:
        raise InvalidUpdate(
            f"These {len(data):,} bytes are no Yjs update ({error}). "
            "Send an update of version 1, as Y.encodeStateAsUpdate makes it."
        ) from error


def check_state_vector(data: bytes) -> None:
    """Raise `InvalidUpdate` for what is no Yjs state vector."""
    reader = VarintReader(data)
    try:
        for _ in range(_count(reader)):
            _client(reader)
            _clock(reader)
    except (IndexError, ValueError) as error:
        raise InvalidUpdate(
            f"These {len(data):,} bytes are no Yjs state vector ({error}). "
            "Send what Y.encodeStateVector makes."
        ) from error


def _skip_blocks(reader: VarintReader, notes: Notes | None) -> None:
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
            _skip_place(reader, info, notes)
            if content == TEXT and notes is not None:
                clock += _note_text(reader, client, clock, notes)
            else:
                clock += _skip_content(reader, content)
        if notes is not None:
            notes.cuts.add((client, clock))
        if clock > MAX_CLOCK:
            raise ValueError(f"a client has more than {MAX_CLOCK:,} units")


def _note_text(reader: VarintReader, client: int, clock: int, notes: Notes) -> int:
    """Write a text down; returns how many units it has."""
    start = reader.at
    text = reader.take(reader.next()).decode()
    units = len(text.encode("utf-16-le")) // 2
    notes.texts.append(TextBlock(client, clock, start, reader.at, text, units))
    return units


def _skip_place(reader: VarintReader, info: int, notes: Notes | None) -> None:
    """Where a block belongs: beside others, or into a parent."""
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
    """What a block holds; returns how many units that is."""
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
            raise ValueError(f"there is no content of kind {content}")
    return 1


def _skip_value(reader: VarintReader, levels: int) -> None:
    """A value as JavaScript has them."""
    if levels == 0:
        raise ValueError(f"more than {MAX_LEVELS} lists or maps are in each other")
    match reader.byte():
        case 127 | 126 | 121 | 120:  # undefined, null, false, true
            pass
        case 125:  # a whole number
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
            raise ValueError(f"there is no value of kind {other}")


def _skip_all(reader: VarintReader, skip: Callable[[VarintReader], object]) -> int:
    count = _count(reader)
    for _ in range(count):
        skip(reader)
    return count


def _skip_deletions(reader: VarintReader, notes: Notes | None) -> None:
    """The ranges that one client's units are deleted in."""
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
    """Text, or bytes, after their length; returns that."""
    length = reader.next()
    reader.take(length)
    return length


def _count(reader: VarintReader) -> int:
    """How many things follow: each takes a byte at least."""
    count = reader.next()
    if count > reader.left:
        raise ValueError(f"{count:,} things are promised and {reader.left:,} bytes are left")
    return count


def _client(reader: VarintReader) -> int:
    client = reader.next()
    if client > MAX_CLIENT:
        raise ValueError(f"{client} is no client")
    return client


def _clock(reader: VarintReader) -> int:
    clock = reader.next()
    if clock > MAX_CLOCK:
        raise ValueError(f"{clock:,} is more than {MAX_CLOCK:,} units")
    return clock


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

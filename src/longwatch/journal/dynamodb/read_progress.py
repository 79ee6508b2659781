"""What a reader of a run has seen, small enough to be a cursor.

A run's partition is sorted by times that its writers put there themselves, so "after the last one" would lose
what is stamped earlier and written later. Instead the cursor knows which events were seen: by the number that
their producer gave them, and by their key where they have none. No key inside the look-back window is ever
forgotten, however many there are: whole numbers take about a byte each, as differences, and at most one of
them fits into a millisecond.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from longwatch.errors import InvalidCursor
from longwatch.journal.dynamodb.layout import NO_PLACE, Layout, SortKey, StoredEvent
from longwatch.model.event import START, Cursor, Event, number_of
from longwatch.model.numbering import NO_NUMBERS, NumberSet

LATE_SLACK_MS = 120_000  # how far after its time an event of a late batch may have found its place

PREFIX = "d2."
OLDER_PREFIX = "d1."  # of cursors that hold every key in full

_NO_STEP = 0x5D  # the character of no step: JSON escapes none that follow
_LARGEST_STEP = 0xD7FF - _NO_STEP  # the next character is half a character
_LARGEST_DECODED = 16 * 1024 * 1024  # a cursor comes from outside: do not inflate just anything


@dataclass(slots=True)
class Scan:
    """A walk through part of the partition that has not come to its end."""

    wide: bool  # its end settles everything below the look-back window
    low: int | None  # epoch ms where it began; None: at the very beginning
    high: int | None = None  # epoch ms where it ends; None: at the very end
    base: int | None = None  # how far the run had come when the walk began, in epoch ms
    position: SortKey | None = None  # the last item that was dealt with


@dataclass(slots=True)
class ReadProgress:
    """How far a reader has come. Changed as it reads; the cursor is its text."""

    numbers: dict[str, NumberSet] = field(default_factory=dict)  # producer -> what was seen of it
    keys: dict[SortKey, int] = field(default_factory=dict)  # seen events without a number, and their places
    odd: set[SortKey] = field(default_factory=set)  # the same, where the key is no time
    keys_from: int = 0  # below this place events without a number count as seen
    high: int | None = None  # the latest time that was seen
    floor: int | None = None  # where the next wide look-back begins; None: at the very beginning
    wide_at: int | None = None  # when the last wide look-back began, by the reader's clock
    gap_edge: int = 0  # grows when a new gap in the numbering shows
    gap_since: int | None = None  # when it did, by the reader's clock
    late: list[tuple[int, int]] = field(default_factory=list)  # announced ranges that are to be read again
    scan: Scan | None = None

    def copy(self) -> ReadProgress:
        """Another one that can be changed by itself."""
        return ReadProgress(
            dict(self.numbers),
            dict(self.keys),
            set(self.odd),
            self.keys_from,
            self.high,
            self.floor,
            self.wide_at,
            self.gap_edge,
            self.gap_since,
            list(self.late),
            None if self.scan is None else replace(self.scan),
        )

    def is_new(self, stored: StoredEvent) -> bool:
        """Whether this event was not seen before."""
        event = stored.event
        if event.producer is not None:
            return event.number not in self.numbers.get(event.producer, NO_NUMBERS)
        if stored.place == NO_PLACE:
            return stored.key not in self.odd
        return stored.place >= self.keys_from and stored.key not in self.keys

    def saw(self, stored: StoredEvent) -> None:
        """Count this event as seen."""
        event = stored.event
        if event.producer is not None and event.number is not None:
            seen = self.numbers.get(event.producer, NO_NUMBERS)
            self.numbers[event.producer] = seen.with_number(event.number)
        elif stored.place == NO_PLACE:
            self.odd.add(stored.key)
        else:
            self.keys[stored.key] = stored.place
        if stored.at != NO_PLACE and (self.high is None or stored.at > self.high):
            self.high = stored.at
        announced = late_range(event)
        if announced is not None:
            self.late.append(announced)

    def forget_keys_below(self, place: int) -> None:
        """Let events without a number count as seen below this place."""
        if place > self.keys_from:
            self.keys_from = place
            self.keys = {key: at for key, at in self.keys.items() if at >= place}

    def has_seen_all_of(self, other: ReadProgress) -> bool:
        """Whether nothing that counts as seen there could still be new here."""
        numbered = all(
            seen | self.numbers.get(producer, NO_NUMBERS) == self.numbers.get(producer)
            for producer, seen in other.numbers.items()
        )
        unnumbered = all(at < self.keys_from or key in self.keys for key, at in other.keys.items())
        return numbered and unnumbered and other.odd <= self.odd

    def note_gaps(self, now: int) -> None:
        """Remember since when events are known to be missing."""
        edge = sum(max((high for _, high in seen.gaps()), default=0) for seen in self.numbers.values())
        if not edge:
            self.gap_since = None
        elif edge > self.gap_edge or self.gap_since is None:
            self.gap_since = now
        self.gap_edge = edge


def late_range(event: Event) -> tuple[int, int] | None:
    """The times that a `late_batch` says were written to just before it."""
    if event.type != "late_batch":
        return None
    first, last = number_of(event.payload, "from"), number_of(event.payload, "to")
    if first is None or last is None or not 0 <= first <= last:
        return None
    return int(first), int(last)


class KeptCursor(str):
    """A cursor with its progress at hand, so that a poll that finds nothing neither reads nor writes one."""

    __slots__ = ("layout", "progress")

    layout: str
    progress: ReadProgress  # not to be changed

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)  # in another process, or as a copy, it is just the text


def next_cursor(progress: ReadProgress, layout: Layout, *, after: Cursor) -> Cursor:
    """The cursor of a progress that is not changed any more; the one before if nothing is new."""
    if isinstance(after, KeptCursor) and after.layout == layout.name and after.progress == progress:
        return after
    kept = KeptCursor(to_cursor(progress))
    kept.layout, kept.progress = layout.name, progress
    return Cursor(kept)


def to_cursor(progress: ReadProgress) -> Cursor:
    """The progress as text; the same progress gives the same text."""
    if progress == ReadProgress():
        return START
    scan = progress.scan
    value = [
        {producer: _flat(seen.ranges) for producer, seen in progress.numbers.items()},
        _packed(progress.keys),
        sorted(progress.odd, key=str),
        progress.keys_from,
        progress.high,
        progress.floor,
        progress.wide_at,
        progress.gap_edge,
        progress.gap_since,
        _flat(progress.late),
        None if scan is None else [scan.wide, scan.low, scan.high, scan.base, scan.position],
    ]
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return Cursor(PREFIX + base64.urlsafe_b64encode(zlib.compress(text.encode(), 3)).decode().rstrip("="))


def from_cursor(cursor: Cursor, layout: Layout) -> ReadProgress:
    """The progress in a cursor. Raises `InvalidCursor` for one that this journal did not hand out."""
    if isinstance(cursor, KeptCursor) and cursor.layout == layout.name:
        return cursor.progress.copy()
    if cursor == START:
        return ReadProgress()
    if cursor.startswith((PREFIX, OLDER_PREFIX)):
        try:
            value = _decoded(cursor[len(PREFIX) :])
            if cursor.startswith(PREFIX):
                value[1] = _unpacked(*value[1])
            return _progress(value, layout)
        except (ValueError, TypeError, ArithmeticError, LookupError, binascii.Error, zlib.error):
            pass
    raise InvalidCursor(f"Invalid cursor {cursor[:40]!r} for this journal. Read from the start instead.")


def _packed(keys: Collection[SortKey]) -> list[object]:
    """Keys as a cursor holds them: whole numbers by their steps, and the others as they are."""
    texts = sorted(key for key in keys if isinstance(key, str))
    return [_steps(sorted(key for key in keys if isinstance(key, int))), texts]


def _unpacked(steps: list[Any], texts: list[SortKey]) -> list[SortKey]:
    return [*_stepped(steps), *texts]


def _steps(numbers: Sequence[int]) -> list[int | str]:
    """A number in full, then a character for each step to the next; again where a step is too large."""
    packed: list[int | str] = []
    characters: list[str] = []
    last: int | None = None
    for number in numbers:
        if last is not None and number - last <= _LARGEST_STEP:
            characters.append(chr(_NO_STEP + number - last))
        else:
            packed += [number] if last is None else ["".join(characters), number]
            characters = []
        last = number
    return packed if last is None else [*packed, "".join(characters)]


def _stepped(packed: list[Any]) -> Iterator[int]:
    for number, characters in zip(packed[::2], packed[1::2], strict=True):
        yield from accumulate((ord(each) - _NO_STEP for each in characters), initial=int(number))


def _decoded(text: str) -> Any:
    packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    inflater = zlib.decompressobj()
    plain = inflater.decompress(packed, _LARGEST_DECODED)
    if not inflater.eof:
        raise ValueError("truncated, or too large")
    return json.loads(plain)


def _progress(value: Any, layout: Layout) -> ReadProgress:
    numbers, keys, odd, keys_from, high, floor, wide_at, gap_edge, gap_since, late, scan = value
    return ReadProgress(
        numbers={str(producer): NumberSet(_pairs(flat)) for producer, flat in numbers.items()},
        keys={key: layout.place_of(key) for key in keys},
        odd=set(odd),
        keys_from=int(keys_from),
        high=_whole(high),
        floor=_whole(floor),
        wide_at=_whole(wide_at),
        gap_edge=int(gap_edge),
        gap_since=_whole(gap_since),
        late=list(_pairs(late)),
        scan=None if scan is None else _scan(*scan),
    )


def _scan(wide: object, low: object, high: object, base: object, position: object) -> Scan:
    if position is not None and not isinstance(position, int | str):
        raise TypeError("a position must be a number or a string")
    return Scan(bool(wide), _whole(low), _whole(high), _whole(base), position)


def _whole(value: object) -> int | None:
    if value is not None and type(value) is not int:
        raise TypeError("not an integer")
    return value


def _flat(pairs: Sequence[tuple[int, int]]) -> list[int]:
    return [number for pair in pairs for number in pair]


def _pairs(flat: list[int]) -> tuple[tuple[int, int], ...]:
    return tuple((int(low), int(high)) for low, high in zip(flat[::2], flat[1::2], strict=True))

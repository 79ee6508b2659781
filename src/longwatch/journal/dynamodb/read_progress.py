"""What a reader has seen of a run, small enough for a cursor.

A run's partition is sorted by the times of its writers' clocks, so "after the last one" would lose events
that are stamped earlier and written later. Instead the cursor contains the events that were seen: by the
number of their producer, or by their key if they have none. No key inside the look-back window is ever
dropped, however many there are: as differences, integers take about one byte each, and there is at most one
for a millisecond.
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
from longwatch.journal.dynamodb.layout import NO_TIME, Layout, SortKey, StoredEvent
from longwatch.model.event import START, Cursor, Event, number_of
from longwatch.model.numbering import NO_NUMBERS, NumberSet

LATE_SLACK_MS = 120_000  # how far after its time the key of an event in a late batch may be

PREFIX = "d2."
OLDER_PREFIX = "d1."  # of cursors that contain every key in full

_NO_STEP = 0x5D  # the character of step 0: JSON escapes none of the following ones
_LARGEST_STEP = 0xD7FF - _NO_STEP  # the next code point is a surrogate
_LARGEST_DECODED = 16 * 1024 * 1024  # bytes; a cursor is untrusted input


@dataclass(slots=True)
class Scan:
    """An unfinished scan of a part of the partition."""

    wide: bool  # when it ends, everything below the look-back window is settled
    low: int | None  # epoch ms of its start; None: the first item
    high: int | None = None  # epoch ms of its end; None: the last item
    base: int | None = None  # latest time of the run when the scan started, in epoch ms
    position: SortKey | None = None  # key of the last item that was handled


@dataclass(slots=True)
class ReadProgress:
    """The mutable progress of a reader; its cursor is the same as text."""

    numbers: dict[str, NumberSet] = field(default_factory=dict)  # producer -> numbers seen
    keys: dict[SortKey, int] = field(default_factory=dict)  # events seen without a number: key -> epoch ms
    other_keys: set[SortKey] = field(default_factory=set)  # the same for keys that are not times
    keys_from: int = 0  # events without a number count as seen below this epoch ms
    high: int | None = None  # latest time seen
    floor: int | None = None  # start of the next wide scan; None: the first item
    wide_at: int | None = None  # start of the last wide scan by the reader's clock
    gap_edge: int = 0  # grows when a new gap in the numbering appears
    gap_since: int | None = None  # when it appeared, by the reader's clock
    late: list[tuple[int, int]] = field(default_factory=list)  # announced ranges to read again
    scan: Scan | None = None

    def copy(self) -> ReadProgress:
        return ReadProgress(
            dict(self.numbers),
            dict(self.keys),
            set(self.other_keys),
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
        """Whether this event has not been seen."""
        event = stored.event
        if event.producer is not None:
            return event.number not in self.numbers.get(event.producer, NO_NUMBERS)
        if stored.key_ms == NO_TIME:
            return stored.key not in self.other_keys
        return stored.key_ms >= self.keys_from and stored.key not in self.keys

    def add(self, stored: StoredEvent) -> None:
        """Mark this event as seen."""
        event = stored.event
        if event.producer is not None and event.number is not None:
            seen = self.numbers.get(event.producer, NO_NUMBERS)
            self.numbers[event.producer] = seen.with_number(event.number)
        elif stored.key_ms == NO_TIME:
            self.other_keys.add(stored.key)
        else:
            self.keys[stored.key] = stored.key_ms
        if stored.written_ms != NO_TIME and (self.high is None or stored.written_ms > self.high):
            self.high = stored.written_ms
        announced = late_range(event)
        if announced is not None:
            self.late.append(announced)

    def drop_keys_below(self, key_ms: int) -> None:
        """Count events without a number as seen below this time."""
        if key_ms > self.keys_from:
            self.keys_from = key_ms
            self.keys = {key: at for key, at in self.keys.items() if at >= key_ms}

    def has_seen_all_of(self, other: ReadProgress) -> bool:
        """Whether everything that the other has seen is seen here too."""
        numbered = all(
            seen | self.numbers.get(producer, NO_NUMBERS) == self.numbers.get(producer)
            for producer, seen in other.numbers.items()
        )
        unnumbered = all(at < self.keys_from or key in self.keys for key, at in other.keys.items())
        return numbered and unnumbered and other.other_keys <= self.other_keys

    def note_gaps(self, now: int) -> None:
        """Note since when numbers are missing."""
        edge = sum(max((high for _, high in seen.gaps()), default=0) for seen in self.numbers.values())
        if not edge:
            self.gap_since = None
        elif edge > self.gap_edge or self.gap_since is None:
            self.gap_since = now
        self.gap_edge = edge


def late_range(event: Event) -> tuple[int, int] | None:
    """The range of times that a `late_batch` announces."""
    if event.type != "late_batch":
        return None
    first, last = number_of(event.payload, "from"), number_of(event.payload, "to")
    if first is None or last is None or not 0 <= first <= last:
        return None
    return int(first), int(last)


class ParsedCursor(str):
    """A cursor with its progress, so that a poll that finds nothing neither parses nor formats one."""

    __slots__ = ("layout", "progress")

    layout: str
    progress: ReadProgress  # never modified

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)  # another process, or a copy, gets the text only


def next_cursor(progress: ReadProgress, layout: Layout, *, after: Cursor) -> Cursor:
    """The cursor of a progress that is no longer modified; the previous one if nothing is new."""
    if isinstance(after, ParsedCursor) and after.layout == layout.name and after.progress == progress:
        return after
    cursor = ParsedCursor(to_cursor(progress))
    cursor.layout, cursor.progress = layout.name, progress
    return Cursor(cursor)


def to_cursor(progress: ReadProgress) -> Cursor:
    """The progress as text; equal progress gives equal text."""
    if progress == ReadProgress():
        return START
    scan = progress.scan
    value = [
        {producer: _flatten(seen.ranges) for producer, seen in progress.numbers.items()},
        _pack_keys(progress.keys),
        sorted(progress.other_keys, key=str),
        progress.keys_from,
        progress.high,
        progress.floor,
        progress.wide_at,
        progress.gap_edge,
        progress.gap_since,
        _flatten(progress.late),
        None if scan is None else [scan.wide, scan.low, scan.high, scan.base, scan.position],
    ]
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return Cursor(PREFIX + base64.urlsafe_b64encode(zlib.compress(text.encode(), 3)).decode().rstrip("="))


def from_cursor(cursor: Cursor, layout: Layout) -> ReadProgress:
    """The progress in a cursor. Raises `InvalidCursor` for one that this journal did not issue."""
    if isinstance(cursor, ParsedCursor) and cursor.layout == layout.name:
        return cursor.progress.copy()
    if cursor == START:
        return ReadProgress()
    if cursor.startswith((PREFIX, OLDER_PREFIX)):
        try:
            value = _inflate(cursor[len(PREFIX) :])
            if cursor.startswith(PREFIX):
                value[1] = _unpack_keys(*value[1])
            return _progress(value, layout)
        except (ValueError, TypeError, ArithmeticError, LookupError, binascii.Error, zlib.error):
            pass
    raise InvalidCursor(f"Invalid cursor {cursor[:40]!r} for this journal. Read from the start instead.")


def _pack_keys(keys: Collection[SortKey]) -> list[object]:
    """Keys as in a cursor: integers as steps, and the others as they are."""
    texts = sorted(key for key in keys if isinstance(key, str))
    return [_encode_steps(sorted(key for key in keys if isinstance(key, int))), texts]


def _unpack_keys(steps: list[Any], texts: list[SortKey]) -> list[SortKey]:
    return [*_decode_steps(steps), *texts]


def _encode_steps(numbers: Sequence[int]) -> list[int | str]:
    """A number in full, then one character for each step; a step that is too large starts again."""
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


def _decode_steps(packed: list[Any]) -> Iterator[int]:
    for number, characters in zip(packed[::2], packed[1::2], strict=True):
        yield from accumulate((ord(each) - _NO_STEP for each in characters), initial=int(number))


def _inflate(text: str) -> Any:
    packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    inflater = zlib.decompressobj()
    plain = inflater.decompress(packed, _LARGEST_DECODED)
    if not inflater.eof:
        raise ValueError("truncated, or too large")
    return json.loads(plain)


def _progress(value: Any, layout: Layout) -> ReadProgress:
    numbers, keys, other_keys, keys_from, high, floor, wide_at, gap_edge, gap_since, late, scan = value
    return ReadProgress(
        numbers={str(producer): NumberSet(_pairs(flat)) for producer, flat in numbers.items()},
        keys={key: layout.key_ms(key) for key in keys},
        other_keys=set(other_keys),
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


def _flatten(pairs: Sequence[tuple[int, int]]) -> list[int]:
    return [number for pair in pairs for number in pair]


def _pairs(flat: list[int]) -> tuple[tuple[int, int], ...]:
    return tuple((int(low), int(high)) for low, high in zip(flat[::2], flat[1::2], strict=True))

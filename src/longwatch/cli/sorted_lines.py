"""Events as lines in their order, of runs of any size.

Events that arrived in another order are sorted in parts, which wait in a temporary file and are merged. So
memory holds one part.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, pairwise
from tempfile import SpooledTemporaryFile
from typing import IO

from longwatch.journal.codec import to_line
from longwatch.model.event import Event, Order

SORTED_EVENTS = 2_000  # of one part
SPOOLED_BYTES = 1024 * 1024  # of lines that stay in memory
READ_BYTES = 64 * 1024
_SEPARATOR = "\t"  # of the order of an event, in JSON, from its line


def sorted_lines(
    events: Iterable[Event], *, text_of: Callable[[Event], str] = to_line, at_once: int = SORTED_EVENTS
) -> Iterator[str]:
    """Every event as a line of JSON, or as `text_of` writes it, in order."""
    left = iter(events)
    last: Order | None = None
    with SpooledTemporaryFile(SPOOLED_BYTES, prefix="longwatch-") as file:
        starts = [0]
        while part := sorted(islice(left, at_once), key=lambda event: event.order):
            if last is not None and part[0].order < last:
                starts.append(file.tell())
            file.writelines(
                f"{json.dumps(event.order)}{_SEPARATOR}{text_of(event)}\n".encode() for event in part
            )
            last = part[-1].order
        parts = [_lines_between(file, begin, end) for begin, end in pairwise([*starts, file.tell()])]
        for line in parts[0] if len(parts) == 1 else heapq.merge(*parts, key=_order_of):
            yield line.decode().partition(_SEPARATOR)[2].removesuffix("\n")


def _lines_between(file: IO[bytes], position: int, end: int) -> Iterator[bytes]:
    while position < end:
        file.seek(position)
        lines = file.readlines(min(READ_BYTES, end - position))
        position += sum(map(len, lines))
        yield from lines


def _order_of(line: bytes) -> list[object]:
    order: list[object] = json.loads(line.partition(_SEPARATOR.encode())[0])
    return order

"""Events as lines of JSON in their order, of runs of any size.

Events that arrived in another order are sorted in parts, which wait in a temporary file and are merged. So
memory holds one part.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from tempfile import SpooledTemporaryFile
from typing import IO

from longwatch.journal.codec import to_line
from longwatch.model.event import Event, Order

SORTED_EVENTS = 2_000  # of one part
SPOOLED_BYTES = 1024 * 1024  # of lines that stay in memory
READ_BYTES = 64 * 1024


def sorted_lines(events: Iterable[Event], *, at_once: int = SORTED_EVENTS) -> Iterator[str]:
    """Every event as a line, in order."""
    left = iter(events)
    last: Order | None = None
    with SpooledTemporaryFile(SPOOLED_BYTES, prefix="longwatch-") as file:
        starts = [0]
        while part := sorted(islice(left, at_once), key=lambda event: event.order):
            if last is not None and part[0].order < last:
                starts.append(file.tell())
            file.writelines(f"{to_line(event)}\n".encode() for event in part)
            last = part[-1].order
        parts = [_lines_between(file, begin, end) for begin, end in pairwise([*starts, file.tell()])]
        for line in parts[0] if len(parts) == 1 else heapq.merge(*parts, key=_order_of):
            yield line.decode().removesuffix("\n")


def _lines_between(file: IO[bytes], position: int, end: int) -> Iterator[bytes]:
    while position < end:
        file.seek(position)
        lines = file.readlines(min(READ_BYTES, end - position))
        position += sum(map(len, lines))
        yield from lines


def _order_of(line: bytes) -> Order:
    event = json.loads(line)
    return (event["occurred_at"], event.get("producer") or "", event.get("number") or 0, event["event_id"])

"""Whole runs for routes that tell everything at once: pages in order, lines as they are exported."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from longwatch.journal.codec import to_line
from longwatch.model.event import START, Event

if TYPE_CHECKING:
    from longwatch.server.context import ServerContext

PAGE_EVENTS = 1_000
PIECE_BYTES = 64 * 1024  # of a download that are sent at once; an event may be larger


async def all_events(context: ServerContext, run_id: str) -> AsyncIterator[Sequence[Event]]:
    """Every event of the run once, a page at a time, as they arrived."""
    cursor, more = START, True
    while more:
        page = await context.async_journal.read(run_id, after=cursor, limit=PAGE_EVENTS)
        yield page.events
        cursor, more = page.cursor, page.more


async def streamed(
    context: ServerContext, run_id: str, written: Callable[[Event], bytes]
) -> AsyncIterator[bytes]:
    """Every event as it is `written`, in pieces, as they arrived.

    While the client reads nothing, what is held is the rest of one page as bytes, and no event beside it.
    """
    cursor, more = START, True
    while more:
        page = await context.async_journal.read(run_id, after=cursor, limit=PAGE_EVENTS)
        cursor, more = page.cursor, page.more
        pieces = await context.call(_pieces, page.events, written)
        del page
        while pieces:
            yield pieces.popleft()


def _pieces(events: Sequence[Event], written: Callable[[Event], bytes]) -> deque[bytes]:
    """What is written of events, small ones joined: sending a piece costs more than its bytes."""
    pieces: deque[bytes] = deque()
    parts: list[bytes] = []
    size = 0
    for event in events:
        parts.append(written(event))
        size += len(parts[-1])
        if size >= PIECE_BYTES:
            pieces.append(b"".join(parts))
            parts, size = [], 0
    if parts:
        pieces.append(b"".join(parts))
    return pieces


def exported_line(event: Event) -> bytes:
    """An event as a line of JSON; `longwatch import` takes them in any order."""
    return f"{to_line(event)}\n".encode()


def attachment(name: str, suffix: str) -> str:
    """The header that makes a browser save the answer under this name."""
    plain = "".join(
        each if each.isascii() and (each.isalnum() or each in "._-") else "_" for each in name[:100]
    )
    full = quote(name[:100] + suffix, safe="")
    return f"attachment; filename=\"{plain or 'run'}{suffix}\"; filename*=UTF-8''{full}"

"""Whole runs for routes that tell everything at once: pages in order, lines as they are exported."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from longwatch.events import START, Event
from longwatch.journal.codec import to_line

if TYPE_CHECKING:
    from longwatch.server.context import ServerContext

PAGE_EVENTS = 1_000


async def all_events(context: ServerContext, run_id: str) -> AsyncIterator[Sequence[Event]]:
    """Every event of the run once, a page at a time, as they arrived."""
    cursor, more = START, True
    while more:
        page = await context.async_journal.read(run_id, after=cursor, limit=PAGE_EVENTS)
        yield page.events
        cursor, more = page.cursor, page.more


async def exported_lines(context: ServerContext, run_id: str) -> AsyncIterator[bytes]:
    """Every event as a line of JSON, as they arrived; `longwatch import` takes any order."""
    async for events in all_events(context, run_id):
        if events:
            yield await context.call(_lines, events)


def _lines(events: Sequence[Event]) -> bytes:
    return "".join(f"{to_line(event)}\n" for event in events).encode()


def attachment(name: str, suffix: str) -> str:
    """The header that makes a browser save the answer under this name."""
    plain = "".join(
        each if each.isascii() and (each.isalnum() or each in "._-") else "_" for each in name[:100]
    )
    full = quote(name[:100] + suffix, safe="")
    return f"attachment; filename=\"{plain or 'run'}{suffix}\"; filename*=UTF-8''{full}"

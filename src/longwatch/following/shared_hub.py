"""`follow(run_id)`: followers of one journal in one event loop share a hub."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from longwatch.following.hub import Hub
from longwatch.following.items import Item
from longwatch.journal.base import Journal
from longwatch.journal.factory import open_journal
from longwatch.model.event import START, Cursor
from longwatch.settings import load_settings


@dataclass(slots=True)
class _Shared:
    hub: Hub
    users: int = 0


_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[object, _Shared]] = WeakKeyDictionary()


async def follow(
    run_id: str,
    *,
    journal: Journal | str | None = None,
    after: Cursor = START,
    silent_after_seconds: float | None = None,
) -> AsyncGenerator[Item, None]:
    """Yield a run's history, a `CaughtUp`, then new events, and last an `Ended` with the reason.

    `journal` is an open one, a URL, or None for the one that the settings name. `after` resumes after
    the item that had this cursor. With `silent_after_seconds` the watch gives up when nothing comes for so
    long; the run stays open.
    """
    async with shared_hub(journal) as hub:
        follower = hub.follow(run_id, after=after, silent_after_seconds=silent_after_seconds)
        async with aclosing(aiter(follower)) as items:
            async for item in items:
                yield item


@asynccontextmanager
async def shared_hub(journal: Journal | str | None = None) -> AsyncIterator[Hub]:
    """The hub for this journal in this event loop; closed when the last user leaves."""
    hubs = _shared.setdefault(asyncio.get_running_loop(), {})
    key: object = load_settings().journal if journal is None else journal
    if not isinstance(key, str):
        key = id(journal)
    shared = hubs.get(key)
    if shared is None:
        given = None if journal is None or isinstance(journal, str) else journal
        shared = hubs[key] = _Shared(Hub(given or open_journal(str(key)), owns_journal=given is None))
    shared.users += 1
    try:
        yield shared.hub
    finally:
        shared.users -= 1
        if not shared.users:
            del hubs[key]
            await shared.hub.aclose()

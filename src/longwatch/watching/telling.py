"""Puts what was learned of an execution into its journal, each event once however many pollers learned it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from longwatch.errors import EventConflict
from longwatch.journal.base import Journal
from longwatch.model.event import START, Event


def tell(journal: Journal, events: Sequence[Event], *, ttl_seconds: int | None = None) -> int:
    """Append those that are not there yet, to live so long or for good; return how many that were.

    An event's id says what changed, not who saw it or when. A table keeps events by their time, and would
    take the same change again from somebody who saw it a second later: so it is read first.
    """
    if not events:
        return 0
    known = known_ids(journal, events[0].run_id)
    fresh = [_with_ttl(event, ttl_seconds) for event in events if event.event_id not in known]
    if fresh:
        try:
            journal.append(fresh)
        except EventConflict:
            pass  # another poller was quicker with the same change, and the rest is stored
    return len(fresh)


def known_ids(journal: Journal, run_id: str) -> set[str]:
    """The ids of all events of a run."""
    ids: set[str] = set()
    cursor, more = START, True
    while more:
        page = journal.read(run_id, after=cursor)
        ids.update(event.event_id for event in page.events)
        cursor, more = page.cursor, page.more
    return ids


def _with_ttl(event: Event, seconds: int | None) -> Event:
    return event if seconds is None else replace(event, ttl=event.occurred_at // 1000 + seconds)

"""A race that one writer wins: all of them store an event of one id at one time, and the first one counts.

Both have to be the same for every writer. SQLite and memory notice a second event by its id alone; DynamoDB
notices it only at the same run and time.
"""

from __future__ import annotations

from collections.abc import Iterator

from longwatch.errors import EventConflict, JournalUnusable
from longwatch.events import START, Event
from longwatch.journal.base import Journal
from longwatch.turns.folds import READ_EVENTS


def first_stored(journal: Journal, claim: Event) -> Event:
    """Store a claim; returns the first one stored under its id and time, which may be another writer's."""
    try:
        journal.append([claim])
    except EventConflict:
        return _stored(journal, claim)
    return claim


def stored_events(journal: Journal, run_id: str) -> Iterator[Event]:
    """Every event of a run from its beginning: claims bear an earlier time than a look-back reaches."""
    cursor, more = START, True
    while more:
        page = journal.read(run_id, after=cursor, limit=READ_EVENTS)
        yield from page.events
        cursor, more = page.cursor, page.more


def _stored(journal: Journal, claim: Event) -> Event:
    for event in stored_events(journal, claim.run_id):
        if event.event_id == claim.event_id:
            return event
    raise JournalUnusable(
        f"Event {claim.event_id} is stored in {journal.url} but cannot be read. It may have expired."
    )

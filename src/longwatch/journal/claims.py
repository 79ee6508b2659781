"""Races between writers: all of them store an event with the same ID and time, and the first one wins.

ID and time have to be the same for every writer: SQLite and memory detect a second event by its ID alone,
DynamoDB only at the same run and time.

The end of a turn is such a race. Its writers claim it with an event at the time of the turn's creation. The
claim contains the terminal event, which has a fixed ID too and the true time. The loser of the race stores
the winner's terminal event, so a writer that dies after its claim leaves no turn undecided.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from longwatch.errors import EventConflict, JournalUnusable
from longwatch.journal.base import Journal
from longwatch.journal.codec import encode_payload
from longwatch.model.endings import ENDS
from longwatch.model.event import START, UNREADABLE, Event, number_of
from longwatch.model.process import find_leftovers, leftover_text

END_CLAIMED = "turn_end_claimed"
TURN_PREFIX = "turn-"  # of all turn IDs; other runs may have it too
READ_EVENTS = 1_000


def store_claim(journal: Journal, claim: Event) -> Event:
    """Store a claim; returns the first claim with its ID and time, which may be another writer's."""
    try:
        journal.append([claim])
    except EventConflict:
        return _read_claim(journal, claim)
    return claim


def read_all_events(journal: Journal, run_id: str) -> Iterator[Event]:
    """Every event of a run from its start: a claim has an earlier time than a look-back reaches."""
    cursor, more = START, True
    while more:
        page = journal.read(run_id, after=cursor, limit=READ_EVENTS)
        yield from page.events
        cursor, more = page.cursor, page.more


def _read_claim(journal: Journal, claim: Event) -> Event:
    for event in read_all_events(journal, claim.run_id):
        if event.event_id == claim.event_id and event.type != UNREADABLE:
            return event
    raise JournalUnusable(
        f"Event {claim.event_id} is stored in {journal.url} but cannot be read. It may be expired or damaged."
    )


def store_death(journal: Journal, death: Event) -> None:
    """Store the ending that an observer writes for a run that died; for a turn, as its only ending."""
    if death.run_id.startswith(TURN_PREFIX):
        events = list(read_all_events(journal, death.run_id))
        created = [event.order for event in events if event.type == "turn_created"]
        if created and not any(event.type in ENDS for event in events):
            terminal = ending_from_death(death)
            journal.append([claim_ending(journal, terminal, min(created)[0])])
        if created:
            return
    journal.append([death])


def ending_from_death(death: Event) -> Event:
    """The death of a turn's executor as the ending of the turn, with the processes that still run."""
    left = find_leftovers(death.run_id)
    payload = dict(death.payload)
    if left:
        payload["leftover_pid"] = left[0]
        payload["error_message"] = f"{payload.get('error_message', '')} {leftover_text(left)}".strip()
    return replace(death, event_id=ending_id(death.run_id), payload=payload, encoded=None)


def ending_id(turn_id: str) -> str:
    """The ID of a turn's terminal event, the same for every writer. It sorts after the IDs of its lines."""
    return f"{turn_id}-ended"


def claim_ending(journal: Journal, terminal: Event, created_at: int) -> Event:
    """Claim the end of a turn; returns the terminal event to store, which may be another writer's."""
    return _claimed_ending(store_claim(journal, _end_claim(terminal, created_at)))


def _end_claim(terminal: Event, created_at: int) -> Event:
    """The claim of the end of a turn that was created at this time."""
    payload = {
        "ends_as": terminal.type,
        "ended_at": terminal.occurred_at,
        "ending": dict(terminal.payload),
    }
    return replace(
        terminal,
        event_id=f"{terminal.run_id}-00-ending",
        type=END_CLAIMED,
        occurred_at=created_at,
        payload=payload,
        encoded=encode_payload(payload),
    )


def _claimed_ending(claim: Event) -> Event:
    """The terminal event in a claim, the same for every reader."""
    payload = claim.payload["ending"]
    assert isinstance(payload, dict)
    return replace(
        claim,
        event_id=ending_id(claim.run_id),
        type=str(claim.payload["ends_as"]),
        occurred_at=int(number_of(claim.payload, "ended_at") or 0),
        payload=payload,
        encoded=encode_payload(payload),
    )

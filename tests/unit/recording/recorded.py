"""Reading back what was recorded."""

from __future__ import annotations

from longwatch.journal.base import Journal
from longwatch.journal.verify import Verification, Verifier
from longwatch.model.event import START, Event


class Refusal(Exception):
    """What the observed code raises."""


def events_of(journal: Journal, run_id: str) -> list[Event]:
    """All events of a run, in their order."""
    events: list[Event] = []
    page = journal.read(run_id)
    events += page.events
    while page.more:
        page = journal.read(run_id, after=page.cursor)
        events += page.events
    assert page.cursor != START or not events
    return sorted(events, key=lambda event: event.order)


def types_of(journal: Journal, run_id: str) -> list[str]:
    """The types of a run's events, without those of its producers about themselves."""
    of_producers = ("process_joined", "producer_closed")
    return [event.type for event in events_of(journal, run_id) if event.type not in of_producers]


def calls_of(journal: Journal, run_id: str) -> list[tuple[object, ...]]:
    """The recorded states of agents and tools: name, operation and status."""
    return [
        (event.agent_name, event.payload.get("operation", event.type), event.payload.get("status"))
        for event in events_of(journal, run_id)
        if event.type in ("tool_call", "agent_start", "agent_end")
    ]


def verification_of(journal: Journal, run_id: str) -> Verification:
    """The verification of a run by its producers' numbers and digests."""
    verifier = Verifier()
    for event in events_of(journal, run_id):
        verifier.add(event)
    return verifier.report(0)

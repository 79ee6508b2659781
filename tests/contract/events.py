"""Small things that the contract's tests are made of."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from longwatch.journal.base import Journal
from longwatch.model.event import START, Cursor, Event, new_event_id
from longwatch.model.run import RunSummary

OpenAgain = Callable[[], Journal]
"""Opens the same store once more, as another process would."""


def event(run_id: str, at: int, /, type_: str = "tool_call", **fields: object) -> Event:
    """An event with a new id."""
    given_: dict[str, object] = {"event_id": new_event_id(at), **fields}
    return Event(run_id=run_id, type=type_, occurred_at=at, **given_)  # type: ignore[arg-type]


def new_run() -> str:
    return f"wf-{secrets.token_hex(6)}"


def read_all(
    journal: Journal, run_id: str, *, after: Cursor = START, limit: int = 500, thorough: bool = True
) -> tuple[list[Event], Cursor]:
    """Everything past the cursor, page by page, and where it ends."""
    found: list[Event] = []
    while True:
        page = journal.read(run_id, after=after, limit=limit, thorough=thorough)
        assert len(page.events) <= limit
        found += page.events
        after = page.cursor
        if not page.more:
            return found, after


def ids(events: Sequence[Event]) -> list[str]:
    return [each.event_id for each in events]


def run_ids(runs: Sequence[RunSummary]) -> list[str]:
    return [run.run_id for run in runs]

"""Journals with damage of every kind, made on real files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from longwatch.journal.codec import digest
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event, numbered_event_id

PAGE_BYTES = 4096
RUNS = ("run-a", "run-b", "run-c")
EVENTS = 40  # of each run
AT = 1_763_000_000_000


def producer_of(run_id: str) -> str:
    return f"{RUNS.index(run_id) + 1:012x}"


def chain(run_id: str, count: int = EVENTS) -> list[Event]:
    """A whole run as a recorder writes it: numbered, chained and closed."""
    producer, events, before = producer_of(run_id), [], None
    for number in range(1, count + 1):
        type_ = {1: "workflow_start", count - 1: "workflow_complete", count: "producer_closed"}.get(
            number, "note"
        )
        payload: dict[str, object] = {"count": count} if number == count else {"text": f"{number} " * 40}
        event = Event(
            run_id=run_id,
            event_id=numbered_event_id(AT + number, producer, number),
            type=type_,
            occurred_at=AT + number,
            payload=payload,
            producer=producer,
            number=number,
            previous_digest=before,
        )
        events.append(event)
        before = digest(event)
    return events


def make(path: Path) -> dict[str, list[Event]]:
    """A journal of three complete runs, one after the other."""
    runs = {run_id: chain(run_id) for run_id in RUNS}
    with SqliteJournal(path) as journal:
        for events in runs.values():
            journal.append(events)
    return runs


def change(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement, values)


def invalid_byte(path: Path, run_id: str, number: int) -> None:
    statement = (
        "UPDATE events SET payload = CAST(x'7b2261ff223a317d' AS TEXT) WHERE run_id = ? AND number = ?"
    )
    change(path, statement, run_id, number)


def not_json(path: Path, run_id: str, number: int) -> None:
    change(path, "UPDATE events SET payload = '{no json' WHERE run_id = ? AND number = ?", run_id, number)


def leaf_pages(path: Path, containing: bytes) -> list[int]:
    """The table leaves, by their page number, that contain these bytes."""
    data = path.read_bytes()
    return [
        number
        for number in range(2, len(data) // PAGE_BYTES + 1)
        if data[(number - 1) * PAGE_BYTES] == 0x0D
        and containing in data[(number - 1) * PAGE_BYTES : number * PAGE_BYTES]
    ]


def hide_last(path: Path, run_id: str) -> None:
    """Give the last event of the run another run id, in the index alone."""
    with closing(sqlite3.connect(path)) as connection:
        [(last,)] = connection.execute("SELECT max(position) FROM events WHERE run_id = ?", (run_id,))
        [(root,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events_by_run'")
    data = bytearray(path.read_bytes())
    at = data.index(run_id.encode() + bytes([last]), (root - 1) * PAGE_BYTES, root * PAGE_BYTES)
    data[at + len(run_id) - 1] = ord("z")
    path.write_bytes(data)


def overwrite_page(path: Path, number: int, fill: bytes = b"\xa5") -> None:
    with path.open("r+b") as file:
        file.seek((number - 1) * PAGE_BYTES)
        file.write(fill * PAGE_BYTES)


def truncate(path: Path, pages_left: int) -> None:
    with path.open("r+b") as file:
        file.truncate(pages_left * PAGE_BYTES)

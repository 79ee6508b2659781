"""Reads the undamaged rows of a SQLite journal and locates the damaged ones.

A damaged page makes SQLite reject every query that touches it. So rows are fetched by ranges of positions,
which are halved until each unreadable row is isolated. The indexes still contain its run and event ID, and
the ID of a recorder contains producer and number. This is slow, and used only after a query failed.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from functools import cached_property
from itertools import islice
from operator import lt
from pathlib import Path
from typing import Any, Self

from longwatch.errors import LongwatchError
from longwatch.journal.arrivals import Arrival
from longwatch.journal.base import PAGE_BYTES
from longwatch.journal.codec import payload_size
from longwatch.journal.sqlite.rows import (
    POSITION,
    STORED_COLUMNS,
    UNKNOWN_RUN,
    decode_run,
    read_damaged_row,
)
from longwatch.model.event import MAX_OCCURRED_AT, Event, parse_event_id, unreadable_event
from longwatch.model.run import RunSummary, summarise
from longwatch.storage.sqlite.errors import translate_error

RANGE = 1_000  # positions fetched at once
MAX_LOST_ROWS = 200_000  # a damaged counter may claim any number of rows
HIGHEST_POSITION = 2**62
LOST_ROW = "its part of the file is unreadable"

_ROWS = f"""
    SELECT {STORED_COLUMNS} FROM events NOT INDEXED WHERE position BETWEEN ? AND ? ORDER BY position"""
_NEXT = "SELECT position FROM events NOT INDEXED WHERE position > ? ORDER BY position LIMIT 1"
_POSITIONS_OF = """
    SELECT position FROM events INDEXED BY events_by_run
    WHERE run_id = ? AND position > ? ORDER BY position"""
_POSITIONS = "SELECT run_id, position FROM events INDEXED BY events_by_run"
_IDS = "SELECT event_id, position FROM events INDEXED BY events_by_id"
_LAST = ("SELECT last_position FROM arrivals", "SELECT max(position) FROM events NOT INDEXED")
_RUNS = "SELECT run_id, summary FROM runs NOT INDEXED WHERE rowid BETWEEN ? AND ?"
_STARTED = "SELECT started_at FROM runs WHERE run_id = ?"
_LAST_RUN = "SELECT max(rowid) FROM runs NOT INDEXED"

Row = tuple[Any, ...]
Found = tuple[int, Row | None]
"""A position and its row; None: it cannot be fetched."""


class Salvage:
    """A read-only snapshot of a damaged file."""

    def __init__(self, path: Path, *, now_seconds: int) -> None:
        self.lost_rows = 0  # that could not be fetched
        self._now = now_seconds
        self._connection = _connect(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def arrivals(
        self, after: int = 0, *, progress: Callable[[int, int], None] | None = None
    ) -> Iterator[Arrival]:
        """The events of all runs after a position, in order; unreadable ones if an index contains them."""
        return self._unexpired(self._all_rows(after, progress))

    def sample(self, every: int) -> Iterator[Arrival]:
        """Every n-th position of the whole file."""
        positions = range(1, self.last_position() + 1, every)
        return self._unexpired(
            row for position in positions for row in self._range(position, position) if row[1] is not None
        )

    def events_of(self, run_id: str, after: int = 0) -> Iterator[Arrival]:
        """The events of one run after a position."""
        try:
            found = [position for [position] in self._connection.execute(_POSITIONS_OF, (run_id, after))]
        except sqlite3.Error:
            found = [after]
        if not all(map(lt, [after, *found], found)):  # the index is damaged: search the table
            return (arrival for arrival in self.arrivals(after) if arrival[1].run_id == run_id)
        return self._unexpired((row for position in found for row in self._range(position, position)), run_id)

    def last_position(self) -> int:
        """The highest position in the table or an index."""
        found = [0, *self._positions[-1:]]
        for query in _LAST:
            with suppress(sqlite3.Error):
                row = self._connection.execute(query).fetchone()
                if row is not None and type(row[0]) is int and 0 < row[0] < HIGHEST_POSITION:
                    found.append(row[0])
        return max(found)

    def runs(self) -> dict[str, RunSummary]:
        """Every run, from its row or computed from its events."""
        found: dict[str, RunSummary] = {}
        for run_id, summary in self._run_rows(1, self._last_run()):
            run = _summary(run_id, summary)
            if run is not None:
                found[run.run_id] = run
        if set(self._runs_by_position.values()) - found.keys() or not found:
            events = (event for _, event in self.arrivals() if event.run_id not in found)
            found.update(summarise(event for event in events if event.run_id != UNKNOWN_RUN))
        return found

    def run(self, run_id: str) -> RunSummary | None:
        """One run, from its row or computed from its events."""
        stored = self.stored_run(run_id)
        return stored or summarise(event for _, event in self.events_of(run_id)).get(run_id)

    def stored_run(self, run_id: str) -> RunSummary | None:
        """One run from its row, if that is readable."""
        wanted = run_id.encode(errors="replace")
        rows = (row for row in self._run_rows(1, self._last_run()) if row[0] == wanted)
        return next((run for row in rows if (run := _summary(*row)) is not None), None)

    def _unexpired(self, rows: Iterator[Found], run_id: str | None = None) -> Iterator[Arrival]:
        before: int | None = None
        for position, row in rows:
            event = None if row is None else read_damaged_row(row, otherwise_at=before)
            if event is None or event.run_id == UNKNOWN_RUN or event.run_id != (run_id or event.run_id):
                event = self._lost(position, run_id, before) or event
            if event is None:
                continue
            if run_id is None:
                event = self._correct_run(position, event)
            before = event.occurred_at
            if event.ttl is None or event.ttl > self._now:
                yield position, event

    def _correct_run(self, position: int, event: Event) -> Event:
        """The event with the run from the index, if only that one is in the list of runs."""
        indexed = self._runs_by_position.get(position, event.run_id)
        if indexed != event.run_id and indexed in self._listed and event.run_id not in self._listed:
            return replace(event, run_id=indexed)
        return event

    @cached_property
    def _listed(self) -> frozenset[str]:
        rows = self._run_rows(1, self._last_run())
        return frozenset(row[0].decode(errors="replace") for row in rows if isinstance(row[0], bytes))

    def _last_run(self) -> int:
        with suppress(sqlite3.Error):
            [last] = self._connection.execute(_LAST_RUN).fetchone()
            return min(last or 0, HIGHEST_POSITION)
        return 0

    def _lost(self, position: int, run_id: str | None, before: int | None) -> Event | None:
        """An unreadable event from the indexes; None if they lack it."""
        run_id = run_id or self._runs_by_position.get(position)
        event_id = self._ids_by_position.get(position)
        if run_id is None and event_id is None:
            return None
        parts = parse_event_id(event_id) if event_id is not None else None
        slot, producer, number = parts or (before or self._start_of(run_id), None, None)
        return unreadable_event(
            run_id or UNKNOWN_RUN,
            position,
            LOST_ROW,
            occurred_at=min(slot or 0, MAX_OCCURRED_AT),
            event_id=event_id,
            producer=producer,
            number=number,
        )

    def _start_of(self, run_id: str | None) -> int:
        """When the run started, for an event without any time."""
        with suppress(sqlite3.Error):
            row = self._connection.execute(_STARTED, (run_id,)).fetchone()
            if row is not None and type(row[0]) is int and row[0] > 0:
                return row[0]
        return 0

    def _all_rows(self, after: int, progress: Callable[[int, int], None] | None) -> Iterator[Found]:
        start, last = after + 1, self.last_position()
        while start <= last and self.lost_rows < MAX_LOST_ROWS:
            end = min(start + RANGE - 1, last)
            yield from self._range(start, end)
            if progress is not None:
                progress(end, last)
            start = self._start_after(end)

    def _range(self, low: int, high: int) -> Iterator[Found]:
        found: dict[int, Row | None] = dict.fromkeys(self._positions_between(low, high))
        try:
            rows = self._connection.execute(_ROWS, (low, high)).fetchall()
            found.update((row[POSITION], row) for row in rows if low <= row[POSITION] <= high)
        except sqlite3.Error:
            found[low] = None
        if None in found.values() and low < high:  # a position out of order ends a query early
            middle = (low + high) // 2
            yield from self._range(low, middle)
            if self.lost_rows < MAX_LOST_ROWS:
                yield from self._range(middle + 1, high)
            return
        self.lost_rows += sum(row is None for row in found.values())
        yield from sorted(found.items())

    def _start_after(self, end: int) -> int:
        """The next existing position: many may have been pruned."""
        index = bisect_right(self._positions, end)
        indexed = self._positions[index : index + 1]
        try:
            row = self._connection.execute(_NEXT, (end,)).fetchone()
        except sqlite3.Error:
            return end + 1
        return min([*indexed, *([row[0]] if row else [])], default=HIGHEST_POSITION)

    def _positions_between(self, low: int, high: int) -> list[int]:
        return self._positions[bisect_left(self._positions, low) : bisect_right(self._positions, high)]

    @cached_property
    def _positions(self) -> list[int]:
        return sorted(self._runs_by_position)

    @cached_property
    def _runs_by_position(self) -> dict[int, str]:
        return self._texts(_POSITIONS)

    @cached_property
    def _ids_by_position(self) -> dict[int, str]:
        return self._texts(_IDS)

    def _texts(self, query: str) -> dict[int, str]:
        """The readable entries of an index by position."""
        found: dict[int, str] = {}
        with suppress(sqlite3.Error), closing(self._connection.execute(query)) as rows:
            for text, position in rows:
                if isinstance(text, bytes) and type(position) is int and 0 < position < HIGHEST_POSITION:
                    found[position] = text.decode(errors="replace")
        return found

    def _run_rows(self, low: int, high: int) -> Iterator[Row]:
        try:
            yield from self._connection.execute(_RUNS, (low, high)).fetchall()
        except sqlite3.Error:
            if low < high:
                middle = (low + high) // 2
                yield from self._run_rows(low, middle)
                yield from self._run_rows(middle + 1, high)


def first_arrivals(found: Iterator[Arrival], limit: int) -> Iterator[Arrival]:
    """Up to `limit` of these, and not much more than fits into one page."""
    size = 0
    for arrival in islice(found, limit):
        yield arrival
        size += payload_size(arrival[1])
        if size > 2 * PAGE_BYTES:
            return


def _summary(run_id: object, text: object) -> RunSummary | None:
    if not isinstance(run_id, bytes) or not isinstance(text, bytes):
        return None
    try:
        return decode_run(run_id.decode(), text.decode())
    except (LongwatchError, UnicodeDecodeError):
        return None


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    try:
        connection.text_factory = bytes
        # Makes SQLite open a file that is shorter than its header states, and skip invalid definitions.
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("BEGIN")  # one snapshot for all reads
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        connection.close()
        raise translate_error(error, path) from error
    return connection

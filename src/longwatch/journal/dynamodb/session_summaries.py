"""Summaries of sessions, folded from their own events.

The state machine writes a session's start and its end and updates no entry of the run list, so what an entry
says of a session is incomplete: its events are read instead. A summary is kept together with the cursor up to
which it was read, so that the next read only fetches what is new.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from longwatch.clock import Clock
from longwatch.journal.base import DEFAULT_READ_LIMIT
from longwatch.journal.dynamodb.reader import TableReader
from longwatch.model.event import START, Cursor
from longwatch.model.run import RunSummary, summarise

CACHED_SESSIONS = 1_024
SETTLED_SECONDS = 60.0  # for which a session that its state machine ended is not read again
LAST_WORDS = frozenset({"SESSION_SUCCEEDED", "SESSION_FAILED", "SESSION_UNCONFIRMED"})


@dataclass(frozen=True, slots=True)
class _Read:
    summary: RunSummary | None
    cursor: Cursor
    at: float  # on the monotonic clock

    @property
    def is_settled(self) -> bool:
        return self.summary is not None and self.summary.last_event_type in LAST_WORDS


class SessionSummaries:
    """The sessions of one table. Threads may share it."""

    def __init__(self, reader: TableReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._cache: OrderedDict[str, _Read] = OrderedDict()
        self._lock = threading.Lock()

    def summary(self, run_id: str) -> RunSummary | None:
        """The session as its events are now; None: it has none."""
        now = self._clock.monotonic()
        with self._lock:
            cached = self._cache.get(run_id) or _Read(None, START, now)
        if cached.is_settled and now - cached.at < SETTLED_SECONDS:
            return cached.summary
        summary, cursor = self._read_on(run_id, cached)
        with self._lock:
            self._cache[run_id] = _Read(summary, cursor, now)
            self._cache.move_to_end(run_id)
            while len(self._cache) > CACHED_SESSIONS:
                self._cache.popitem(last=False)
        return summary

    def _read_on(self, run_id: str, cached: _Read) -> tuple[RunSummary | None, Cursor]:
        summary, cursor, more = cached.summary, cached.cursor, True
        while more:
            page = self._reader.read(run_id, after=cursor, limit=DEFAULT_READ_LIMIT, thorough=False)
            for part in summarise(page.events).values():
                summary = part if summary is None else summary.merged(part)
            cursor, more = page.cursor, page.more
        return summary, cursor

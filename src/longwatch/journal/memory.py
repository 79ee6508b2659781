"""A journal in memory, for tests and experiments."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import EventConflict, InvalidCursor
from longwatch.journal.arrivals import Arrival, ArrivalCursor, is_position, last_events, page_of
from longwatch.journal.base import DEFAULT_LIST_LIMIT, DEFAULT_READ_LIMIT, PAGE_BYTES, ClosesOnExit, RunPage
from longwatch.journal.codec import decode_payload, payload_size, payload_text, same_content
from longwatch.journal.deletions import Tombstone, check_deletion, raise_deleted
from longwatch.model.event import START, Cursor, Event, Page
from longwatch.model.run import RunSummary, summarise
from longwatch.model.run_query import ALL_RUNS, RunQuery
from longwatch.storage.change_signal import ChangeSignal, LocalSignal, OnChange


class MemoryJournal(ClosesOnExit):
    """A `Journal` in memory. The cursor is the arrival position, as on SQLite."""

    default_ttl_seconds: int | None = None
    announce_after_ms: int | None = None
    generation = 0
    heartbeat_seconds: float = 15.0

    def __init__(self, name: str = "", *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.url = f"memory://{name}"
        self._clock = clock
        self._lock = threading.Lock()
        self._by_id: dict[str, Event] = {}
        self._arrived: list[Arrival] = []
        self._runs: dict[str, list[Arrival]] = {}
        self._summaries: dict[str, RunSummary] = {}
        self._tombstones: dict[str, Tombstone] = {}
        self._position = 0
        self._signal = LocalSignal()
        self._heartbeats: dict[str, int] = {}

    def append(self, events: Sequence[Event]) -> None:
        stored = [_copy_event(event) for event in events]
        with self._lock:
            fresh: list[Event] = []
            conflicts: list[str] = []
            deleted: dict[str, Tombstone] = {}
            for event in stored:
                if event.run_id in self._tombstones:
                    deleted[event.run_id] = self._tombstones[event.run_id]
                    continue
                first = self._by_id.setdefault(event.event_id, event)
                if first is event:
                    self._runs.setdefault(event.run_id, []).append(self._arrive(event))
                    fresh.append(event)
                elif not same_content(first, event):
                    conflicts.append(event.event_id)
            for run_id, summary in summarise(fresh).items():
                before = self._summaries.get(run_id)
                self._summaries[run_id] = before.merged(summary) if before else summary
        self._signal.notify()
        raise_deleted(deleted.values())
        if conflicts:
            raise EventConflict(conflicts)

    def _arrive(self, event: Event) -> Arrival:
        self._position += 1
        self._arrived.append((self._position, event))
        return self._arrived[-1]

    def delete_run(self, run_id: str, *, by: str, force: bool = False) -> Tombstone:
        with self._lock:
            run = self._summaries.get(run_id)
            kind, status = (None, None) if run is None else (run.kind, run.status)
            check_deletion(run_id, kind, status, self._tombstones.get(run_id), force=force)
            events = [event for _, event in self._runs.pop(run_id, [])]
            del self._summaries[run_id]
            for event in events:
                del self._by_id[event.event_id]
            self._arrived = [arrival for arrival in self._arrived if arrival[1].run_id != run_id]
            stone = Tombstone(run_id=run_id, deleted_at=self._clock.now_ms(), by=by).with_removed(events)
            self._tombstones[run_id] = stone
            self._arrive(stone.arrival)
        self._signal.notify()
        return stone

    def tombstone(self, run_id: str) -> Tombstone | None:
        with self._lock:
            return self._tombstones.get(run_id)

    def read(
        self, run_id: str, *, after: Cursor = START, limit: int = DEFAULT_READ_LIMIT, thorough: bool = False
    ) -> Page:
        start = ArrivalCursor.of(after)
        with self._lock:
            if run_id in self._tombstones:
                raise self._tombstones[run_id].error
            new = _after(self._runs.get(run_id, []), start.position)
        unexpired = [pair for pair in self._unexpired(new) if pair[0] not in start.beyond]
        if not unexpired:
            return Page([], after)
        page = first_page(unexpired, limit)
        return page_of(start, page, end=start.up_to(page[-1][0]), more=len(unexpired) > len(page))

    def read_last(self, run_id: str, limit: int) -> Sequence[Event]:
        with self._lock:
            if run_id in self._tombstones:
                raise self._tombstones[run_id].error
            arrived = list(self._runs.get(run_id, ()))
        return last_events((event for _, event in self._unexpired(arrived)), limit)

    def last_arrival(self) -> int:
        with self._lock:
            return self._position

    def arrivals(self, after: int, *, limit: int) -> Sequence[Arrival]:
        with self._lock:
            new = _after(self._arrived, after)
        return first_page(self._unexpired(new), limit)

    def _unexpired(self, arrivals: Sequence[Arrival]) -> list[Arrival]:
        now_seconds = self._clock.now_ms() // 1000
        return [pair for pair in arrivals if pair[1].ttl is None or pair[1].ttl > now_seconds]

    def subscribe(self, on_change: OnChange) -> ChangeSignal:
        return self._signal.subscribe(on_change)

    def find_runs(
        self, query: RunQuery = ALL_RUNS, *, after: Cursor | None = None, limit: int = DEFAULT_LIST_LIMIT
    ) -> RunPage:
        with self._lock:
            summaries = list(self._summaries.values())
        return list_page(summaries, query, after, limit)

    def find_run(self, run_id: str) -> RunSummary | None:
        with self._lock:
            return self._summaries.get(run_id)

    def beat(self, process_id: str, at_ms: int) -> None:
        with self._lock:
            self._heartbeats[process_id] = max(at_ms, self._heartbeats.get(process_id, at_ms))

    def heartbeats(self, process_ids: Sequence[str]) -> Mapping[str, int]:
        with self._lock:
            return {each: self._heartbeats[each] for each in process_ids if each in self._heartbeats}

    def close(self) -> None:
        """A named journal stays open for its other users in this process."""


def _after(arrivals: Sequence[Arrival], position: int) -> Sequence[Arrival]:
    return arrivals[bisect_right(arrivals, position, key=lambda pair: pair[0]) :]


def first_page(arrivals: Sequence[Arrival], limit: int) -> Sequence[Arrival]:
    """The first of these that fit into one page, by their number or by their size."""
    size = 0
    for count, (_, event) in enumerate(arrivals[:limit], 1):
        size += payload_size(event)
        if size >= PAGE_BYTES:
            return arrivals[:count]
    return arrivals[:limit]


def _copy_event(event: Event) -> Event:
    """The event as another store would return it: encoded and decoded, independent of the caller's object."""
    text = payload_text(event)
    return replace(event, payload=decode_payload(text), encoded=text)


def list_page(summaries: Iterable[RunSummary], query: RunQuery, after: Cursor | None, limit: int) -> RunPage:
    """One page of the list of all runs."""
    runs = sorted(
        filter(query.accepts, summaries), key=lambda run: (run.started_at, run.run_id), reverse=True
    )
    if after is not None:
        edge = parse_list_cursor(after)
        runs = [run for run in runs if (run.started_at, run.run_id) < edge]
    page = runs[:limit]
    return RunPage(page, list_cursor(page[-1]) if len(runs) > limit else None)


def list_cursor(run: RunSummary) -> Cursor:
    """The cursor after this run in a list."""
    return Cursor(f"{run.started_at}:{run.run_id}")


def parse_list_cursor(cursor: Cursor) -> tuple[int, str]:
    """The start time and ID of the last run of the previous page."""
    started_at, colon, run_id = cursor.partition(":")
    if not colon or not is_position(started_at):
        raise InvalidCursor(f"Invalid cursor {cursor!r} for a run list. List from the start instead.")
    return int(started_at), run_id

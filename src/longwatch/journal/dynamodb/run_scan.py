"""Finds runs by scanning the table, from keys and types alone: the list lacks those of other producers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from longwatch.clock import Clock
from longwatch.journal.base import UnlistedRuns
from longwatch.journal.dynamodb.layout import Layout, text_in
from longwatch.journal.dynamodb.table import ItemPage, Table
from longwatch.model.event import Event
from longwatch.model.run import RunSummary, summarise
from longwatch.storage.dynamodb.values import AttributeMap


@dataclass(slots=True)
class _Found:
    runs: dict[str, RunSummary] = field(default_factory=dict)
    listed: set[str] = field(default_factory=set)  # by an entry, or because longwatch wrote one of its events
    last_run: str | None = None  # in the order of the scan; its events may continue on the next page


class Scanner:
    """Scans one table."""

    def __init__(
        self, table: Table, layout: Layout, clock: Clock, find_run: Callable[[str], RunSummary | None]
    ) -> None:
        self._table = table
        self._layout = layout
        self._clock = clock
        self._find_run = find_run

    def all_runs(self) -> list[RunSummary]:
        """Every run in the table, newest first. Reads the whole table."""
        found = _Found()
        for page in self._pages():
            self._fold(page, found)
        return _newest_first(found.runs.values())

    def unlisted(self, max_pages: int) -> UnlistedRuns:
        """The runs without an entry, newest first, from at most so many pages of 1 MB."""
        found, is_whole = _Found(), False
        for number, page in enumerate(self._pages(), start=1):
            self._fold(page, found)
            is_whole = page.next is None
            if number == max_pages:
                break
        runs = {run_id: run for run_id, run in found.runs.items() if run_id not in found.listed}
        if not is_whole and found.last_run in runs:
            whole = self._find_run(found.last_run)
            runs |= {} if whole is None else {found.last_run: whole}
        return UnlistedRuns(_newest_first(runs.values()), is_whole=is_whole)

    def _pages(self) -> Iterator[ItemPage]:
        names: dict[str, str] = {}
        wanted = dict.fromkeys((*self._layout.types, self._layout.directory.run_id))
        projection = ", ".join(_path(path, names) for path in wanted)
        start: AttributeMap | None = None
        while True:
            answer = self._table.scan(names=names, projection=projection, start=start)
            yield answer
            start = answer.next
            if start is None:
                return

    def _fold(self, page: ItemPage, found: _Found) -> None:
        now, events = self._clock.now_ms() // 1000, list[Event]()
        for item in page.items:
            run_id = self._layout.run_of(item)
            if run_id is None:
                found.listed.add(text_in(item, self._layout.directory.run_id) or "")
                continue
            if self._layout.directory.marker in item:
                found.listed.add(run_id)
            event = self._layout.stored(item, run_id).event
            if event.ttl is None or event.ttl > now:  # DynamoDB deletes expired items up to days late
                events.append(event)
            found.last_run = run_id
        for run_id, part in summarise(events).items():
            found.runs[run_id] = found.runs[run_id].merged(part) if run_id in found.runs else part


def _newest_first(runs: Iterable[RunSummary]) -> list[RunSummary]:
    return sorted(runs, key=lambda run: (run.started_at, run.run_id), reverse=True)


def _path(path: str, names: dict[str, str]) -> str:
    """A path of attribute names as an expression; many of the names are reserved words."""
    parts = []
    for name in path.split("."):
        names[f"#{name}"] = name
        parts.append(f"#{name}")
    return ".".join(parts)

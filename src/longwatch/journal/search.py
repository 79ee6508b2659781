"""Full-text search over the events of all runs, or of some.

On SQLite an index answers, the latest event first. The other journals are read run by run, the newest run
first and its events in their order, so the query has to name a run or to span at most a day.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import InvalidCursor, InvalidInput, JournalUnusable, SearchTooWide
from longwatch.journal.base import Journal
from longwatch.journal.sqlite.journal import SqliteJournal
from longwatch.journal.sqlite.search_index import SearchIndex
from longwatch.journal.views import StatusWord
from longwatch.model.event import START, Cursor, Event
from longwatch.model.json_schema import STRICT, JsonSchema
from longwatch.model.run import RunSummary
from longwatch.model.run_query import RunQuery
from longwatch.model.run_terms import TextTerm
from longwatch.model.text_search import ExcerptPart, event_text, excerpt, find_phrases, words_of

DAY_MS = 24 * 3600 * 1000
ELAPSED_MS = 10 * 60_000  # at most, since the `since:1d` of the query was evaluated
MAX_CATCH_UP = 200_000  # events that one search indexes first
NO_INDEX = "This journal has no full-text index. Search one run (run:ID) or at most one day (since:1d)."

Position = tuple[str | int | None, ...]  # of an event in the order of a search
Candidate = tuple[Position, Event, RunSummary | None]  # None: the query does not select its run


@dataclass(frozen=True, slots=True)
class SearchHit:
    """An event that has the words, its run, and the text around them."""

    event: Event
    run: RunSummary
    excerpt: Sequence[ExcerptPart]


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Events that were found. A page may have fewer than wanted; only no cursor is the end."""

    hits: Sequence[SearchHit]
    cursor: Cursor | None = None
    unindexed: int = 0  # events that were not searched yet


@dataclass(frozen=True, kw_only=True)
class ExcerptPartView:
    """A part of the text around a match."""

    __pydantic_config__ = STRICT

    text: str
    is_match: bool


@dataclass(frozen=True, kw_only=True)
class SearchHitView:
    """An event that a search found. Times are epoch ms."""

    __pydantic_config__ = STRICT

    run_id: str
    run_name: str | None
    run_kind: str
    run_status: StatusWord
    event_id: str
    type: str
    occurred_at: int
    agent_name: str | None
    call_id: str | None
    excerpt: list[ExcerptPartView]

    @classmethod
    def of(cls, hit: SearchHit) -> SearchHitView:
        event, run = hit.event, hit.run
        return cls(
            run_id=event.run_id,
            run_name=run.name,
            run_kind=run.kind,
            run_status=run.status.value,
            event_id=event.event_id,
            type=event.type,
            occurred_at=event.occurred_at,
            agent_name=event.agent_name,
            call_id=event.call_id,
            excerpt=[ExcerptPartView(text=part.text, is_match=part.is_match) for part in hit.excerpt],
        )


@dataclass(frozen=True, kw_only=True)
class SearchResults:
    """A page of events that a search found."""

    __pydantic_config__ = STRICT

    hits: list[SearchHitView]
    cursor: Annotated[str | None, JsonSchema("For `after`; null at the end.")]
    unindexed: Annotated[int, JsonSchema("Events that have arrived and were not searched yet.")]


def search_events(
    journal: Journal,
    query: RunQuery,
    *,
    limit: int,
    after: Cursor | None = None,
    clock: Clock = SYSTEM_CLOCK,
    max_catch_up: int = MAX_CATCH_UP,
    max_examined: int | None = None,
) -> SearchPage:
    """The events with all words of the query, in the runs that its other terms select.

    A page ends early after `max_examined` events, so that a request takes a bounded time.
    """
    runs, phrases = split_query(query)
    if not phrases:
        raise InvalidInput("A search needs at least one word. To list runs, use `longwatch runs`.")
    indexed = isinstance(journal, SqliteJournal)
    start = _position_of(after, (int,) if indexed else (str | None, str, str, int))
    if not isinstance(journal, SqliteJournal):
        _refuse_too_wide(runs, clock.now_ms())
        return _take(_scan(journal, runs, start), phrases, limit, max_examined)
    index = SearchIndex(journal, journal.path, clock=clock)

    def search() -> SearchPage:
        unindexed = index.catch_up(max_events=max_catch_up)
        found = index.find(phrases, before=start[0] if start else None)
        page = _take(_with_runs(journal, runs, found), phrases, limit, max_examined)
        return replace(page, unindexed=unindexed)

    try:
        return search()
    except JournalUnusable:  # the index is damaged or is not one
        index.discard()
        return search()
    finally:
        index.close()


def split_query(query: RunQuery) -> tuple[RunQuery, list[tuple[str, ...]]]:
    """The query without its words, and the words as phrases."""
    words = [term for term in query.terms if isinstance(term, TextTerm) and term.field == "text"]
    if any(term.is_negated for term in words):
        raise InvalidInput("Words of a search cannot be negated; fields can, as in -status:failed.")
    phrases = [words_of(value) for term in words for value in term.values]
    others = tuple(term for term in query.terms if term not in words)
    return replace(query, terms=others), [phrase for phrase in phrases if phrase]


def _position_of(cursor: Cursor | None, types: Sequence[Any]) -> Any:
    """The position that a cursor names; None: the start."""
    if cursor is None:
        return None
    try:
        position = json.loads(cursor)
    except ValueError:
        position = None
    if (
        not isinstance(position, list)
        or len(position) != len(types)
        or not all(
            isinstance(each, type_) and not isinstance(each, bool)
            for each, type_ in zip(position, types, strict=True)
        )
        or any(isinstance(each, int) and not 0 <= each < 2**63 for each in position)
    ):
        raise InvalidCursor(f"Invalid cursor {cursor[:100]!r} for a search. Search from the start instead.")
    return position


def _with_runs(journal: Journal, query: RunQuery, found: Iterator[tuple[int, Event]]) -> Iterator[Candidate]:
    known: dict[str, RunSummary | None] = {}
    for position, event in found:
        if event.run_id not in known:
            run = journal.find_run(event.run_id)
            known[event.run_id] = run if run is not None and query.accepts(run) else None
        yield (position,), event, known[event.run_id]


def _refuse_too_wide(runs: RunQuery, now_ms: int) -> None:
    names_run = any(
        isinstance(term, TextTerm) and term.field == "run" and not term.is_negated for term in runs.terms
    )
    until = now_ms - ELAPSED_MS if runs.until is None else runs.until
    spans_day = runs.since is not None and until - runs.since <= DAY_MS
    if not names_run and not spans_day:
        raise SearchTooWide(NO_INDEX)


def _scan(journal: Journal, query: RunQuery, start: Any) -> Iterator[Candidate]:
    """The events of the selected runs, from a position: list cursor, run, read cursor, events after it."""
    listed, resumed, read, skip = start or (None, None, START, 0)
    while True:
        runs = journal.find_runs(query, after=listed)
        for run in runs.runs:
            if resumed is not None and run.run_id != resumed:
                continue  # before the run that the last page ended in
            more, resumed = True, None
            while more:
                page = journal.read(run.run_id, after=read)
                for number, event in enumerate(page.events[skip:], skip + 1):
                    yield (listed, run.run_id, read, number), event, run
                read, skip, more = page.cursor, 0, page.more
            read = START
        listed = runs.cursor
        if listed is None:
            return


def _take(
    found: Iterator[Candidate], phrases: Sequence[Sequence[str]], limit: int, max_examined: int | None
) -> SearchPage:
    hits: list[SearchHit] = []
    last: Position | None = None  # of the last hit, or of the last event that was examined
    for examined, (position, event, run) in enumerate(found):
        if examined == max_examined:
            return SearchPage(hits, _cursor(last))
        text = event_text(event) if run is not None else ""
        spans = find_phrases(text, phrases)
        if run is not None and spans:
            if len(hits) == limit:
                return SearchPage(hits, _cursor(last))
            hits.append(SearchHit(event, run, excerpt(text, spans)))
        last = position
    return SearchPage(hits)


def _cursor(position: Position | None) -> Cursor:
    return Cursor(json.dumps(position, separators=(",", ":")))

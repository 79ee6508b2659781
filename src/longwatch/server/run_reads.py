"""Reads of runs that the API and the tools for agents share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from longwatch.errors import RunNotFound
from longwatch.journal.base import Arrivals
from longwatch.journal.comparison import MAX_ROWS, ComparisonView, compare_runs
from longwatch.journal.deletions import find_tombstone
from longwatch.journal.search import SearchHit, SearchHitView, SearchResults, search_events
from longwatch.journal.verify import Verification, Verifier
from longwatch.journal.views import VerificationView
from longwatch.model.event import Cursor
from longwatch.model.query_language import parse_query
from longwatch.model.run import RunSummary
from longwatch.server.cache.rendered_responses import all_events
from longwatch.server.context import ServerContext

MAX_CATCH_UP = 10_000  # events that one search indexes first; the rest is indexed in the background
MAX_EXAMINED = 10_000  # events that one search reads


async def existing_run(context: ServerContext, run_id: str) -> RunSummary:
    """The run, or the error that it is unknown or was deleted."""
    found = await context.async_journal.find_run(run_id)
    if found is None:
        stone = await context.call(find_tombstone, context.journal, run_id)
        raise run_not_found(run_id) if stone is None else stone.error
    return found


def run_not_found(run_id: str) -> RunNotFound:
    return RunNotFound(f"No run {run_id[:100]!r}. GET /api/runs lists the runs.")


async def verify_run(context: ServerContext, run_id: str) -> VerificationView:
    """Whether every event of a run is stored as it was written; of a deleted run, its tombstone."""
    stone = await context.call(find_tombstone, context.journal, run_id)
    if stone is not None:
        return VerificationView.of(run_id, Verification.of_deleted(stone))
    found = await existing_run(context, run_id)
    verifier = Verifier()
    async for events in all_events(context, run_id):
        for event in events:
            verifier.add(event)
    report = verifier.report(
        context.clock.now_ms(),
        started_at=found.started_at,
        expired_before=found.expired_before,
        counted=found.events if isinstance(context.journal, Arrivals) else None,
    )
    return VerificationView.of(run_id, report)


def compare(
    context: ServerContext, runs: Sequence[RunSummary], *, max_rows: int = MAX_ROWS
) -> ComparisonView:
    """Two runs side by side, with their status at this moment. Blocking."""
    observed = context.observer.observed(runs)
    found = compare_runs(context.journal, observed[0].run, observed[1].run)
    return ComparisonView.of(
        found, now_ms=context.clock.now_ms(), prices=context.prices.current(), max_rows=max_rows
    )


def search(context: ServerContext, query: str, *, limit: int, after: Cursor | None) -> SearchResults:
    """A page of the events that have the words of the query. Blocking, for a bounded time."""
    page = search_events(
        context.journal,
        parse_query(query, now_ms=context.clock.now_ms()),
        limit=limit,
        after=after,
        clock=context.clock,
        max_catch_up=MAX_CATCH_UP,
        max_examined=MAX_EXAMINED,
    )
    views = [SearchHitView.of(hit) for hit in _observed(context, page.hits)]
    return SearchResults(hits=views, cursor=page.cursor, unindexed=page.unindexed)


def _observed(context: ServerContext, hits: Sequence[SearchHit]) -> list[SearchHit]:
    """The hits with the status of their runs at this moment."""
    runs = {hit.run.run_id: hit.run for hit in hits}
    now = {each.run.run_id: each.run for each in context.observer.observed(list(runs.values()))}
    return [replace(hit, run=now[hit.run.run_id]) for hit in hits]

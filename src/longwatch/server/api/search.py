"""Search: full text over the events of all runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from longwatch.journal.search import SearchHit, SearchHitView, SearchResults, search_events
from longwatch.model.query_language import MAX_QUERY_CHARACTERS, parse_query
from longwatch.server.api.openapi import json_responses
from longwatch.server.api.parameters import After, ContextDep, PageLimit, cursor_of
from longwatch.server.context import ServerContext
from longwatch.server.responses import json_response

MAX_CATCH_UP = 10_000  # events that one request indexes first; the rest is indexed in the background
MAX_EXAMINED = 10_000  # events that one request reads

router = APIRouter(prefix="/api/search", tags=["runs"])


@router.get("", response_class=Response, responses=json_responses(SearchResults, description="Found events."))
async def search(
    context: ContextDep,
    q: Annotated[
        str,
        Query(
            max_length=MAX_QUERY_CHARACTERS,
            description="Words, and terms that select the runs, such as `timeout status:failed since:2d`.",
        ),
    ],
    limit: Annotated[PageLimit, Query()] = 50,
    after: After = "",
) -> Response:
    """Search the text of the events of all runs, the latest first.

    All words must be in one event. A page may have fewer hits than `limit`; only a null `cursor` is the end.
    A DynamoDB table has no index: search one run (`run:ID`) or at most one day (`since:1d`).
    """
    page = await context.call(
        search_events,
        context.journal,
        parse_query(q, now_ms=context.clock.now_ms()),
        limit=limit,
        after=cursor_of(after) if after else None,
        clock=context.clock,
        max_catch_up=MAX_CATCH_UP,
        max_examined=MAX_EXAMINED,
    )
    hits = await _observed(context, page.hits)
    views = [SearchHitView.of(hit) for hit in hits]
    return json_response(SearchResults(hits=views, cursor=page.cursor, unindexed=page.unindexed))


async def _observed(context: ServerContext, hits: Sequence[SearchHit]) -> list[SearchHit]:
    """The hits with the status of their runs at this moment."""
    runs = {hit.run.run_id: hit.run for hit in hits}
    observed = await context.call(context.observer.observed, list(runs.values()))
    now = {each.run.run_id: each.run for each in observed}
    return [replace(hit, run=now[hit.run.run_id]) for hit in hits]

"""Search: full text over the events of all runs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from longwatch.journal.search import SearchResults
from longwatch.model.query_language import MAX_QUERY_CHARACTERS
from longwatch.server import run_reads
from longwatch.server.api.openapi import json_responses
from longwatch.server.api.parameters import After, ContextDep, PageLimit, cursor_of
from longwatch.server.responses import json_response

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
    found = await context.call(
        run_reads.search, context, q, limit=limit, after=cursor_of(after) if after else None
    )
    return json_response(found)

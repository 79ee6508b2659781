"""Compare: two runs side by side."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from longwatch.errors import RunNotFound
from longwatch.journal.comparison import ComparisonView, compare_runs
from longwatch.model.event import MAX_RUN_ID_BYTES
from longwatch.server.api.openapi import json_responses
from longwatch.server.api.parameters import ContextDep
from longwatch.server.context import ServerContext
from longwatch.server.responses import json_response

router = APIRouter(prefix="/api/compare", tags=["runs"])

RunIdQuery = Annotated[str, Query(description="The ID of a run.", min_length=1, max_length=MAX_RUN_ID_BYTES)]


@router.get(
    "", response_class=Response, responses=json_responses(ComparisonView, 404, description="Both runs.")
)
async def compare(context: ContextDep, a: RunIdQuery, b: RunIdQuery) -> Response:
    """Compare two runs: their calls aligned by structure, with times, tokens and what differs.

    Of runs with more than 2,000 calls together, `rows` has the calls that differ, and their callers.
    """
    view = await context.call(_compare, context, a, b)
    return json_response(view)


def _compare(context: ServerContext, a: str, b: str) -> ComparisonView:
    runs = [context.journal.find_run(run_id) for run_id in (a, b)]
    for run_id, run in zip((a, b), runs, strict=True):
        if run is None:
            raise RunNotFound(f"No run {run_id[:100]!r}. GET /api/runs lists the runs.")
    observed = context.observer.observed([run for run in runs if run is not None])
    found = compare_runs(context.journal, observed[0].run, observed[1].run)
    return ComparisonView.of(found, now_ms=context.clock.now_ms(), prices=context.prices.current())

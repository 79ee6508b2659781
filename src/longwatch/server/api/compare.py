"""Compare: two runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from longwatch.journal.comparison import ComparisonView, compare_runs
from longwatch.model.event import MAX_RUN_ID_BYTES
from longwatch.model.run import RunSummary
from longwatch.server.api.openapi import json_responses
from longwatch.server.api.parameters import ContextDep
from longwatch.server.api.runs import existing_run
from longwatch.server.context import ServerContext
from longwatch.server.responses import json_response

router = APIRouter(prefix="/api/compare", tags=["runs"])

RunIdQuery = Annotated[str, Query(description="The ID of a run.", min_length=1, max_length=MAX_RUN_ID_BYTES)]


@router.get(
    "", response_class=Response, responses=json_responses(ComparisonView, 404, 410, description="Both runs.")
)
async def compare(context: ContextDep, a: RunIdQuery, b: RunIdQuery) -> Response:
    """Compare two runs: their calls aligned by structure, with times, tokens and what differs.

    Of runs with more than 2,000 calls together, `rows` has the calls that differ, and their callers.
    """
    runs = [await existing_run(context, run_id) for run_id in (a, b)]
    return json_response(await context.call(_compare, context, runs))


def _compare(context: ServerContext, runs: Sequence[RunSummary]) -> ComparisonView:
    observed = context.observer.observed(runs)
    found = compare_runs(context.journal, observed[0].run, observed[1].run)
    return ComparisonView.of(found, now_ms=context.clock.now_ms(), prices=context.prices.current())

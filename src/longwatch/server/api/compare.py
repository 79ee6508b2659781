"""Compare: two runs side by side."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from longwatch.journal.comparison import ComparisonView
from longwatch.model.event import MAX_RUN_ID_BYTES
from longwatch.server import run_reads
from longwatch.server.api.openapi import json_responses
from longwatch.server.api.parameters import ContextDep
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
    runs = [await run_reads.existing_run(context, run_id) for run_id in (a, b)]
    return json_response(await context.call(run_reads.compare, context, runs))

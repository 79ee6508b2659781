"""Whether the server and its journal answer. Needs no token, so an answer of the journal holds for a second.

A request that finds the journal unavailable ends that second: the health check never contradicts it.
"""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.responses import Response

from longwatch.server.answers import json_answer
from longwatch.server.described import plain
from longwatch.server.parameters import ContextDep
from longwatch.server.schemas import HealthShape

HOLDS_SECONDS = 1.0


def health_routes() -> APIRouter:
    """The route, with its memory of the last answer."""
    router = APIRouter()
    asked, failures = -HOLDS_SECONDS, 0

    @router.get("/api/health", tags=["server"], response_class=Response, responses=plain(HealthShape))
    async def health(context: ContextDep) -> Response:
        """Tell that the server runs and that its journal answers; 503 if that does not."""
        nonlocal asked, failures
        now, failed = asyncio.get_running_loop().time(), context.traffic.journal_failures
        if now >= asked + HOLDS_SECONDS or failed != failures:
            await context.async_journal.find_runs(limit=1)
            asked, failures = now, failed
        scheme = context.journal.url.partition(":")[0]
        return json_answer({"status": "ok", "journal": scheme}, headers={"Cache-Control": "no-store"})

    return router

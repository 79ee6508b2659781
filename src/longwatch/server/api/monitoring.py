"""Health and metrics. Health needs no token, so a response of the journal is reused for a second.

A request that finds the journal unavailable ends that second: the health check never contradicts it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from fastapi import APIRouter
from starlette.responses import Response

from longwatch.model.json_schema import STRICT
from longwatch.server.api.openapi import json_responses
from longwatch.server.api.parameters import ContextDep
from longwatch.server.context import ServerContext
from longwatch.server.responses import json_response

if TYPE_CHECKING:
    from prometheus_client.core import Metric

HOLDS_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Health:
    """The server runs and its journal responds."""

    __pydantic_config__ = STRICT

    status: Literal["ok"]
    journal: str


def health_routes() -> APIRouter:
    """The route, with its memory of the last answer."""
    router = APIRouter()
    asked, failures = -HOLDS_SECONDS, 0

    @router.get("/api/health", tags=["server"], response_class=Response, responses=json_responses(Health))
    async def health(context: ContextDep) -> Response:
        """Tell that the server runs and that its journal answers; 503 if that does not."""
        nonlocal asked, failures
        now, failed = asyncio.get_running_loop().time(), context.traffic.journal_failures
        if now >= asked + HOLDS_SECONDS or failed != failures:
            await context.async_journal.find_runs(limit=1)
            asked, failures = now, failed
        scheme = context.journal.url.partition(":")[0]
        return json_response(Health(status="ok", journal=scheme), headers={"Cache-Control": "no-store"})

    return router


MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

router = APIRouter()


def is_possible() -> bool:
    """Whether the extra `metrics` is installed."""
    return find_spec("prometheus_client") is not None


@router.get("/metrics", include_in_schema=False, response_class=Response)
async def metrics(context: ContextDep) -> Response:
    """What Prometheus asks for."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(context))
    return Response(generate_latest(registry), media_type=MEDIA_TYPE, headers={"Cache-Control": "no-store"})


class _Collected:
    """The numbers as they are when they are asked for."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        context, traffic = self._context, self._context.traffic
        yield CounterMetricFamily("longwatch_requests", "Requests that came in.", traffic.requests)
        yield CounterMetricFamily("longwatch_refused", "Requests that the guard refused.", traffic.refused)
        yield CounterMetricFamily(
            "longwatch_journal_failures",
            "Requests that found the journal unavailable.",
            traffic.journal_failures,
        )
        yield GaugeMetricFamily("longwatch_streams", "Streams, sockets and long polls open.", traffic.held)
        yield GaugeMetricFamily("longwatch_followers", "Who follows a run.", context.hub.followers)
        yield GaugeMetricFamily("longwatch_followed_runs", "Runs followed live.", context.hub.runs)
        yield GaugeMetricFamily("longwatch_board_runs", "Runs on the board.", len(context.run_cache))

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
    """The route, which remembers its last check of the journal."""
    router = APIRouter()
    checked_at, failures = -HOLDS_SECONDS, 0

    @router.get("/api/health", tags=["server"], response_class=Response, responses=json_responses(Health))
    async def health(context: ContextDep) -> Response:
        """Check that the server runs and its journal responds; 503 if the journal does not."""
        nonlocal checked_at, failures
        now, failed = asyncio.get_running_loop().time(), context.traffic.journal_failures
        if now >= checked_at + HOLDS_SECONDS or failed != failures:
            await context.async_journal.find_runs(limit=1)
            checked_at, failures = now, failed
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
    """Metrics in the format of Prometheus."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(context))
    return Response(generate_latest(registry), media_type=MEDIA_TYPE, headers={"Cache-Control": "no-store"})


class _Collected:
    """Reads the numbers when Prometheus collects them."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        context, traffic = self._context, self._context.traffic
        yield CounterMetricFamily("longwatch_requests", "Requests received.", traffic.requests)
        yield CounterMetricFamily("longwatch_refused", "Requests that the guard rejected.", traffic.refused)
        yield CounterMetricFamily(
            "longwatch_journal_failures",
            "Requests that found the journal unavailable.",
            traffic.journal_failures,
        )
        yield GaugeMetricFamily("longwatch_streams", "Open streams, sockets and long polls.", traffic.held)
        yield GaugeMetricFamily("longwatch_followers", "Followers of runs.", context.hub.followers)
        yield GaugeMetricFamily("longwatch_followed_runs", "Runs followed live.", context.hub.runs)
        yield GaugeMetricFamily("longwatch_board_runs", "Runs in the run cache.", len(context.run_cache))

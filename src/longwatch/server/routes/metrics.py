"""`/metrics` for Prometheus, where its client is installed: how much is asked, held and followed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.responses import Response

from longwatch.server.context import ServerContext
from longwatch.server.parameters import ContextDep

if TYPE_CHECKING:
    from prometheus_client.core import Metric

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
        yield GaugeMetricFamily("longwatch_board_runs", "Runs on the board.", len(context.board))

"""OTLP/HTTP: spans and log events in protobuf or JSON. Errors are a `Status` in the same form."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from longwatch.server.api.openapi import otlp_responses
from longwatch.server.api.parameters import ContextDep
from longwatch.server.context import ServerContext
from longwatch.server.responses import REVALIDATE
from longwatch.server.telemetry_intake import ExportOutcome, decompress, media_type_of
from longwatch.telemetry.otlp_responses import JSON_TYPE, PROTOBUF_TYPE, encode_status, encode_success

TRACES, LOGS, METRICS = "/v1/traces", "/v1/logs", "/v1/metrics"
PATHS = frozenset({TRACES, LOGS, METRICS})

router = APIRouter(tags=["telemetry"])


def _body(request: str, outer: str) -> dict[str, Any]:
    """The two forms of a request's body."""
    body = {"type": "object", "properties": {outer: {"type": "array", "items": {"type": "object"}}}}
    binary = {"type": "string", "format": "binary", "description": f"An `{request}`."}
    content = {JSON_TYPE: {"schema": body}, PROTOBUF_TYPE: {"schema": binary}}
    return {"requestBody": {"required": True, "content": content}}


@router.post(
    TRACES,
    response_class=Response,
    responses=otlp_responses("rejectedSpans"),
    openapi_extra=_body("ExportTraceServiceRequest", "resourceSpans"),
)
async def export_traces(context: ContextDep, request: Request) -> Response:
    """Record spans of agents, tools and models. Sending a batch again stores nothing new."""
    media_type, body = await _read(context, request)
    outcome = await context.call(
        context.telemetry.store_traces, body, media_type, now_ms=context.clock.now_ms()
    )
    return await _respond(context, media_type, outcome, field="rejectedSpans")


@router.post(
    LOGS,
    response_class=Response,
    responses=otlp_responses("rejectedLogRecords"),
    openapi_extra=_body("ExportLogsServiceRequest", "resourceLogs"),
)
async def export_logs(context: ContextDep, request: Request) -> Response:
    """Record the log events of coding agents. Records of other programs are accepted and not stored."""
    media_type, body = await _read(context, request)
    outcome = await context.call(
        context.telemetry.store_logs, body, media_type, now_ms=context.clock.now_ms()
    )
    return await _respond(context, media_type, outcome, field="rejectedLogRecords")


@router.post(
    METRICS,
    response_class=Response,
    responses=otlp_responses("rejectedDataPoints"),
    openapi_extra=_body("ExportMetricsServiceRequest", "resourceMetrics"),
)
async def export_metrics(context: ContextDep, request: Request) -> Response:
    """Reject metrics in a partial success, so that exporters that send everything report no error."""
    media_type, body = await _read(context, request)
    outcome = await context.call(context.telemetry.reject_metrics, body, media_type)
    return await _respond(context, media_type, outcome, field="rejectedDataPoints")


async def _read(context: ServerContext, request: Request) -> tuple[str, bytes]:
    media_type = media_type_of(request.headers.get("content-type", ""))
    encoding = request.headers.get("content-encoding", "")
    body = await request.body()
    if encoding:
        body = await context.call(decompress, body, encoding, most=context.limits.decompressed_bytes)
    return media_type, body


async def _respond(
    context: ServerContext, media_type: str, outcome: ExportOutcome, *, field: str
) -> Response:
    for run_id in outcome.run_ids:
        await context.run_cache.catch_up(run_id)
    body = encode_success(media_type, outcome.rejected, outcome.message, field=field)
    return Response(body, headers={"Cache-Control": REVALIDATE}, media_type=media_type)


class OtlpErrors:
    """Turns every error response to an OTLP request into a `Status`, also those of the guard."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] not in PATHS or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        start: Message | None = None
        parts: list[bytes] = []

        async def translate(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and message["status"] >= 400:
                start = message
            elif start is None:
                await send(message)
            else:
                parts.append(message.get("body", b""))
                if not message.get("more_body", False):
                    await _send_status(scope, start, b"".join(parts), send)

        await self._app(scope, receive, translate)


async def _send_status(scope: Scope, start: Message, body: bytes, send: Send) -> None:
    content_type = Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower()
    media_type = PROTOBUF_TYPE if content_type == PROTOBUF_TYPE else JSON_TYPE
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = body[:500].decode(errors="replace")
    status = encode_status(media_type, start["status"], message)
    kept = [each for each in start["headers"] if each[0].lower() not in (b"content-type", b"content-length")]
    kept += [(b"content-type", media_type.encode()), (b"content-length", str(len(status)).encode())]
    await send({**start, "headers": kept})
    await send({"type": "http.response.body", "body": status})

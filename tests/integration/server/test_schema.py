"""The whole API against its own schema: nothing undocumented and nothing that breaks, whatever is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis
import requests
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.generation.modes import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.types import ASGIApp, Receive, Scope, Send

from longwatch.server.access.limits import ServerLimits
from longwatch.server.access.origins import Hosts
from longwatch.server.app import create_app
from longwatch.server.context import open_context
from tests.integration.server.stores import Stores
from tests.patience import PATIENCE_SECONDS

EXAMPLES = 10  # of each operation
STREAM_SECONDS = 1.0  # for a stream that never ends
OF_HTTP = {"content-type", "content-length", "date", "transfer-encoding"}
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
LIMITS = ServerLimits(writes_per_second=1e6, writes_at_once=1_000_000, wait_seconds=0.02)

schemathesis.serializer.alias("application/x-ndjson", "text/plain")


def application(stores: Stores) -> ASGIApp:
    """A server that opens its parts when its lifespan begins, in the event loop that runs it."""
    inner: ASGIApp | None = None

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal inner
        if scope["type"] != "lifespan":
            assert inner is not None
            await inner(scope, receive, send)
            return
        await receive()
        hosts = Hosts.of("127.0.0.1", allow_hosts=("testserver",))
        with stores.opened() as (journal, documents):
            async with open_context(journal, documents, limits=LIMITS, hosts=hosts) as context:
                inner = create_app(context)
                await send({"type": "lifespan.startup.complete"})
                await receive()
        await send({"type": "lifespan.shutdown.complete"})

    return app


def test_every_response_is_one_that_the_schema_promises(tmp_path: Path) -> None:
    api = schemathesis.openapi.from_asgi("/openapi.json", application(Stores(file=tmp_path / "server.db")))
    operations = [found.ok() for found in api.get_all_operations()]  # type: ignore[union-attr]

    for operation in operations:
        fuzz(operation)

    assert len(operations) > 25


def undocumented_headers(operation: Any, response: Any) -> set[str]:
    """The headers of a response that the schema does not name, except those of HTTP itself."""
    described = responses_of(operation)[str(response.status_code)]
    named = {name.lower() for name in described.get("headers", {})}
    return {name.lower() for name in response.headers} - named - OF_HTTP


def media_types(operation: Any) -> set[str]:
    """Of all its responses."""
    return {
        media_type
        for described in responses_of(operation).values()
        for media_type in described.get("content", ())
    }


def responses_of(operation: Any) -> dict[str, Any]:
    """The responses that the schema describes, by status code."""
    path = operation.schema.raw_schema["paths"][operation.path]
    responses: dict[str, Any] = path[operation.method.lower()]["responses"]
    return responses


def respond(case: Any, *, streams: bool) -> Any:
    """The response to a case, and the beginning of a stream that does not end."""
    if not streams:
        return case.call(timeout=PATIENCE_SECONDS)
    try:
        return case.call(timeout=STREAM_SECONDS)
    except requests.exceptions.ReadTimeout:  # on a loaded machine it had not begun
        return case.call(timeout=PATIENCE_SECONDS / 4)


def fuzz(operation: Any) -> None:
    """Send what the schema allows and what it does not, and check the responses against the schema."""
    streams = "text/event-stream" in media_types(operation)

    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(
        case=operation.as_strategy() | operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
    )
    def send(case: Any) -> None:
        response = respond(case, streams=streams)
        case.validate_response(response, checks=CHECKS)
        assert undocumented_headers(operation, response) == set()

    send()

"""GraphQL over HTTP: queries by GET and POST, and the schema. Imports the library with the first request."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import ConfigDict, Field
from starlette.responses import PlainTextResponse, Response

from longwatch.errors import MissingExtra
from longwatch.server.api.openapi import CACHE_HEADER, ETAG_HEADER, WITH_BODY, error_responses
from longwatch.server.api.parameters import ContextDep, IfNoneMatch, RequestBody
from longwatch.server.context import ServerContext
from longwatch.server.errors import ApiError
from longwatch.server.live.feed import Feed
from longwatch.server.responses import (
    JSON_TYPE,
    REVALIDATE,
    bytes_response,
    matches,
    not_modified,
    to_json,
    weak_etag,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from strawberry.types import ExecutionResult

PATH = "/graphql"
SDL_PATH = "/graphql/schema.graphql"
RESPONSE_TYPE = "application/graphql-response+json"
MAX_QUERY = 100_000  # characters

router = APIRouter(tags=["graphql"])


class GraphqlRequest(RequestBody):
    """A query, with the values of its variables."""

    model_config = ConfigDict(extra="ignore")  # clients add fields of their own

    query: str = Field(min_length=1, max_length=MAX_QUERY)
    operationName: str | None = None
    variables: dict[str, Any] | None = None
    extensions: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class GraphqlResponse:
    """The selected fields, and errors with a `code` in their `extensions`."""

    data: dict[str, Any] | None = None
    errors: list[dict[str, Any]] = field(default_factory=list)


RESPONSES = {
    200: {
        "model": GraphqlResponse,
        "description": "The response to a well-formed request, also if the query is invalid.",
        "headers": {"ETag": ETAG_HEADER, "Cache-Control": CACHE_HEADER},
    },
    **error_responses(406),
}


@router.get(
    PATH,
    response_class=Response,
    responses={**RESPONSES, 304: {"description": "Unchanged since `If-None-Match`."}},
)
async def query_by_get(
    context: ContextDep,
    request: Request,
    query: Annotated[str, Query(max_length=MAX_QUERY, description="A GraphQL query.")] = "",
    operation_name: Annotated[
        str, Query(alias="operationName", description="Which of several operations to execute.")
    ] = "",
    variables: Annotated[str, Query(description="The values of its variables, as JSON.")] = "",
    if_none_match: IfNoneMatch = "",
) -> Response:
    """Query selected fields of runs, calls, events, sessions, turns, files and executions."""
    if not query:
        raise ApiError(
            400,
            "no_query",
            f'No query. Send one as `query`, or POST {{"query": …}}. GET {SDL_PATH} returns the schema.',
        )
    wanted = GraphqlRequest(
        query=query, operationName=operation_name or None, variables=_read_variables(variables)
    )
    return await _respond(context, request, wanted, if_none_match)


@router.post(PATH, response_class=Response, responses={**RESPONSES, **error_responses(*WITH_BODY, 406, 415)})
async def query_by_post(context: ContextDep, request: Request, wanted: GraphqlRequest) -> Response:
    """Query selected fields of runs, calls, events, sessions, turns, files and executions."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != JSON_TYPE:
        raise ApiError(
            415, "unsupported_media_type", f"Unsupported content type {media_type[:80]!r}. Send {JSON_TYPE}."
        )
    return await _respond(context, request, wanted)


@router.get(
    SDL_PATH,
    response_class=PlainTextResponse,
    responses={
        200: {
            "description": "The schema.",
            "content": {"text/plain": {}},
            "headers": {"Cache-Control": CACHE_HEADER},
        },
        **error_responses(),
    },
)
async def schema_text(context: ContextDep) -> Response:
    """Show the GraphQL schema in its definition language."""
    require_library()

    def text() -> str:
        from longwatch.server.graphql.schema import load_schema

        return str(load_schema())

    headers = {"Cache-Control": REVALIDATE}
    return PlainTextResponse(await context.call(text) + "\n", headers=headers)


def require_library() -> None:
    """Raise the error that names the missing extra."""
    if find_spec("strawberry") is None:
        raise MissingExtra("GraphQL", "graphql")


def _read_variables(text: str) -> dict[str, Any] | None:
    if not text:
        return None
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, "not_json", "`variables` is not valid JSON. Send one JSON object.") from error
    if found is not None and not isinstance(found, dict):
        raise ApiError(400, "not_json", "`variables` is not a JSON object.")
    return found


async def _respond(
    context: ServerContext, request: Request, wanted: GraphqlRequest, if_none_match: str = ""
) -> Response:
    media_type = choose_type(request.headers.get("accept", ""))
    result = await _execute(context, request, wanted)
    body: dict[str, Any] = {"data": result.data} if result.data is not None or not result.errors else {}
    if result.errors:
        body["errors"] = [error.formatted for error in result.errors]
    is_refused = "data" not in body and _is_before_execution(result)
    if not is_refused and "data" not in body:
        body = {"data": None, **body}
    content = await context.call(to_json, body)
    status = 400 if is_refused and media_type == RESPONSE_TYPE else 200
    etag = weak_etag(content) if request.method == "GET" and status == 200 else None
    if etag is not None and matches(if_none_match, etag):
        return not_modified(etag)
    return bytes_response(content, media_type, status=status, etag=etag)


async def _execute(context: ServerContext, request: Request, wanted: GraphqlRequest) -> ExecutionResult:
    require_library()
    execute = await context.call(_load)
    return await execute(context, request.app.state.feed, wanted)


def _load() -> Callable[[ServerContext, Feed, GraphqlRequest], Awaitable[ExecutionResult]]:
    """The library and the schema take a second to load."""
    from longwatch.server.graphql.execution import execute
    from longwatch.server.graphql.schema import load_schema

    load_schema()
    return execute


def _is_before_execution(result: ExecutionResult) -> bool:
    from strawberry.types.execution import PreExecutionError

    return isinstance(result, PreExecutionError)


def choose_type(accept: str) -> str:
    """The media type of a response: the one of GraphQL if the client names it, else JSON."""
    kinds = [each.partition(";")[0].strip().lower() for each in accept.split(",") if each.strip()]
    if RESPONSE_TYPE in kinds:
        return RESPONSE_TYPE
    if not kinds or any(kind in (JSON_TYPE, "application/*", "*/*") for kind in kinds):
        return JSON_TYPE
    raise ApiError(
        406, "not_acceptable", f"Responses are {JSON_TYPE} or {RESPONSE_TYPE}. Accept one of them."
    )

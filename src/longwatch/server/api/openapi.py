"""What FastAPI cannot derive for the OpenAPI schema: headers, 304s, errors, scopes and the fast route."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from longwatch.server.access.scopes import REQUIRED
from longwatch.server.access.tokens import COOKIE, TokenScope
from longwatch.server.api.parameters import MAX_CURSOR, MAX_WAIT_SECONDS
from longwatch.server.responses import POSITION
from longwatch.turns.views import TurnStatusView

Responses = dict[int | str, dict[str, Any]]

ERRORS: Mapping[int, str] = {
    400: "The request cannot be parsed: invalid JSON, UTF-8, cursor, query or path.",
    401: "The token is missing or unknown.",
    403: "The scope of the token does not suffice, or the Host or Origin is not allowed.",
    404: "Not found.",
    405: "The route does not support this method.",
    406: "The client accepts none of the content types.",
    408: "The body did not arrive in time.",
    409: "The request conflicts with stored data.",
    410: "The run was deleted.",
    413: "The body is too large.",
    414: "The URL is too long.",
    415: "The content type is not supported.",
    422: "The request is invalid; the details say why.",
    429: "Too many writes. Retry after the seconds in Retry-After.",
    431: "The headers are too large.",
    500: "Internal error.",
    503: "The store is unavailable. Retry after the seconds in Retry-After.",
}
EVERYWHERE = (400, 401, 403, 414, 422, 431, 503)
WITH_BODY = (408, 413, 429)

ETAG_HEADER = {
    "description": "Weak ETag of the content, the same on every server.",
    "schema": {"type": "string"},
}
CACHE_HEADER = {
    "description": "`private, no-cache`: store and revalidate. `no-store` if no two responses are the same.",
    "schema": {"type": "string"},
}
STALE_HEADER = {
    "description": "Present while the journal is unavailable: the response is the last known state.",
    "schema": {"type": "string"},
}
POSITION_HEADER = {
    "description": "Position of the write. A read that sends it back includes the write, on any server.",
    "schema": {"type": "string"},
}
DISPOSITION_HEADER = {"description": "`attachment`, and a file name.", "schema": {"type": "string"}}
VERSION_HEADER = {"description": "The version of the document.", "schema": {"type": "integer"}}
RETRY_HEADER = {"description": "Seconds to wait.", "schema": {"type": "integer"}}


class ErrorDetail(BaseModel):
    """An invalid field and the reason."""

    field: str
    message: str


class ErrorBody(BaseModel):
    """What happened, and what to do next."""

    model_config = ConfigDict(title="ErrorBody")

    code: str = Field(description="Stable, for programs, such as `run_not_found`.")
    message: str = Field(description="For people: what happened, and what to do next.")
    details: list[ErrorDetail] = Field(default_factory=list)
    position: int = Field(default=0, description="Of the mistake in a query, from 1; else absent.")


class ErrorResponse(BaseModel):
    """The body of every response with a status of 400 or above."""

    error: ErrorBody


def error_responses(*statuses: int) -> Responses:
    """The errors of every route, and these."""
    found: Responses = {}
    for status in sorted({*EVERYWHERE, *statuses}):
        found[status] = {"model": ErrorResponse, "description": ERRORS[status]}
        if status in (429, 503):
            found[status]["headers"] = {"Retry-After": RETRY_HEADER}
        elif status == 401:
            found[status]["headers"] = {
                "WWW-Authenticate": {"description": "`Bearer`", "schema": {"type": "string"}}
            }
    return found


def etag_responses(
    model: type | UnionType,
    *statuses: int,
    description: str = "The current state.",
    from_memory: bool = False,
) -> Responses:
    """A JSON response with an ETag, its 304, and errors. A cached response may be stale and says so."""
    headers = {"ETag": ETAG_HEADER, "Cache-Control": CACHE_HEADER}
    if from_memory:
        headers["Longwatch-Stale"] = STALE_HEADER
    return {
        200: {"model": model, "description": description, "headers": headers},
        304: {"description": "Unchanged since `If-None-Match`.", "headers": headers},
        **error_responses(*statuses),
    }


def json_responses(
    model: type,
    *statuses: int,
    status: int = 200,
    description: str = "Done.",
    headers: Mapping[str, Any] | None = None,
) -> Responses:
    """A JSON response without an ETag, and errors."""
    all_headers = {"Cache-Control": CACHE_HEADER, **(headers or {})}
    return {
        status: {"model": model, "description": description, "headers": all_headers},
        **error_responses(*statuses),
    }


def write_responses(
    model: type,
    *statuses: int,
    status: int = 200,
    description: str = "Done.",
    headers: Mapping[str, Any] | None = None,
) -> Responses:
    """The same for a route with a request body."""
    return json_responses(
        model, *WITH_BODY, *statuses, status=status, description=description, headers=headers
    )


def otlp_responses(rejected: str) -> Responses:
    """A response to OTLP, in the form of the request. `rejected` names the number of items left out."""
    partial = {
        "type": "object",
        "properties": {rejected: {"type": "string"}, "errorMessage": {"type": "string"}},
    }
    success = {"type": "object", "properties": {"partialSuccess": partial}}
    content = {"application/json": {"schema": success}, **PROTOBUF_CONTENT}
    headers = {"Cache-Control": CACHE_HEADER}
    return {
        200: {"description": "Stored.", "content": content, "headers": headers},
        **error_responses(*WITH_BODY, 415),
    }


def download_responses(media_type: str, description: str, *statuses: int) -> Responses:
    """A file that a browser saves, and errors."""
    return {
        200: {
            "description": description,
            "content": {media_type: {"schema": {"type": "string"}}},
            "headers": {"Content-Disposition": DISPOSITION_HEADER, "Cache-Control": CACHE_HEADER},
        },
        **error_responses(*statuses),
    }


STATUS_PATH = "/api/projects/{project_id}/sessions/{session_id}/turns/{turn_id}/status"
ERROR_CONTENT = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorResponse"}}}
PROTOBUF_CONTENT = {"application/x-protobuf": {"schema": {"type": "string", "format": "binary"}}}
OTLP_STATUS = {
    "title": "OtlpStatus",
    "description": "`google.rpc.Status`, as OTLP requires.",
    "type": "object",
    "required": ["code", "message"],
    "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
}
OTLP_ERROR_CONTENT = {
    "application/json": {"schema": {"$ref": "#/components/schemas/OtlpStatus"}},
    **PROTOBUF_CONTENT,
}
OTLP = "/v1/"
ABOUT = """Read, follow and append to runs, turns and documents; read and follow executions.

Every response with a status of 400 or above has the body `{"error": {"code", "message"}}`, some with
`details` or a `position`, except those of OTLP, which are a `Status` in the form of the request.
A response with an `ETag` is cheap to request again: send the ETag as `If-None-Match`, and an unchanged
response is a 304. With `wait` the server holds such a request until something changes. OpenAPI cannot
describe the two WebSockets: `/api/socket` follows topics, and `/api/projects/{project_id}/sync/{path}`
speaks y-websocket's protocol.
"""


def _header(description: str, *, required: bool = False, type_: str = "string") -> dict[str, Any]:
    return {"description": description, "required": required, "schema": {"type": type_}}


def _any(status: str) -> bool:
    return True


# Header → whether a response with this status has it, and its description.
COMMON_HEADERS: Mapping[str, tuple[Callable[[str], bool], dict[str, Any]]] = {
    "X-Content-Type-Options": (_any, _header("`nosniff`", required=True)),
    "Referrer-Policy": (_any, _header("`no-referrer`")),
    "Cross-Origin-Resource-Policy": (
        _any,
        _header("`same-origin`, or `cross-origin` for an allowed origin."),
    ),
    "Access-Control-Allow-Origin": (_any, _header("For pages of an allowed origin.")),
    "Access-Control-Expose-Headers": (_any, _header("For pages of an allowed origin.")),
    "Vary": (_any, _header("`Accept-Encoding`, `Origin`")),
    "Content-Encoding": (lambda status: status != "304", _header("`gzip`, if the client accepts it.")),
    "Connection": (
        lambda status: status in ("408", "413"),
        _header("`close`: the rest of the body is not read."),
    ),
    "Allow": (lambda status: status == "405", _header("The methods of the route.")),
}


def describe(app: FastAPI) -> None:
    """Make the application serve the complete schema."""

    def schema() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = complete_schema(
                get_openapi(title=app.title, version=app.version, description=ABOUT, routes=app.routes)
            )
        return app.openapi_schema

    app.openapi = schema  # type: ignore[method-assign]


def complete_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Add what the framework does not know."""
    components = schema.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            content = OTLP_ERROR_CONTENT if path.startswith(OTLP) else ERROR_CONTENT
            _correct_errors(operation["responses"], content)
    schemas["OtlpStatus"] = OTLP_STATUS
    schemas["TurnStatusView"] = TypeAdapter(TurnStatusView).json_schema()
    schema["paths"][STATUS_PATH] = {"get": _status_operation()}
    components["headers"] = {name: header for name, (_, header) in COMMON_HEADERS.items()}
    for path in schema["paths"].values():
        for operation in path.values():
            _complete_headers(operation["responses"])
    components["securitySchemes"] = {
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "Required unless the server listens on loopback only.",
        },
        "cookie": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "From `/api/login`."},
    }
    schema["security"] = [{}, {"token": []}, {"cookie": []}]
    _add_scopes(schema["paths"])
    return schema


def _add_scopes(paths: dict[str, Any]) -> None:
    """Add the scope that each operation requires on a server with tokens."""
    required = {(method, path.replace(":path}", "}")): scope for (method, path), scope in REQUIRED.items()}
    for path, operations in paths.items():
        for method, operation in operations.items():
            scope = required.get((method.upper(), path), TokenScope.WRITE)
            operation["x-required-scope"] = "none" if scope is None else scope.value
            if scope is None:
                operation["security"] = []


def _correct_errors(responses: dict[str, Any], content: Mapping[str, Any]) -> None:
    """An error is JSON, also if the response is a stream or a file; one of OTLP is a `Status`."""
    for status, response in responses.items():
        if status.isdigit() and int(status) >= 400:
            response["content"] = content


def _complete_headers(responses: dict[str, Any]) -> None:
    """Add the headers that responses of every route have."""
    for status, response in responses.items():
        headers = response.setdefault("headers", {})
        for name, (is_for, _) in COMMON_HEADERS.items():
            if name not in headers and is_for(status):
                headers[name] = {"$ref": f"#/components/headers/{name}"}


def _status_operation() -> dict[str, Any]:
    headers = {"ETag": ETAG_HEADER, "Cache-Control": CACHE_HEADER, "Longwatch-Stale": STALE_HEADER}
    return {
        "tags": ["turns"],
        "summary": "Turn Status",
        "description": "Show a turn's status. With `wait` and a current ETag, a 304 takes that many seconds.",
        "operationId": "turn_status",
        "parameters": [
            *(_path_parameter(name) for name in ("project_id", "session_id", "turn_id")),
            {
                "name": "wait",
                "in": "query",
                "required": False,
                "description": "Seconds to wait for a change.",
                "schema": {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_SECONDS, "default": 0},
            },
            {
                "name": "If-None-Match",
                "in": "header",
                "required": False,
                "description": "The ETag that the client has: 304 if it is current.",
                "schema": {"type": "string"},
            },
            {
                "name": POSITION,
                "in": "header",
                "required": False,
                "description": "The `Longwatch-Position` of a write, which the response then includes.",
                "schema": {"type": "string", "maxLength": MAX_CURSOR},
            },
        ],
        "responses": {
            "200": {
                "description": "The current state.",
                "headers": headers,
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/TurnStatusView"}}},
            },
            "304": {"description": "Unchanged since `If-None-Match`.", "headers": headers},
            **{
                str(status): {"description": ERRORS[status], "content": ERROR_CONTENT}
                for status in (400, 401, 403, 404, 414, 422, 431, 503)
            },
        },
    }


def _path_parameter(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": f"The id of the {name.removesuffix('_id')}.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 128},
    }

"""The OpenAPI schema: headers of responses, the 304, the errors of every route, fast routes, sockets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    400: "The request cannot be read: not JSON, not UTF-8, or a cursor or path that is none.",
    401: "A token is needed, or the one given is wrong.",
    403: "The token may not do this, or the Host or Origin is not one that is served.",
    404: "There is no such thing.",
    405: "The method is not possible here.",
    408: "The body did not arrive in time.",
    409: "It contradicts what is stored already.",
    413: "The body is too large.",
    414: "The address is too long.",
    415: "The body's type is not understood.",
    422: "The request can be read and is not acceptable; the details say why.",
    429: "Too many writes. Retry-After says when to go on.",
    431: "The headers are too large.",
    500: "The server made a mistake.",
    503: "The store does not answer now. Retry-After says when to try again.",
}
EVERYWHERE = (400, 401, 403, 414, 422, 431, 503)
WITH_BODY = (408, 413, 429)

ETAG_HEADER = {
    "description": "Weak tag of the content, the same on every server.",
    "schema": {"type": "string"},
}
CACHE_HEADER = {
    "description": "`private, no-cache`: keep it, and ask again. `no-store` where each answer is another.",
    "schema": {"type": "string"},
}
STALE_HEADER = {
    "description": "There while the journal cannot be read: the answer is the last that was known.",
    "schema": {"type": "string"},
}
POSITION_HEADER = {
    "description": "What was written. A read that sends it back includes that, on any server.",
    "schema": {"type": "string"},
}
DISPOSITION_HEADER = {"description": "`attachment`, and a file name.", "schema": {"type": "string"}}
VERSION_HEADER = {"description": "The version of the document.", "schema": {"type": "integer"}}
RETRY_HEADER = {"description": "Seconds to wait.", "schema": {"type": "integer"}}


class ErrorDetail(BaseModel):
    """One field and what is wrong with it."""

    field: str
    message: str


class ErrorBody(BaseModel):
    """What happened and what to do next."""

    model_config = ConfigDict(title="ErrorBody")

    code: str = Field(description="A stable word for programs, such as `run_not_found`.")
    message: str = Field(description="For people: what happened, and what to do next.")
    details: list[ErrorDetail] = Field(default_factory=list)


class ErrorResponse(BaseModel):
    """Every answer from 400 on has this shape."""

    error: ErrorBody


def error_responses(*statuses: int) -> Responses:
    """The errors that every route can give, and these. Only a route with a body can have too large a one."""
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
    model: type, *statuses: int, description: str = "As it stands.", from_memory: bool = False
) -> Responses:
    """A JSON answer with a tag, its 304, and errors. One from memory says if it may be stale."""
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
    """A JSON answer without a tag, and errors."""
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
    """The same of a route that takes a body."""
    return json_responses(
        model, *WITH_BODY, *statuses, status=status, description=description, headers=headers
    )


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
ABOUT = """Runs, turns and documents: read, followed, appended to. Executions: read and followed.

Every answer from 400 on has one shape, `{"error": {"code", "message", "details"?}}`. Answers that have an
`ETag` are cheap to ask for again: send it as `If-None-Match`, and 304 says that nothing changed. With `wait`
the server holds such a question until something does. Two WebSockets are not described here, since OpenAPI
cannot: `/api/socket` follows topics, `/api/projects/{project_id}/sync/{path}` is y-websocket's protocol.
"""


def _header(description: str, *, required: bool = False, type_: str = "string") -> dict[str, Any]:
    return {"description": description, "required": required, "schema": {"type": type_}}


def _any(status: str) -> bool:
    return True


# Header -> the answers that carry it, and what it says.
COMMON_HEADERS: Mapping[str, tuple[Callable[[str], bool], dict[str, Any]]] = {
    "X-Content-Type-Options": (_any, _header("`nosniff`", required=True)),
    "Referrer-Policy": (_any, _header("`no-referrer`")),
    "Cross-Origin-Resource-Policy": (
        _any,
        _header("`same-origin`, or `cross-origin` for an allowed origin."),
    ),
    "Access-Control-Allow-Origin": (_any, _header("For a page of an origin that is allowed.")),
    "Access-Control-Expose-Headers": (_any, _header("For such a page.")),
    "Vary": (_any, _header("`Accept-Encoding`, `Origin`")),
    "Content-Encoding": (lambda status: status != "304", _header("`gzip`, if it is accepted.")),
    "Connection": (lambda status: status in ("408", "413"), _header("`close`: the rest is not read.")),
    "Allow": (lambda status: status == "405", _header("The methods that are possible.")),
}


def describe(app: FastAPI) -> None:
    """Let the application hand out the whole schema."""

    def schema() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = complete_schema(
                get_openapi(title=app.title, version=app.version, description=ABOUT, routes=app.routes)
            )
        return app.openapi_schema

    app.openapi = schema  # type: ignore[method-assign]


def complete_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with what the framework does not know."""
    components = schema.setdefault("components", {})
    shapes = components.setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        shapes.pop(unused, None)
    for path in schema["paths"].values():
        for operation in path.values():
            _correct_errors(operation["responses"])
    shapes["TurnStatusView"] = TypeAdapter(TurnStatusView).json_schema()
    schema["paths"][STATUS_PATH] = {"get": _status_operation()}
    components["headers"] = {name: header for name, (_, header) in COMMON_HEADERS.items()}
    for path in schema["paths"].values():
        for operation in path.values():
            _complete_headers(operation["responses"])
    components["securitySchemes"] = {
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "Needed unless only loopback is served.",
        },
        "cookie": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "From `/api/login`."},
    }
    schema["security"] = [{}, {"token": []}, {"cookie": []}]
    _add_scopes(schema["paths"])
    return schema


def _add_scopes(paths: dict[str, Any]) -> None:
    """Say of every operation which scope its caller needs, once the server demands tokens."""
    required = {(method, path.replace(":path}", "}")): scope for (method, path), scope in REQUIRED.items()}
    for path, operations in paths.items():
        for method, operation in operations.items():
            scope = required.get((method.upper(), path), TokenScope.WRITE)
            operation["x-required-scope"] = "none" if scope is None else scope.value
            if scope is None:
                operation["security"] = []


def _correct_errors(responses: dict[str, Any]) -> None:
    """An error is JSON, also where the answer is a stream or a file."""
    for status, response in responses.items():
        if status.isdigit() and int(status) >= 400:
            response["content"] = ERROR_CONTENT


def _complete_headers(responses: dict[str, Any]) -> None:
    """Add what answers carry whichever route they come from."""
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
        "description": "Tell how a turn stands. With `wait` and a tag that holds, 304 comes after so long.",
        "operationId": "turn_status",
        "parameters": [
            *(_path_parameter(name) for name in ("project_id", "session_id", "turn_id")),
            {
                "name": "wait",
                "in": "query",
                "required": False,
                "description": "Seconds to wait for news when there is none.",
                "schema": {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_SECONDS, "default": 0},
            },
            {
                "name": "If-None-Match",
                "in": "header",
                "required": False,
                "description": "The ETag of what the caller has: 304 if it is still true.",
                "schema": {"type": "string"},
            },
            {
                "name": POSITION,
                "in": "header",
                "required": False,
                "description": "The `Longwatch-Position` of a write, which the answer then includes.",
                "schema": {"type": "string", "maxLength": MAX_CURSOR},
            },
        ],
        "responses": {
            "200": {
                "description": "As it stands.",
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
    what = name.removesuffix("_id")
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": f"The id of the {what}.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 128},
    }

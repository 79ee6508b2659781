"""The schema: FastAPI's own, with what it cannot know: hot answers, tokens, and how sockets speak."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from longwatch.server.access import COOKIE, Scope
from longwatch.server.answers import POSITION
from longwatch.server.described import CACHE_HEADER, ERRORS, STALE_HEADER, TAG_HEADER
from longwatch.server.parameters import MAX_CURSOR, MAX_WAIT_SECONDS
from longwatch.server.routes.scopes import REQUIRED
from longwatch.server.turn_schemas import TurnStatusShape

STATUS_PATH = "/api/projects/{project_id}/sessions/{session_id}/turns/{turn_id}/status"
ERROR_CONTENT = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorAnswer"}}}
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
            app.openapi_schema = completed(
                get_openapi(title=app.title, version=app.version, description=ABOUT, routes=app.routes)
            )
        return app.openapi_schema

    app.openapi = schema  # type: ignore[method-assign]


def completed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with what the framework does not know."""
    components = schema.setdefault("components", {})
    shapes = components.setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        shapes.pop(unused, None)
    for path in schema["paths"].values():
        for operation in path.values():
            _correct_errors(operation["responses"])
    shapes["TurnStatusShape"] = TurnStatusShape.model_json_schema()
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
            scope = required.get((method.upper(), path), Scope.WRITE)
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
    headers = {"ETag": TAG_HEADER, "Cache-Control": CACHE_HEADER, "Longwatch-Stale": STALE_HEADER}
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
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/TurnStatusShape"}}},
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

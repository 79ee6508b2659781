"""Error responses: all have one shape, a code for programs and a message for people."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from longwatch.errors import (
    AlreadyThere,
    AmbiguousExecution,
    DocumentNotFound,
    EventConflict,
    InvalidEvent,
    InvalidQuery,
    JournalUnavailable,
    JournalUnusable,
    LongwatchError,
    MissingExtra,
    NotWorthAnotherTry,
    RunDeleted,
    RunNotFound,
    RunStillOpen,
    TurnEnded,
    TurnTaken,
    WorthAnotherTry,
)
from longwatch.server.page.plain_pages import not_found_page, wants_page

log = logging.getLogger("longwatch.server")

RETRY_SECONDS = 2  # after which to retry a store that is unavailable
MOST_DETAILS = 20
NOT_FOUND = "not_found"  # the code of a path without a route

STATUSES: tuple[tuple[type[LongwatchError], int], ...] = (  # the first match counts
    (RunNotFound, 404),  # also projects, sessions and turns
    (RunDeleted, 410),
    (DocumentNotFound, 404),
    (EventConflict, 409),
    (AmbiguousExecution, 409),
    (AlreadyThere, 409),
    (TurnEnded, 409),
    (TurnTaken, 409),
    (RunStillOpen, 409),
    (InvalidEvent, 422),
    (JournalUnusable, 503),
    (MissingExtra, 503),
    (NotWorthAnotherTry, 400),  # the request is invalid
    (WorthAnotherTry, 503),
)


class ApiError(Exception):
    """An error as a response."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        details: Sequence[tuple[str, str]] = (),
        position: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.message = message
        self.details = tuple(details)[:MOST_DETAILS]  # field and message
        self.position = position  # of the mistake in a query
        self.headers = dict(headers or {})
        super().__init__(status, code, message)

    @property
    def body(self) -> bytes:
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.details:
            error["details"] = [{"field": field, "message": message} for field, message in self.details]
        if self.position is not None:
            error["position"] = self.position
        return json.dumps({"error": error}, ensure_ascii=False).encode(errors="replace")

    def response(self) -> Response:
        return Response(self.body, self.status, self.headers, media_type="application/json")

    def response_to(self, scope: Scope) -> Response:
        """The response in the form that the client accepts: a browser gets a page for an unknown path."""
        if self.code == NOT_FOUND and wants_page(scope):
            return not_found_page(scope["path"])
        return self.response()

    async def send(self, send: Send) -> None:
        """Send the response in plain ASGI, outside the framework."""
        body = self.body
        headers = {"content-type": "application/json", "content-length": str(len(body)), **self.headers}
        headers.setdefault("x-content-type-options", "nosniff")
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": raw})
        await send({"type": "http.response.body", "body": body})


def api_error(error: LongwatchError) -> ApiError:
    """The response to one of our own errors."""
    status = next((status for kind, status in STATUSES if isinstance(error, kind)), 500)
    headers = {"Retry-After": str(RETRY_SECONDS)} if status == 503 else {}
    details = [("plan", each) for each in error.plan_ids] if isinstance(error, AmbiguousExecution) else []
    position = error.position if isinstance(error, InvalidQuery) else None
    return ApiError(
        status, code_of(type(error)), str(error), details=details, position=position, headers=headers
    )


def code_of(kind: type[LongwatchError]) -> str:
    """`run_not_found` for `RunNotFound`. All errors of a store have one code."""
    for common in (JournalUnavailable, JournalUnusable):
        if issubclass(kind, common):
            kind = common
    code = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()
    return code.replace("conversation", "session")  # as the routes call it


def install_errors(app: FastAPI) -> None:
    """Turn every error of a route into an error response."""

    @app.exception_handler(ApiError)
    async def _own(request: Request, error: ApiError) -> Response:
        return error.response_to(request.scope)

    @app.exception_handler(LongwatchError)
    async def _ours(request: Request, error: LongwatchError) -> Response:
        if isinstance(error, JournalUnavailable):
            request.app.state.context.traffic.journal_failures += 1
        return api_error(error).response()

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> Response:
        return invalid_request(error).response()

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        return http_error(error, request.method, request.url.path).response_to(request.scope)


def invalid_request(error: RequestValidationError) -> ApiError:
    """The response to an invalid request: 400 if it is not JSON, else 422 with details."""
    found = error.errors()
    if any(each["type"] == "json_invalid" for each in found):
        return ApiError(400, "not_json", "The body is not valid JSON. Send one JSON value in UTF-8.")
    details = [(field_of(each["loc"]), str(each["msg"])) for each in found]
    fields = ", ".join(dict.fromkeys(field for field, _ in details if field)) or "the request"
    return ApiError(
        422, "invalid_request", f"Invalid request: {fields}. The details say why.", details=details
    )


def field_of(location: Sequence[object]) -> str:
    """`events[3].type`, without the part of the request that has it."""
    parts = list(location[1:]) if len(location) > 1 else list(location)
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def http_error(error: HTTPException, method: str, path: str) -> ApiError:
    """The response to an error of the framework."""
    phrase = HTTPStatus(error.status_code).phrase
    code = re.sub(r"[^a-z]+", "_", phrase.lower())
    messages = {
        404: f"No route {path}. GET /openapi.json lists every route.",
        405: f"{path} does not support {method}. The Allow header lists the methods.",
        400: f"The request cannot be parsed: {error.detail}.",
    }
    message = messages.get(error.status_code, f"{phrase}: {error.detail}")
    return ApiError(error.status_code, code, message, headers=dict(error.headers or {}))


class CatchAll:
    """Logs an unexpected error of a route once and responds with a 500."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def record(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, record)
        except ApiError as error:
            if started or scope["type"] != "http":
                raise
            await error.send(send)
        except Exception:
            if started or scope["type"] != "http":
                raise
            log.exception("internal error in %s %s", scope["method"], scope["path"])
            await ApiError(
                500,
                "internal_error",
                "Internal error; the server's log has the details. Retry the request.",
            ).send(send)

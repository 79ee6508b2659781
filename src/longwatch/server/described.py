"""What the schema says of answers: their headers, the 304, and the errors that every route can give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

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

TAG_HEADER = {
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


class ErrorAnswer(BaseModel):
    """Every answer from 400 on has this shape."""

    error: ErrorBody


def errors(*statuses: int) -> Responses:
    """The errors that every route can give, and these. Only a route with a body can have too large a one."""
    found: Responses = {}
    for status in sorted({*EVERYWHERE, *statuses}):
        found[status] = {"model": ErrorAnswer, "description": ERRORS[status]}
        if status in (429, 503):
            found[status]["headers"] = {"Retry-After": RETRY_HEADER}
        elif status == 401:
            found[status]["headers"] = {
                "WWW-Authenticate": {"description": "`Bearer`", "schema": {"type": "string"}}
            }
    return found


def tagged(
    model: type[BaseModel], *statuses: int, description: str = "As it stands.", from_memory: bool = False
) -> Responses:
    """A JSON answer with a tag, its 304, and errors. One from memory says if it may be stale."""
    headers = {"ETag": TAG_HEADER, "Cache-Control": CACHE_HEADER}
    if from_memory:
        headers["Longwatch-Stale"] = STALE_HEADER
    return {
        200: {"model": model, "description": description, "headers": headers},
        304: {"description": "Unchanged since `If-None-Match`.", "headers": headers},
        **errors(*statuses),
    }


def plain(
    model: type[BaseModel],
    *statuses: int,
    status: int = 200,
    description: str = "Done.",
    headers: Mapping[str, Any] | None = None,
) -> Responses:
    """A JSON answer without a tag, and errors."""
    all_headers = {"Cache-Control": CACHE_HEADER, **(headers or {})}
    return {
        status: {"model": model, "description": description, "headers": all_headers},
        **errors(*statuses),
    }


def written(
    model: type[BaseModel],
    *statuses: int,
    status: int = 200,
    description: str = "Done.",
    headers: Mapping[str, Any] | None = None,
) -> Responses:
    """The same of a route that takes a body."""
    return plain(model, *WITH_BODY, *statuses, status=status, description=description, headers=headers)


def download(media_type: str, description: str, *statuses: int) -> Responses:
    """A file that a browser saves, and errors."""
    return {
        200: {
            "description": description,
            "content": {media_type: {"schema": {"type": "string"}}},
            "headers": {"Content-Disposition": DISPOSITION_HEADER, "Cache-Control": CACHE_HEADER},
        },
        **errors(*statuses),
    }

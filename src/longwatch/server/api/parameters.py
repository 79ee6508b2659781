"""Parameters that several routes share."""

from __future__ import annotations

from functools import partial
from typing import Annotated
from urllib.parse import unquote_to_bytes

from fastapi import Depends, Header, Path, Query, Request
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from longwatch.errors import InvalidCursor
from longwatch.executions.model import MAX_KEY_BYTES
from longwatch.model.event import MAX_OCCURRED_AT, MAX_RUN_ID_BYTES, Cursor
from longwatch.server.context import ServerContext

MAX_CURSOR = 15_000  # characters; a request line may have a little more
MAX_WAIT_SECONDS = 30


def context_of(request: Request) -> ServerContext:
    """The parts of the server."""
    context: ServerContext = request.app.state.context
    return context


ContextDep = Annotated[ServerContext, Depends(context_of)]


class RequestBody(BaseModel):
    """The JSON body of a request. Unknown fields are an error."""

    model_config = ConfigDict(extra="forbid")


def _unquote(raw: str, *, most_bytes: int) -> str:
    """An id may have a slash; `RawRunPaths` leaves it quoted until the route is found."""
    try:
        text = unquote_to_bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise ValueError("must be UTF-8") from error
    if not text or len(text.encode()) > most_bytes:
        raise ValueError(f"must have 1 to {most_bytes} bytes")
    return text


RunId = Annotated[
    str,
    Path(description="The id of the run, percent-encoded; it may have any character.", min_length=1),
    AfterValidator(partial(_unquote, most_bytes=MAX_RUN_ID_BYTES)),
]

PlanId = Annotated[
    str,
    Path(description="The id of the plan, percent-encoded; it may have any character.", min_length=1),
    AfterValidator(partial(_unquote, most_bytes=MAX_KEY_BYTES)),
]
ExecutionId = Annotated[
    str,
    Path(description="The id of the execution, percent-encoded; it may have any character.", min_length=1),
    AfterValidator(partial(_unquote, most_bytes=MAX_KEY_BYTES)),
]
ExecutionName = Annotated[
    str,
    Path(
        description="The id of an execution, or `plan/execution`, percent-encoded: `x-1` or `shop%2Fx-1`.",
        min_length=1,
    ),
    AfterValidator(partial(_unquote, most_bytes=MAX_KEY_BYTES)),
]

ProjectId = Annotated[str, Path(description="The id of the project.", min_length=1, max_length=128)]
SessionId = Annotated[str, Path(description="The id of the session.", min_length=1, max_length=128)]
FilePath = Annotated[
    str,
    Path(
        description="The path of the file in its project, such as docs/notes.md.",
        min_length=1,
        max_length=1024,
    ),
]
TurnId = Annotated[str, Path(description="The id of the turn.", min_length=1, max_length=128)]


def require_digits(value: object) -> object:
    """Reject `1_0`, ` 1` and `+1`, which only Python accepts as numbers."""
    if isinstance(value, str) and not (value.isascii() and value.isdigit()):
        raise ValueError("must be a whole number")
    return value


PageLimit = Annotated[int, Field(ge=1, le=200), BeforeValidator(require_digits)]
EventPageSize = Annotated[int, Field(ge=1, le=5000), BeforeValidator(require_digits)]
Moment = Annotated[int, Field(ge=0, le=MAX_OCCURRED_AT), BeforeValidator(require_digits)]
Wait = Annotated[
    int,
    Field(ge=0, le=MAX_WAIT_SECONDS, description="Seconds to wait for a change."),
    BeforeValidator(require_digits),
]
WaitQuery = Annotated[Wait, Query()]
After = Annotated[
    str,
    Query(max_length=MAX_CURSOR, description="The `cursor` of an earlier response; by default the start."),
]
IfNoneMatch = Annotated[
    str,
    Header(alias="If-None-Match", description="The ETag that the client has: 304 if it is current."),
]

PositionToken = Annotated[
    str,
    Header(
        alias="Longwatch-Position",
        max_length=MAX_CURSOR,
        description="The `Longwatch-Position` of a write, which the response then includes, on any server.",
    ),
]


def cursor_of(text: str) -> Cursor:
    """A cursor from a request. The journal checks the rest."""
    if "\0" in text:
        raise InvalidCursor("Invalid cursor: it has a zero byte. Omit it to read from the start.")
    return Cursor(text)

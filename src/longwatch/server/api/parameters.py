"""Parameters that several routes share, read the same way everywhere and described once."""

from __future__ import annotations

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
    """The server's parts."""
    context: ServerContext = request.app.state.context
    return context


ContextDep = Annotated[ServerContext, Depends(context_of)]


class RequestBody(BaseModel):
    """The JSON body of a request. Unknown fields are an error."""

    model_config = ConfigDict(extra="forbid")


def _unquoted(raw: str) -> str:
    """A run id may hold a slash; `RawRunPaths` leaves it quoted until the route is found."""
    return _within(raw, MAX_RUN_ID_BYTES)


def _unquoted_key(raw: str) -> str:
    return _within(raw, MAX_KEY_BYTES)


def _within(raw: str, most_bytes: int) -> str:
    try:
        text = unquote_to_bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise ValueError("must be UTF-8") from error
    if not text or len(text.encode()) > most_bytes:
        raise ValueError(f"must have 1 to {most_bytes} bytes")
    return text


RunId = Annotated[
    str,
    Path(description="The id of the run, percent-encoded; it may hold any character.", min_length=1),
    AfterValidator(_unquoted),
]

PlanId = Annotated[
    str,
    Path(description="The id of the plan, percent-encoded; it may hold any character.", min_length=1),
    AfterValidator(_unquoted_key),
]
ExecutionId = Annotated[
    str,
    Path(description="The id of the execution, percent-encoded; it may hold any character.", min_length=1),
    AfterValidator(_unquoted_key),
]
ExecutionName = Annotated[
    str,
    Path(
        description="The id of an execution, or `plan/execution`, percent-encoded: `x-1` or `shop%2Fx-1`.",
        min_length=1,
    ),
    AfterValidator(_unquoted_key),
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
    """`1_0`, ` 1` and `+1` are numbers for Python only."""
    if isinstance(value, str) and not (value.isascii() and value.isdigit()):
        raise ValueError("must be a whole number")
    return value


PageLimit = Annotated[int, Field(ge=1, le=200), BeforeValidator(require_digits)]
EventPageSize = Annotated[int, Field(ge=1, le=5000), BeforeValidator(require_digits)]
Moment = Annotated[int, Field(ge=0, le=MAX_OCCURRED_AT), BeforeValidator(require_digits)]
Wait = Annotated[
    int,
    Field(ge=0, le=MAX_WAIT_SECONDS, description="Seconds to wait for news when there is none."),
    BeforeValidator(require_digits),
]
WaitQuery = Annotated[Wait, Query()]
After = Annotated[
    str, Query(max_length=MAX_CURSOR, description="The `cursor` of an earlier answer; without it, the start.")
]
IfNoneMatch = Annotated[
    str,
    Header(alias="If-None-Match", description="The ETag of what the caller has: 304 if it is still true."),
]

PositionToken = Annotated[
    str,
    Header(
        alias="Longwatch-Position",
        max_length=MAX_CURSOR,
        description="The `Longwatch-Position` of a write: the answer has what was written, on any server.",
    ),
]


def cursor_of(text: str) -> Cursor:
    """A cursor from outside. Whether it is one, the journal tells."""
    if "\0" in text:
        raise InvalidCursor("a cursor holds no zero byte; read from the start instead")
    return Cursor(text)

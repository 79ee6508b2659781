"""Turns: create, read, add lines, interrupt and end. `fast_routes` serves their status."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Body, Query, Request
from pydantic import BeforeValidator, Field
from starlette.responses import Response

from longwatch.server.api.long_polling import deadline, find_cached_turn, stale_headers, wait_for_change
from longwatch.server.api.openapi import POSITION_HEADER, etag_responses, write_responses
from longwatch.server.api.parameters import (
    ContextDep,
    IfNoneMatch,
    PositionToken,
    ProjectId,
    RequestBody,
    SessionId,
    TurnId,
    WaitQuery,
    require_digits,
)
from longwatch.server.cache.rendered_responses import RenderedTurn
from longwatch.server.context import ServerContext
from longwatch.server.errors import ApiError
from longwatch.server.responses import (
    JSON_TYPE,
    LINES_TYPE,
    POSITION,
    bytes_response,
    json_response,
    matches,
    not_modified,
    weak_etag,
)
from longwatch.turns.line_reader import MOST_LINES
from longwatch.turns.turn import TurnState, blocks_before, position_of, tag_of
from longwatch.turns.views import AcceptedLines, StartedTurn, TurnDetails, TurnLine, TurnList, TurnUpdate

DIED = "the executor died and did not report an outcome"
THREAD_FROM_BLOCKS = 200  # a body with this many blocks is written outside the event loop

router = APIRouter(prefix="/api/projects/{project_id}/sessions/{session_id}/turns", tags=["turns"])

_write_responses = partial(write_responses, headers={POSITION: POSITION_HEADER})

FirstLine = Annotated[
    int | None,
    Field(
        ge=0,
        le=MOST_LINES,
        description="The number of the first line. Lines that are stored already are not stored again.",
    ),
    BeforeValidator(require_digits),
]
BlocksAfter = Annotated[
    str,
    Field(
        pattern=r"^[0-9]{1,9}-[0-9a-f]{16}$",
        description="The `blocks_cursor` of an earlier response: the client has these blocks. If one of them "
        "has moved since, the response has all blocks.",
    ),
]
LINES_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            LINES_TYPE: {"schema": {"type": "string", "description": "Stream-JSON, one object per line."}}
        },
    }
}


class CreateTurnRequest(RequestBody):
    """A new turn. A repeated request with the same id returns the same turn."""

    id: Annotated[
        str,
        Field(
            min_length=6,
            max_length=100,
            pattern=r"^turn-[A-Za-z0-9._-]+$",
            description="By default the server makes one.",
        ),
    ] = ""
    prompt: Annotated[str, Field(max_length=1_000_000)] = ""


class ExecutorProcess(RequestBody):
    """The process that executes a turn. If it runs on the server's machine, its death ends the turn."""

    host: Annotated[str, Field(min_length=1, max_length=255)]
    pid: Annotated[int, Field(ge=1, le=2**31, strict=True)]
    started: Annotated[int, Field(ge=0, le=2**53, strict=True)] = 0
    namespace: Annotated[str, Field(max_length=100)] = ""
    id: Annotated[str, Field(max_length=100)] = ""
    machine: Annotated[str, Field(max_length=100, description="A digest of the machine id.")] = ""
    boot: Annotated[str, Field(max_length=100, description="The boot id of the machine.")] = ""
    role: Annotated[str, Field(max_length=100)] = ""


class ClaimTurnRequest(RequestBody):
    """The executor of a turn."""

    executor: Annotated[str, Field(max_length=200)] = ""
    process: ExecutorProcess | None = None
    claim: Annotated[
        str,
        Field(
            max_length=100,
            description="Chosen by the executor. A second request with the same text is a retry.",
        ),
    ] = ""


class InterruptTurnRequest(RequestBody):
    """Why to interrupt a turn."""

    reason: Annotated[str, Field(max_length=1000)] = ""


class WaitRequest(RequestBody):
    """What a turn waits for."""

    reason: Annotated[
        str,
        Field(
            min_length=1, max_length=100, description="Such as `approval`, `answer`, `lock`, `rate limit`."
        ),
    ]
    detail: Annotated[str, Field(max_length=1000)] = ""


class EndTurnRequest(RequestBody):
    """How the command of a turn ended. The outcome also takes the agent's own report into account."""

    status: Literal["completed", "failed", "cancelled", "died"]
    error: Annotated[str, Field(max_length=10_000)] = ""
    exit_code: Annotated[int | None, Field(ge=0, le=2**31, strict=True)] = None
    signal: Annotated[str, Field(max_length=50, description="Such as `SIGKILL`.")] = ""
    leftover_pid: Annotated[
        int | None, Field(ge=1, le=2**31, strict=True, description="The process that is still running.")
    ] = None
    execution_time_ms: Annotated[float | None, Field(ge=0, le=2**53, strict=True)] = None
    stderr: Annotated[list[Annotated[str, Field(max_length=10_000)]], Field(max_length=100)] = Field(
        default_factory=list
    )


@router.get("", response_class=Response, responses=etag_responses(TurnList, 404))
async def list_turns(
    context: ContextDep,
    project_id: ProjectId,
    session_id: SessionId,
    if_none_match: IfNoneMatch = "",
    position: PositionToken = "",
) -> Response:
    """List the turns of a session, oldest first, without their blocks."""
    turns = await context.call(context.conversations.turns, project_id, session_id, thorough=bool(position))
    etag = weak_etag(context.prices.tag, *((turn.turn_id, tag_of(turn)) for turn in turns))
    if matches(if_none_match, etag):
        return not_modified(etag)
    return json_response(TurnList.of(turns, context.prices.current()), etag=etag)


@router.post(
    "",
    status_code=201,
    response_class=Response,
    responses=_write_responses(TurnDetails, 404, 409, status=201),
)
async def create_turn(
    context: ContextDep,
    project_id: ProjectId,
    session_id: SessionId,
    wanted: Annotated[CreateTurnRequest, Body()],
) -> Response:
    """Create a pending turn. Turns of the session that have not ended are cancelled."""
    cancelled: list[str] = []
    state = await context.call(
        context.conversations.create_turn,
        project_id,
        session_id,
        wanted.prompt or None,
        wanted.id or None,
        on_cancelled=cancelled.append,
    )
    for turn_id in (*cancelled, state.turn_id):
        await context.run_cache.catch_up(turn_id)
    return json_response(
        TurnDetails.of(state, context.prices.current()), status=201, headers={POSITION: position_of(state)}
    )


@router.get(
    "/{turn_id}",
    response_class=Response,
    responses=etag_responses(TurnDetails | TurnUpdate, 404, from_memory=True),
)
async def show_turn(
    context: ContextDep,
    project_id: ProjectId,
    session_id: SessionId,
    turn_id: TurnId,
    wait: WaitQuery = 0,
    blocks_after: Annotated[BlocksAfter | None, Query()] = None,
    if_none_match: IfNoneMatch = "",
    position: PositionToken = "",
) -> Response:
    """Show a turn with its blocks. With `wait` and a current ETag, a 304 takes that many seconds.

    With `blocks_after`, the response has only the other blocks, and not the prompt. The ETag is the same.
    """
    watched = await find_cached_turn(context, project_id, session_id, turn_id, position)

    def etag_of(turn: RenderedTurn) -> str:
        return weak_etag(context.prices.tag, turn.tag)

    if wait and if_none_match:
        until = deadline(context, wait)
        await wait_for_change(context, watched, lambda turn: not matches(if_none_match, etag_of(turn)), until)
    turn, stale = watched.state, stale_headers(context, turn_id)
    etag, prices = etag_of(turn), context.prices.current()
    if matches(if_none_match, etag):
        return not_modified(etag, stale)
    if blocks_after is None:
        count, render = turn.state.block_count, turn.body
    else:
        first = blocks_before(turn.state, blocks_after)
        count, render = turn.state.block_count - first, partial(turn.update_body, first)
    body = render(prices) if count < THREAD_FROM_BLOCKS else await context.call(render, prices)
    return bytes_response(body, JSON_TYPE, etag=etag, headers=stale)


@router.post("/{turn_id}/start", response_class=Response, responses=_write_responses(StartedTurn, 404, 409))
async def start_turn(
    context: ContextDep,
    project_id: ProjectId,
    session_id: SessionId,
    turn_id: TurnId,
    claim: Annotated[ClaimTurnRequest, Body()],
) -> Response:
    """Claim a turn for one executor; 409 if another has claimed it, or it has ended."""
    process = claim.process.model_dump(exclude_defaults=True) if claim.process is not None else None
    state = await context.call(
        context.conversations.start,
        project_id,
        session_id,
        turn_id,
        executor=claim.executor or None,
        process=process,
        claim=claim.claim or None,
    )
    return await _respond(context, state, StartedTurn)


@router.post("/{turn_id}/interrupt", response_class=Response, responses=_write_responses(TurnLine, 404))
async def interrupt_turn(
    context: ContextDep,
    project_id: ProjectId,
    session_id: SessionId,
    turn_id: TurnId,
    why: Annotated[InterruptTurnRequest | None, Body()] = None,
) -> Response:
    """Interrupt a turn. A turn that has ended does not change."""
    reason = why.reason if why is not None else ""
    state = await context.call(
        context.conversations.interrupt, project_id, session_id, turn_id, reason or None
    )
    return await _respond(context, state)


@router.post("/{turn_id}/waiting", response_class=Response, responses=_write_responses(TurnLine, 404, 409))
async def wait_turn(
    context: ContextDep,
    project_id: ProjectId,
    session_id: SessionId,
    turn_id: TurnId,
    wait: Annotated[WaitRequest, Body()],
) -> Response:
    """Report that a turn waits, and for what; 409 if it has ended. Repeating it changes nothing."""
    state = await context.call(
        context.conversations.wait, project_id, session_id, turn_id, wait.reason, wait.detail or None
    )
    return await _respond(context, state)


@router.delete("/{turn_id}/waiting", response_class=Response, responses=_write_responses(TurnLine, 404))
async def resume_turn(
    context: ContextDep,
    project_id: ProjectId,
    session_id: SessionId,
    turn_id: TurnId,
    reason: Annotated[str, Query(max_length=100, description="Only waits with this reason.")] = "",
) -> Response:
    """Report that a turn no longer waits."""
    state = await context.call(context.conversations.resume, project_id, session_id, turn_id, reason or None)
    return await _respond(context, state)


@router.post("/{turn_id}/end", response_class=Response, responses=_write_responses(TurnLine, 404))
async def end_turn(
    context: ContextDep,
    project_id: ProjectId,
    session_id: SessionId,
    turn_id: TurnId,
    ending: Annotated[EndTurnRequest, Body()],
) -> Response:
    """Report how the command of a turn ended. A turn that has ended does not change, its run is corrected."""
    if ending.status == "died":
        state = await context.call(
            context.conversations.report_death, project_id, session_id, turn_id, ending.error or DIED
        )
        return await _respond(context, state)
    payload = ending.model_dump(exclude_defaults=True, exclude={"status", "error"})
    if ending.error:
        payload["error_message"] = ending.error
    if ending.status == "cancelled":
        payload["by"] = "executor"
    state = await context.call(
        context.conversations.end, project_id, session_id, turn_id, f"turn_{ending.status}", payload
    )
    return await _respond(context, state)


@router.post(
    "/{turn_id}/lines",
    response_class=Response,
    responses=_write_responses(AcceptedLines, 404, 409, 415),
    openapi_extra=LINES_BODY,
)
async def feed_turn(
    context: ContextDep,
    request: Request,
    project_id: ProjectId,
    session_id: SessionId,
    turn_id: TurnId,
    first: Annotated[FirstLine, Query()] = None,
    keep_output: Annotated[
        bool, Query(description="Store a line that is not JSON as output instead of rejecting it.")
    ] = False,
    defer_end: Annotated[
        bool,
        Query(description="The agent's report does not end the turn; `POST …/end` does, with the exit code."),
    ] = False,
) -> Response:
    """Add lines of an agent's JSON to a turn, in order. The error for an invalid line has its number."""
    media_type = request.headers.get("content-type", LINES_TYPE).partition(";")[0].strip().lower()
    if media_type not in (LINES_TYPE, "text/plain", "application/jsonl", JSON_TYPE):
        raise ApiError(
            415,
            "unsupported_media_type",
            f"Unsupported content type {media_type[:80]!r}. Send lines as {LINES_TYPE}.",
        )
    try:
        text = (await request.body()).decode()
    except UnicodeDecodeError as error:
        raise ApiError(400, "not_utf8", f"The body is not UTF-8: {error.reason}. Send UTF-8.") from error
    try:
        fed = await context.call(
            context.conversations.feed,
            project_id,
            session_id,
            turn_id,
            text.removesuffix("\n").split("\n") if text else [],
            first,
            keep_output=keep_output,
            defer_end=defer_end,
        )
    finally:
        await context.run_cache.catch_up(turn_id)  # lines before a rejected one are stored
    return json_response(AcceptedLines.of(fed), headers={POSITION: fed.position})


async def _respond(context: ServerContext, state: TurnState, view: type[TurnLine] = TurnLine) -> Response:
    await context.run_cache.catch_up(state.turn_id)
    return json_response(view.of(state, context.prices.current()), headers={POSITION: position_of(state)})

"""Turns: made, read, fed with lines, interrupted. Their status is answered ahead of this, in `hot`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Body, Query, Request
from pydantic import BeforeValidator, Field
from starlette.responses import Response

from longwatch.server.api.long_polling import deadline, look_at_turn, staleness, until_changed
from longwatch.server.api.openapi import POSITION_HEADER, tagged, written
from longwatch.server.api.parameters import (
    ContextDep,
    IfNoneMatch,
    PositionToken,
    ProjectId,
    SessionId,
    TurnId,
    WaitQuery,
    plain_digits,
)
from longwatch.server.api.turn_schemas import (
    Claim,
    FedShape,
    Interruption,
    NewTurn,
    StartedShape,
    TurnEnding,
    TurnListShape,
    TurnShape,
    WholeTurnShape,
)
from longwatch.server.context import ServerContext
from longwatch.server.errors import ApiError
from longwatch.server.responses import (
    JSON_TYPE,
    LINES_TYPE,
    POSITION,
    bytes_answer,
    json_answer,
    matches,
    not_modified,
    weak_tag,
)
from longwatch.turns import TurnState, tag_of, turn_view
from longwatch.turns.line_reader import MOST_LINES
from longwatch.turns.turn import position_of

DIED = "the executor died and did not report an outcome"
BODY_IN_A_THREAD = 200  # blocks, from which on the body is written beside the event loop

router = APIRouter(prefix="/api/projects/{project_id}/sessions/{session_id}/turns", tags=["turns"])

_written = partial(written, headers={POSITION: POSITION_HEADER})

FirstLine = Annotated[
    int | None,
    Field(
        ge=0,
        le=MOST_LINES,
        description="The number of the first line: what is there already is not stored again.",
    ),
    BeforeValidator(plain_digits),
]
LINES_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            LINES_TYPE: {"schema": {"type": "string", "description": "Stream-JSON, one object a line."}}
        },
    }
}


@router.get("", response_class=Response, responses=tagged(TurnListShape, 404))
async def list_turns(
    context: ContextDep,
    project_id: ProjectId,
    session_id: SessionId,
    if_none_match: IfNoneMatch = "",
    position: PositionToken = "",
) -> Response:
    """List the turns of a session, the first one first, without their blocks."""
    turns = await context.call(context.conversations.turns, project_id, session_id, thorough=bool(position))
    tag = weak_tag(*((turn.turn_id, tag_of(turn)) for turn in turns))
    if matches(if_none_match, tag):
        return not_modified(tag)
    return json_answer({"turns": [turn_view(turn, blocks=False) for turn in turns]}, tag=tag)


@router.post(
    "", status_code=201, response_class=Response, responses=_written(WholeTurnShape, 404, 409, status=201)
)
async def create_turn(
    context: ContextDep, project_id: ProjectId, session_id: SessionId, wanted: Annotated[NewTurn, Body()]
) -> Response:
    """Make a turn, pending. Turns of the session that have not ended are cancelled."""
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
        await context.board.catch_up(turn_id)
    return json_answer(turn_view(state), status=201, headers={POSITION: position_of(state)})


@router.get("/{turn_id}", response_class=Response, responses=tagged(WholeTurnShape, 404, from_memory=True))
async def show_turn(
    context: ContextDep,
    project_id: ProjectId,
    session_id: SessionId,
    turn_id: TurnId,
    wait: WaitQuery = 0,
    if_none_match: IfNoneMatch = "",
    position: PositionToken = "",
) -> Response:
    """Show a turn with its blocks. With `wait` and a tag that is still true, 304 comes only after so long."""
    watched = await look_at_turn(context, project_id, session_id, turn_id, position)
    if wait and if_none_match:
        until = deadline(context, wait)
        await until_changed(context, watched, lambda told: not matches(if_none_match, told.tag), until)
    told, stale = watched.state, staleness(context, turn_id)
    if matches(if_none_match, told.tag):
        return not_modified(told.tag, stale)
    if told.state.block_count < BODY_IN_A_THREAD:
        body = told.body
    else:
        body = await context.call(lambda: told.body)
    return bytes_answer(body, JSON_TYPE, tag=told.tag, headers=stale)


@router.post("/{turn_id}/start", response_class=Response, responses=_written(StartedShape, 404, 409))
async def start_turn(
    context: ContextDep,
    project_id: ProjectId,
    session_id: SessionId,
    turn_id: TurnId,
    claim: Annotated[Claim, Body()],
) -> Response:
    """Claim a turn for its one executor; 409 if another has claimed it, or it has ended."""
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
    return await _changed(context, state, next_line=state.highest_line + 1)


@router.post("/{turn_id}/interrupt", response_class=Response, responses=_written(TurnShape, 404))
async def interrupt_turn(
    context: ContextDep,
    project_id: ProjectId,
    session_id: SessionId,
    turn_id: TurnId,
    why: Annotated[Interruption | None, Body()] = None,
) -> Response:
    """End a turn. One that has ended stays as it is."""
    reason = why.reason if why is not None else ""
    state = await context.call(
        context.conversations.interrupt, project_id, session_id, turn_id, reason or None
    )
    return await _changed(context, state)


@router.post("/{turn_id}/end", response_class=Response, responses=_written(TurnShape, 404))
async def end_turn(
    context: ContextDep,
    project_id: ProjectId,
    session_id: SessionId,
    turn_id: TurnId,
    ending: Annotated[TurnEnding, Body()],
) -> Response:
    """Say how the command of a turn ended. One that has ended stays as it is; an outcome corrects its run."""
    if ending.status == "died":
        state = await context.call(
            context.conversations.end_dead, project_id, session_id, turn_id, ending.error or DIED
        )
        return await _changed(context, state)
    said = ending.model_dump(exclude_defaults=True, exclude={"status", "error"})
    if ending.error:
        said["error_message"] = ending.error
    if ending.status == "cancelled":
        said["by"] = "executor"
    state = await context.call(
        context.conversations.end, project_id, session_id, turn_id, f"turn_{ending.status}", said
    )
    return await _changed(context, state)


@router.post(
    "/{turn_id}/lines",
    response_class=Response,
    responses=_written(FedShape, 404, 409, 415),
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
        bool, Query(description="Keep a line that is no JSON as output, rather than to refuse it.")
    ] = False,
    defer_end: Annotated[
        bool, Query(description="The agent's report does not end the turn; `end` does, with its exit.")
    ] = False,
) -> Response:
    """Add lines of an agent's JSON to a turn, in their order. A line that cannot be taken is named."""
    media_type = request.headers.get("content-type", LINES_TYPE).partition(";")[0].strip().lower()
    if media_type not in (LINES_TYPE, "text/plain", "application/jsonl", JSON_TYPE):
        raise ApiError(
            415, "unsupported_media_type", f"Lines come as {LINES_TYPE}, not as {media_type[:80]!r}."
        )
    try:
        text = (await request.body()).decode()
    except UnicodeDecodeError as error:
        raise ApiError(400, "not_utf8", f"The body is not UTF-8: {error.reason}.") from error
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
        await context.board.catch_up(turn_id)  # lines before one that was refused are stored
    told: dict[str, object] = {"accepted": fed.accepted, "blocks": fed.blocks, "status": fed.status}
    if fed.missing:
        told["missing"] = [list(gap) for gap in fed.missing]
    return json_answer(told, headers={POSITION: fed.position})


async def _changed(context: ServerContext, state: TurnState, **more: object) -> Response:
    await context.board.catch_up(state.turn_id)
    headers = {POSITION: position_of(state)}
    return json_answer(turn_view(state, blocks=False) | more, headers=headers)

"""A run's events: pages by cursor, with a long poll, and appending for producers in any language."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from longwatch.journal.codec import to_line
from longwatch.journal.views import AppendedEvents, EventPage
from longwatch.model.event import START, Page
from longwatch.server.api.long_polling import deadline, remaining
from longwatch.server.api.openapi import tagged, written
from longwatch.server.api.parameters import (
    After,
    ContextDep,
    EventPageSize,
    IfNoneMatch,
    RunId,
    WaitQuery,
    cursor_of,
)
from longwatch.server.api.runs import no_such_run
from longwatch.server.cache.run_cache import PULSE
from longwatch.server.context import ServerContext
from longwatch.server.event_intake import EVENT_SCHEMA, parsed_events
from longwatch.server.responses import (
    JSON_TYPE,
    LINES_TYPE,
    bytes_answer,
    json_answer,
    matches,
    not_modified,
    to_json,
    weak_tag,
)

router = APIRouter(prefix="/api/runs", tags=["events"])

IdempotencyKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        max_length=200,
        description="Names this append: events without an id get one made from it, so that a repeated append "
        "stores nothing twice.",
    ),
]
BODY = {
    "requestBody": {
        "required": True,
        "content": {
            JSON_TYPE: {
                "schema": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["events"],
                    "properties": {"events": {"type": "array", "items": EVENT_SCHEMA}},
                }
            },
            LINES_TYPE: {"schema": {"type": "string", "description": "One event a line."}},
        },
    }
}


@router.get("/{run_id}/events", response_class=Response, responses=tagged(EventPage, 404))
async def read_events(
    context: ContextDep,
    run_id: RunId,
    after: After = "",
    limit: Annotated[EventPageSize, Query()] = 500,
    wait: WaitQuery = 0,
    if_none_match: IfNoneMatch = "",
) -> Response:
    """Read a page of a run's events. With `wait`, an empty page comes only after so many seconds."""
    cursor = cursor_of(after)
    page = await context.async_journal.read(run_id, after=cursor, limit=limit)
    if not page.events:
        page = await _news(context, run_id, page, limit, wait)
    tag = weak_tag(run_id, after, page.more, *(event.event_id for event in page.events))
    if matches(if_none_match, tag):
        return not_modified(tag)
    return bytes_answer(await context.call(_body, page), JSON_TYPE, tag=tag)


async def _news(context: ServerContext, run_id: str, page: Page, limit: int, wait: int) -> Page:
    """What comes within so many seconds. One follower per run wakes everybody who waits like this."""
    if not wait:
        if page.cursor == START or context.board.glance(PULSE, run_id) is None:
            await _must_exist(context, run_id)
        return page
    until = deadline(context, wait)
    while True:
        watched = await context.board.look(PULSE, run_id, after=page.cursor)
        if not watched.events and not watched.is_there:
            context.board.drop_empty(PULSE, run_id)
            await _must_exist(context, run_id)
            watched = await context.board.look(PULSE, run_id, after=page.cursor)
            watched.is_there = True
        revision = watched.revision
        page = await context.async_journal.read(run_id, after=page.cursor, limit=limit)
        left = remaining(context, until)
        if page.events or left <= 0 or not await watched.news(revision, left):
            return page


async def _must_exist(context: ServerContext, run_id: str) -> None:
    if await context.async_journal.find_run(run_id) is None:
        raise no_such_run(run_id)


def _body(page: Page) -> bytes:
    events = ",".join(map(to_line, page.events))
    more = "true" if page.more else "false"
    return f'{{"events":[{events}],"cursor":{to_json(page.cursor).decode()},"more":{more}}}'.encode()


@router.post(
    "/{run_id}/events",
    response_class=Response,
    responses=written(AppendedEvents, 409, 415),
    openapi_extra=BODY,
)
async def append_events(
    context: ContextDep, request: Request, run_id: RunId, idempotency_key: IdempotencyKey = ""
) -> Response:
    """Append events to a run, which begins with its first. The same events again change nothing."""
    body = await request.body()
    content_type = request.headers.get("content-type", "")
    given = await context.call(
        parsed_events,
        body,
        content_type,
        run_id=run_id,
        key=idempotency_key,
        now_ms=context.clock.now_ms(),
        ttl_seconds=context.journal.default_ttl_seconds,
        most=context.limits.batch_events,
    )
    try:
        await context.call(context.appender.append, given, now_ms=context.clock.now_ms())
    finally:
        await context.board.catch_up(run_id)  # in a conflict, the rest of the events is stored
    ids = [each.event.event_id for each in given]
    return json_answer(AppendedEvents(stored=len(ids), event_ids=ids))

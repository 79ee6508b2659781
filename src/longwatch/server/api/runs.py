"""Runs: the list, one run, its events by cursor or long poll, appends, and downloads of whole runs."""

from __future__ import annotations

import gzip
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response, StreamingResponse

from longwatch.errors import InvalidInput, RunDeleted
from longwatch.following.observation import ObservedRun
from longwatch.journal.codec import to_line
from longwatch.journal.deletions import MAX_BY_CHARACTERS, OPEN_STATUSES, DeletesRuns
from longwatch.journal.views import (
    AppendedEvents,
    EventPage,
    FailureGroupView,
    RunDetails,
    RunLine,
    RunList,
    VerificationView,
    usage_of_runs,
)
from longwatch.model.event import START, Event, Page
from longwatch.model.failures import group_failures
from longwatch.model.query_language import MAX_QUERY_CHARACTERS, parse_query
from longwatch.model.run import Run, Status
from longwatch.model.run_query import INDEX_KINDS, RunQuery
from longwatch.server import run_reads
from longwatch.server.access.guard import client_of
from longwatch.server.api.long_polling import deadline, remaining, stale_headers
from longwatch.server.api.openapi import (
    download_responses,
    error_responses,
    etag_responses,
    json_responses,
    write_responses,
)
from longwatch.server.api.parameters import (
    After,
    ContextDep,
    EventPageSize,
    IfNoneMatch,
    Moment,
    PageLimit,
    RunId,
    WaitQuery,
    cursor_of,
)
from longwatch.server.cache.rendered_responses import (
    PAGE_EVENTS,
    at_attempt,
    find_matching_etag,
    find_snapshot,
    run_body,
)
from longwatch.server.cache.run_cache import PULSE, RUN, CachedRun
from longwatch.server.context import ServerContext
from longwatch.server.event_intake import EVENT_SCHEMA, parse_events
from longwatch.server.page.report import EventWriter, ReportParts, report_name
from longwatch.server.responses import (
    JSON_TYPE,
    LINES_TYPE,
    bytes_response,
    json_response,
    list_etag,
    matches,
    not_modified,
    run_etag,
    to_json,
    weak_etag,
)
from longwatch.server.run_reads import existing_run, run_not_found

PIECE_BYTES = 64 * 1024  # of a download that are sent at once; an event may be larger
APPEND_BODY = {
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
            LINES_TYPE: {"schema": {"type": "string", "description": "One event per line."}},
        },
    }
}

GZIP_HEADERS = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}

router = APIRouter(prefix="/api/runs", tags=["runs"])
event_router = APIRouter(prefix="/api/runs", tags=["events"])

IdempotencyKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        max_length=200,
        description="Identifies this append. Events without an id get one derived from it: a repeated append "
        "stores nothing twice.",
    ),
]


@router.get("", response_class=Response, responses=etag_responses(RunList))
async def list_runs(
    context: ContextDep,
    status: Annotated[Status | None, Query(description="Only runs with this status.")] = None,
    kind: Annotated[
        str,
        Query(max_length=200, description="Only this kind; by default no projects or conversations."),
    ] = "",
    since: Annotated[Moment | None, Query(description="Started at or after, epoch ms.")] = None,
    until: Annotated[Moment | None, Query(description="Started before, epoch ms.")] = None,
    text: Annotated[str, Query(max_length=200, description="Part of the id or the name.")] = "",
    q: Annotated[
        str,
        Query(
            max_length=MAX_QUERY_CHARACTERS,
            description="A query, such as `status:failed tag:nightly duration:>5m since:2d`. "
            "The other filters must hold too.",
        ),
    ] = "",
    limit: Annotated[PageLimit, Query()] = 50,
    after: After = "",
    if_none_match: IfNoneMatch = "",
) -> Response:
    """List runs with their status at this moment, newest first.

    A page may have fewer runs than `limit`; only a null `cursor` is the end of the list.
    """
    query = run_query(
        q, context.clock.now_ms(), status=status, kind=kind, since=since, until=until, text=text
    )
    page = await context.call(
        context.observer.find_runs, query, after=cursor_of(after) if after else None, limit=limit
    )
    now, hint = context.clock.now_ms(), context.unlisted.notice
    prices = context.prices.current()
    tags = (run_etag(each.run, now, each.conditions, prices) for each in page.runs)
    etag = list_etag(tags, f"{page.cursor} {hint}")
    if matches(if_none_match, etag):
        return not_modified(etag)
    runs = [RunLine.of(each.run, now_ms=now, observed=each.conditions, prices=prices) for each in page.runs]
    usage = usage_of_runs((each.run for each in page.runs), prices)
    failures = [FailureGroupView.of_group(each) for each in group_failures(each.run for each in page.runs)]
    return json_response(
        RunList(runs=runs, cursor=page.cursor, hint=hint, usage=usage, failures=failures), etag=etag
    )


def run_query(
    q: str,
    now_ms: int,
    *,
    status: Status | None = None,
    kind: str = "",
    since: int | None = None,
    until: int | None = None,
    text: str = "",
) -> RunQuery:
    """The runs that match the query text and all of the other filters. Without a kind, no projects."""
    query = RunQuery(
        status=status,
        kind=kind or None,
        since=since,
        until=until,
        text=text or None,
        except_kinds=frozenset() if kind else INDEX_KINDS,
    )
    return parse_query(q, now_ms=now_ms, within=query) if q else query


@router.delete(
    "/{run_id}",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "Deleted."}, **error_responses(404, 409, 410)},
)
async def delete_run(
    context: ContextDep,
    request: Request,
    run_id: RunId,
    force: Annotated[bool, Query(description="Also delete a run that is open.")] = False,
) -> Response:
    """Delete a run with all of its events. Afterwards its routes respond with 410."""
    journal = context.journal
    if not isinstance(journal, DeletesRuns):
        raise InvalidInput("This journal cannot delete runs.")
    observed = await context.observe(await existing_run(context, run_id))
    # A run that died is open in the journal, and is not one that is still worked on.
    force = force or observed.run.status not in OPEN_STATUSES
    stone = await context.call(journal.delete_run, run_id, by=_caller(request), force=force)
    context.run_cache.forget(run_id, stone.error)
    return Response(status_code=204)


def _caller(request: Request) -> str:
    """Tokens have no names, so a tombstone names the address of the client."""
    return f"the API, from {client_of(request.scope) or 'an unknown address'}"[:MAX_BY_CHARACTERS]


@router.get(
    "/{run_id}/export",
    response_class=Response,
    responses=download_responses(LINES_TYPE, "Every event, one per line.", 404, 410),
)
async def export_run(context: ContextDep, run_id: RunId) -> Response:
    """Download a run as JSON lines, which `longwatch import` reads."""
    await existing_run(context, run_id)
    headers = {"Content-Disposition": attachment(run_id, ".jsonl"), "Cache-Control": "no-store"}
    lines = _stream_events(context, run_id, lambda event: f"{to_line(event)}\n".encode())
    return StreamingResponse(lines, media_type=LINES_TYPE, headers=headers)


@router.get(
    "/{run_id}/report",
    response_class=Response,
    responses=download_responses("text/html", "One file that opens anywhere.", 404, 410),
)
async def report_run(context: ContextDep, run_id: RunId) -> Response:
    """Download a run as one HTML file that needs no server."""
    summary = (await context.observe(await existing_run(context, run_id))).run
    parts = await context.call(
        ReportParts.of, summary, now_ms=context.clock.now_ms(), prices=context.prices.current()
    )

    async def page() -> AsyncIterator[bytes]:
        yield parts.head
        async for piece in _stream_events(context, run_id, EventWriter()):
            yield piece
        yield parts.tail

    headers = {"Content-Disposition": attachment(report_name(run_id), ""), "Cache-Control": "no-store"}
    return StreamingResponse(page(), media_type="text/html; charset=utf-8", headers=headers)


async def _stream_events(
    context: ServerContext, run_id: str, encode: Callable[[Event], bytes]
) -> AsyncIterator[bytes]:
    """Every event in order of arrival, encoded, in pieces.

    While the client does not read, this holds the rest of one page as bytes, and no events.
    """
    cursor, more = START, True
    while more:
        page = await context.async_journal.read(run_id, after=cursor, limit=PAGE_EVENTS)
        cursor, more = page.cursor, page.more
        pieces = await context.call(_encode_pieces, page.events, encode)
        del page
        while pieces:
            yield pieces.popleft()


def _encode_pieces(events: Sequence[Event], encode: Callable[[Event], bytes]) -> deque[bytes]:
    """The encoded events, small ones joined: sending a piece costs more than its bytes."""
    pieces: deque[bytes] = deque()
    parts: list[bytes] = []
    size = 0
    for event in events:
        parts.append(encode(event))
        size += len(parts[-1])
        if size >= PIECE_BYTES:
            pieces.append(b"".join(parts))
            parts, size = [], 0
    if parts:
        pieces.append(b"".join(parts))
    return pieces


def attachment(name: str, suffix: str) -> str:
    """The header that makes a browser save the response under this name."""
    plain = "".join(
        each if each.isascii() and (each.isalnum() or each in "._-") else "_" for each in name[:100]
    )
    full = quote(name[:100] + suffix, safe="")
    return f"attachment; filename=\"{plain or 'run'}{suffix}\"; filename*=UTF-8''{full}"


@router.get("/{run_id}/verify", response_class=Response, responses=json_responses(VerificationView, 404))
async def verify_run(context: ContextDep, run_id: RunId) -> Response:
    """Verify that every event of a run is stored as it was written."""
    return json_response(await run_reads.verify_run(context, run_id))


@router.get(
    "/{run_id}", response_class=Response, responses=etag_responses(RunDetails, 404, 410, from_memory=True)
)
async def show_run(
    context: ContextDep,
    request: Request,
    run_id: RunId,
    attempt: Annotated[
        int | None, Query(ge=1, description="Number of the attempt, from 1; by default the last.")
    ] = None,
    if_none_match: IfNoneMatch = "",
) -> Response:
    """Show one run: its status, its calls, its producers."""
    known = await find_matching_etag(context, run_id, if_none_match) if attempt is None else None
    if known is not None:
        return not_modified(known)
    accepts_gzip = "gzip" in request.headers.get("accept-encoding", "")
    stored = await find_snapshot(context, run_id) if attempt is None else None
    if stored is not None:
        body, etag = stored
        body = body if accepts_gzip else await context.call(gzip.decompress, body)
        headers = GZIP_HEADERS if accepts_gzip else {}
        return bytes_response(body, JSON_TYPE, etag=etag, headers=headers)
    watched, run, observed = await load_run(context, run_id)
    prices = context.prices.current()
    etag = run_etag(observed.run, context.clock.now_ms(), observed.conditions, prices)
    stale = stale_headers(context, run_id)
    if attempt is not None:
        run.at_attempt(attempt)  # raises if there is no such attempt
        etag = weak_etag(etag, attempt)
    if matches(if_none_match, etag):
        return not_modified(etag, stale)
    body, is_compressed = await run_body(
        context, watched, run, observed.conditions, etag, attempt=attempt, compressed=accepts_gzip
    )
    encoding = GZIP_HEADERS if is_compressed else {}
    return bytes_response(body, JSON_TYPE, etag=etag, headers=encoding | stale)


async def load_run(context: ServerContext, run_id: str) -> tuple[CachedRun[Run | None], Run, ObservedRun]:
    """The run in the cache, with the present observation of its processes."""
    watched = await context.run_cache.get(RUN, run_id)
    run = watched.state
    if run is None:
        context.run_cache.drop_empty(RUN, run_id)
        raise run_not_found(run_id)
    observed = await context.observe(run.summary)
    return watched, replace(run, summary=observed.run), observed


async def run_details(
    context: ServerContext, run_id: str, attempt: int | None = None
) -> RunDetails | Mapping[str, Any]:
    """One run with its calls: the view, or the stored JSON of a large run that has ended."""
    stored = await find_snapshot(context, run_id) if attempt is None else None
    if stored is not None:
        found: Mapping[str, Any] = await context.call(_read_snapshot, stored[0])
        return found
    _, run, observed = await load_run(context, run_id)
    return await context.call(
        RunDetails.of_attempt,
        run,
        await at_attempt(context, run, attempt),
        attempt=attempt,
        observed=observed.conditions,
        now_ms=context.clock.now_ms(),
        prices=context.prices.current(),
    )


def _read_snapshot(body: bytes) -> Any:
    return json.loads(gzip.decompress(body))


@event_router.get("/{run_id}/events", response_class=Response, responses=etag_responses(EventPage, 404, 410))
async def read_events(
    context: ContextDep,
    run_id: RunId,
    after: After = "",
    limit: Annotated[EventPageSize, Query()] = 500,
    wait: WaitQuery = 0,
    if_none_match: IfNoneMatch = "",
) -> Response:
    """Read a page of a run's events. With `wait`, an empty page takes that many seconds."""
    cursor = cursor_of(after)
    page = await context.async_journal.read(run_id, after=cursor, limit=limit)
    if not page.events:
        page = await _wait_for_events(context, run_id, page, limit, wait)
    etag = weak_etag(run_id, after, page.more, *(event.event_id for event in page.events))
    if matches(if_none_match, etag):
        return not_modified(etag)
    return bytes_response(await context.call(_encode_page, page), JSON_TYPE, etag=etag)


async def _wait_for_events(context: ServerContext, run_id: str, page: Page, limit: int, wait: int) -> Page:
    """The next page that has events, within so many seconds. One follower per run wakes all long polls."""
    if not wait:
        if page.cursor == START or context.run_cache.peek(PULSE, run_id) is None:
            await existing_run(context, run_id)
        return page
    until = deadline(context, wait)
    while True:
        watched = await context.run_cache.get(PULSE, run_id, after=page.cursor)
        if not watched.events and not watched.is_there:
            context.run_cache.drop_empty(PULSE, run_id)
            await existing_run(context, run_id)
            watched = await context.run_cache.get(PULSE, run_id, after=page.cursor)
            watched.is_there = True
        revision = watched.revision
        page = await context.async_journal.read(run_id, after=page.cursor, limit=limit)
        left = remaining(context, until)
        if page.events or left <= 0 or not await watched.wait_for_change(revision, left):
            return page


def _encode_page(page: Page) -> bytes:
    """An `EventPage`, from the lines of its events."""
    events = ",".join(map(to_line, page.events))
    more = "true" if page.more else "false"
    return f'{{"events":[{events}],"cursor":{to_json(page.cursor).decode()},"more":{more}}}'.encode()


@event_router.post(
    "/{run_id}/events",
    response_class=Response,
    responses=write_responses(AppendedEvents, 409, 410, 415),
    openapi_extra=APPEND_BODY,
)
async def append_events(
    context: ContextDep, request: Request, run_id: RunId, idempotency_key: IdempotencyKey = ""
) -> Response:
    """Append events to a run, which begins with its first event. Appending an event again changes nothing."""
    body = await request.body()
    given = await context.call(
        parse_events,
        body,
        request.headers.get("content-type", ""),
        run_id=run_id,
        key=idempotency_key,
        now_ms=context.clock.now_ms(),
        ttl_seconds=context.journal.default_ttl_seconds,
        most=context.limits.batch_events,
    )
    try:
        await context.call(context.event_intake.append, given, now_ms=context.clock.now_ms())
    except RunDeleted as error:
        context.run_cache.forget(run_id, error)
        raise
    finally:
        await context.run_cache.catch_up(run_id)  # after a conflict, the other events are stored
    ids = [each.event.event_id for each in given]
    return json_response(AppendedEvents(stored=len(ids), event_ids=ids))

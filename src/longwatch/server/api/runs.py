"""Runs: the list, one run, and whole runs as exports."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from longwatch.errors import RunNotFound
from longwatch.journal.base import Arrivals
from longwatch.journal.codec import to_line
from longwatch.journal.verify import Verifier
from longwatch.journal.views import RunDetails, RunLine, RunList, VerificationView
from longwatch.model.event import START, Event
from longwatch.model.run import RunSummary, Status
from longwatch.model.run_query import RunQuery
from longwatch.server.api.long_polling import staleness
from longwatch.server.api.openapi import download, plain, tagged
from longwatch.server.api.parameters import (
    After,
    ContextDep,
    IfNoneMatch,
    Moment,
    PageLimit,
    RunId,
    cursor_of,
)
from longwatch.server.cache.rendered_responses import PAGE_EVENTS, all_events, known_already, run_body
from longwatch.server.cache.run_cache import RUN
from longwatch.server.context import ServerContext
from longwatch.server.page.report import EventWriter, ReportParts, report_name
from longwatch.server.responses import (
    JSON_TYPE,
    LINES_TYPE,
    bytes_answer,
    json_answer,
    list_tag,
    matches,
    not_modified,
    run_tag,
    weak_tag,
)

PIECE_BYTES = 64 * 1024  # of a download that are sent at once; an event may be larger


async def streamed(
    context: ServerContext, run_id: str, written: Callable[[Event], bytes]
) -> AsyncIterator[bytes]:
    """Every event as it is `written`, in pieces, as they arrived.

    While the client reads nothing, what is held is the rest of one page as bytes, and no event beside it.
    """
    cursor, more = START, True
    while more:
        page = await context.async_journal.read(run_id, after=cursor, limit=PAGE_EVENTS)
        cursor, more = page.cursor, page.more
        pieces = await context.call(_pieces, page.events, written)
        del page
        while pieces:
            yield pieces.popleft()


def _pieces(events: Sequence[Event], written: Callable[[Event], bytes]) -> deque[bytes]:
    """What is written of events, small ones joined: sending a piece costs more than its bytes."""
    pieces: deque[bytes] = deque()
    parts: list[bytes] = []
    size = 0
    for event in events:
        parts.append(written(event))
        size += len(parts[-1])
        if size >= PIECE_BYTES:
            pieces.append(b"".join(parts))
            parts, size = [], 0
    if parts:
        pieces.append(b"".join(parts))
    return pieces


def exported_line(event: Event) -> bytes:
    """An event as a line of JSON; `longwatch import` takes them in any order."""
    return f"{to_line(event)}\n".encode()


def attachment(name: str, suffix: str) -> str:
    """The header that makes a browser save the answer under this name."""
    plain = "".join(
        each if each.isascii() and (each.isalnum() or each in "._-") else "_" for each in name[:100]
    )
    full = quote(name[:100] + suffix, safe="")
    return f"attachment; filename=\"{plain or 'run'}{suffix}\"; filename*=UTF-8''{full}"


UNLISTED_KINDS = frozenset(
    {"project", "conversation"}
)  # rooms for turns rather than work; listed when asked for

router = APIRouter(prefix="/api/runs", tags=["runs"])


@router.get("", response_class=Response, responses=tagged(RunList))
async def list_runs(
    context: ContextDep,
    status: Annotated[Status | None, Query(description="Only runs that stand like this.")] = None,
    kind: Annotated[
        str, Query(max_length=200, description="Only this kind; without it, no projects or conversations.")
    ] = "",
    since: Annotated[Moment | None, Query(description="Began at or after, epoch ms.")] = None,
    until: Annotated[Moment | None, Query(description="Began before, epoch ms.")] = None,
    text: Annotated[str, Query(max_length=200, description="Part of the id or the name.")] = "",
    limit: Annotated[PageLimit, Query()] = 50,
    after: After = "",
    if_none_match: IfNoneMatch = "",
) -> Response:
    """List runs as they stand at this moment, newest first.

    A page may hold fewer runs than `limit`; only a null `cursor` is the end of the list.
    """
    query = RunQuery(
        status=status,
        kind=kind or None,
        since=since,
        until=until,
        text=text or None,
        except_kinds=frozenset() if kind else UNLISTED_KINDS,
    )
    page = await context.call(
        context.observer.find_runs, query, after=cursor_of(after) if after else None, limit=limit
    )
    now, hint = context.clock.now_ms(), context.unlisted.notice
    tags = (run_tag(each.run, now, each.conditions) for each in page.runs)
    tag = list_tag(tags, f"{page.cursor} {hint}")
    if matches(if_none_match, tag):
        return not_modified(tag)
    runs = [RunLine.of(each.run, now_ms=now, observed=each.conditions) for each in page.runs]
    return json_answer(RunList(runs=runs, cursor=page.cursor, hint=hint), tag=tag)


@router.get(
    "/{run_id}/export",
    response_class=Response,
    responses=download(LINES_TYPE, "Every event, one a line.", 404),
)
async def export_run(context: ContextDep, run_id: RunId) -> Response:
    """Download a run as JSON lines, which `longwatch import` reads."""
    await _summary(context, run_id)
    headers = {"Content-Disposition": attachment(run_id, ".jsonl"), "Cache-Control": "no-store"}
    return StreamingResponse(streamed(context, run_id, exported_line), media_type=LINES_TYPE, headers=headers)


@router.get(
    "/{run_id}/report",
    response_class=Response,
    responses=download("text/html", "One file, to be opened anywhere.", 404),
)
async def report_run(context: ContextDep, run_id: RunId) -> Response:
    """Download a run as one HTML file that needs no server."""
    summary = (await context.observed(await _summary(context, run_id))).run
    parts = await context.call(ReportParts.of, summary, now_ms=context.clock.now_ms())

    async def page() -> AsyncIterator[bytes]:
        yield parts.head
        async for piece in streamed(context, run_id, EventWriter()):
            yield piece
        yield parts.tail

    headers = {"Content-Disposition": attachment(report_name(run_id), ""), "Cache-Control": "no-store"}
    return StreamingResponse(page(), media_type="text/html; charset=utf-8", headers=headers)


@router.get("/{run_id}/verify", response_class=Response, responses=plain(VerificationView, 404))
async def verify_run(context: ContextDep, run_id: RunId) -> Response:
    """Tell whether every event of a run is there and as it was written."""
    found = await _summary(context, run_id)
    verifier = Verifier()
    async for events in all_events(context, run_id):
        for event in events:
            verifier.add(event)
    report = verifier.report(
        context.clock.now_ms(),
        started_at=found.started_at,
        expired_before=found.expired_before,
        counted=found.events if isinstance(context.journal, Arrivals) else None,
    )
    return json_answer(VerificationView.of(run_id, report))


@router.get("/{run_id}", response_class=Response, responses=tagged(RunDetails, 404, from_memory=True))
async def show_run(
    context: ContextDep,
    request: Request,
    run_id: RunId,
    attempt: Annotated[
        int | None, Query(ge=1, description="Which attempt at the run, from 1; without it, the last one.")
    ] = None,
    if_none_match: IfNoneMatch = "",
) -> Response:
    """Show one run: how it stands, its calls, its producers."""
    known = await known_already(context, run_id, if_none_match) if attempt is None else None
    if known is not None:
        return not_modified(known)
    watched = await context.board.look(RUN, run_id)
    run = watched.state
    if run is None:
        context.board.drop_empty(RUN, run_id)
        raise no_such_run(run_id)
    observed = await context.observed(run.summary)
    run = replace(run, summary=observed.run)
    tag, stale = (
        run_tag(observed.run, context.clock.now_ms(), observed.conditions),
        staleness(context, run_id),
    )
    if attempt is not None:
        run.at_attempt(attempt)  # raises if there is no such attempt
        tag = weak_tag(tag, attempt)
    if matches(if_none_match, tag):
        return not_modified(tag, stale)
    accepts = "gzip" in request.headers.get("accept-encoding", "")
    body, is_compressed = await run_body(
        context, watched, run, observed.conditions, tag, attempt=attempt, compressed=accepts
    )
    encoding = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"} if is_compressed else {}
    return bytes_answer(body, JSON_TYPE, tag=tag, headers=encoding | stale)


async def _summary(context: ServerContext, run_id: str) -> RunSummary:
    found = await context.async_journal.find_run(run_id)
    if found is None:
        raise no_such_run(run_id)
    return found


def no_such_run(run_id: str) -> RunNotFound:
    """The error for a run that nobody recorded."""
    return RunNotFound(f"No run {run_id[:100]!r}. GET /api/runs lists them.")

"""Runs: the list, one run, and its files: export, report and check."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from longwatch.errors import RunNotFound
from longwatch.journal.base import Arrivals
from longwatch.journal.verify import Verifier
from longwatch.journal.views import listed_view, verification_view
from longwatch.model.run import RunSummary, Status
from longwatch.model.run_query import RunQuery
from longwatch.server.answers import JSON_TYPE, LINES_TYPE, bytes_answer, json_answer, not_modified
from longwatch.server.board import RUN
from longwatch.server.context import ServerContext
from longwatch.server.described import download, plain, tagged
from longwatch.server.parameters import After, ContextDep, IfNoneMatch, Moment, PageSize, RunId, cursor_of
from longwatch.server.reading import all_events, attachment, exported_line, streamed
from longwatch.server.report import EventWriter, ReportParts, report_name
from longwatch.server.run_answers import known_already, run_body
from longwatch.server.schemas import RunListShape, VerificationShape, WholeRunShape
from longwatch.server.tags import list_tag, matches, run_tag, weak_tag
from longwatch.server.waiting import staleness

UNLISTED_KINDS = frozenset(
    {"project", "conversation"}
)  # rooms for turns rather than work; listed when asked for

router = APIRouter(prefix="/api/runs", tags=["runs"])


@router.get("", response_class=Response, responses=tagged(RunListShape))
async def list_runs(
    context: ContextDep,
    status: Annotated[Status | None, Query(description="Only runs that stand like this.")] = None,
    kind: Annotated[
        str, Query(max_length=200, description="Only this kind; without it, no projects or conversations.")
    ] = "",
    since: Annotated[Moment | None, Query(description="Began at or after, epoch ms.")] = None,
    until: Annotated[Moment | None, Query(description="Began before, epoch ms.")] = None,
    text: Annotated[str, Query(max_length=200, description="Part of the id or the name.")] = "",
    limit: Annotated[PageSize, Query()] = 50,
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
    listed = [listed_view(each.run, now_ms=now, observed=each.conditions) for each in page.runs]
    return json_answer({"runs": listed, "cursor": page.cursor, "hint": hint}, tag=tag)


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


@router.get("/{run_id}/verify", response_class=Response, responses=plain(VerificationShape, 404))
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
    return json_answer(verification_view(run_id, report))


@router.get("/{run_id}", response_class=Response, responses=tagged(WholeRunShape, 404, from_memory=True))
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

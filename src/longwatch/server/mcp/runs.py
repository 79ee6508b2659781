"""Tools that read runs: list, search, show, compare, verify, and events after a cursor."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from pydantic import Field

from longwatch.errors import RunDeleted
from longwatch.journal.call_views import CallDetails, event_ids_of
from longwatch.journal.codec import encode_payload, payload_text, to_line
from longwatch.journal.views import EventView, FailureGroupView, RunLine, VerificationView
from longwatch.model.call_lookup import find_call
from longwatch.model.call_outline import Outline, OutlineRow
from longwatch.model.call_selection import OutlineOptions
from longwatch.model.calls import Call
from longwatch.model.event import START, Event, Page
from longwatch.model.failures import group_failures
from longwatch.model.json_schema import STRICT
from longwatch.model.preview import one_line
from longwatch.model.query_language import MAX_QUERY_CHARACTERS, parse_query
from longwatch.model.run import Run, RunSummary
from longwatch.model.run_outline import run_outline
from longwatch.recording.capture import truncate_text
from longwatch.recording.truncation import fit_payload
from longwatch.server import run_reads
from longwatch.server.api.parameters import MAX_CURSOR, cursor_of
from longwatch.server.cache.rendered_responses import all_events, at_attempt
from longwatch.server.cache.run_cache import RUN
from longwatch.server.mcp.box import ToolBox
from longwatch.server.mcp.results import (
    MAX_ERROR,
    MAX_NAME,
    CallBrief,
    CallReport,
    CallRow,
    Differences,
    EventsFound,
    EventsRead,
    RunBrief,
    RunReport,
    RunsFound,
    Verified,
)

MAX_RUNS = 50
MAX_HITS = 50
MAX_EVENTS = 100
MAX_EVENT_CHARACTERS = 40_000  # of the events of one result
MAX_ROWS = 200
MAX_DIFFERENCES = 200
MAX_CHILDREN = 20
MAX_LISTED = 20  # ranges, positions and IDs in one list
MAX_ERROR_CHARACTERS = 4_000
MAX_VALUE_CHARACTERS = 100_000

RunName = Annotated[
    str,
    Field(description="The ID of a run, the beginning of one, or `latest`.", min_length=1, max_length=2_000),
]
After = Annotated[
    str,
    Field(description="The `cursor` of an earlier result; by default the start.", max_length=MAX_CURSOR),
]
ValueCharacters = Annotated[
    int,
    Field(
        ge=200,
        le=MAX_VALUE_CHARACTERS,
        description="Longer values are shortened to this many characters of JSON, with a mark.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ListRuns:
    """Arguments of `list_runs`."""

    __pydantic_config__ = STRICT

    query: Annotated[
        str,
        Field(
            max_length=MAX_QUERY_CHARACTERS,
            description="Which runs, such as `status:failed,died agent:reader error:Timeout tag:nightly "
            "duration:>5m since:2d`. All terms must hold; commas are alternatives, a leading minus negates. "
            "Fields: status, kind, tag, user, session, agent, tool, name, run, error, duration, since, "
            "until. By default all runs of work.",
        ),
    ] = ""
    limit: Annotated[int, Field(ge=1, le=MAX_RUNS, description="Maximum number of runs.")] = 10
    after: After = ""


async def list_runs(box: ToolBox, given: ListRuns) -> RunsFound:
    """A page of runs, newest first."""
    context = box.context
    query = parse_query(given.query, now_ms=context.clock.now_ms())
    after = cursor_of(given.after) if given.after else None
    page = await context.call(context.observer.find_runs, query, after=after, limit=given.limit)
    now, prices = context.clock.now_ms(), context.prices.current()
    lines = [RunLine.of(each.run, now_ms=now, observed=each.conditions, prices=prices) for each in page.runs]
    failures = [FailureGroupView.of_group(each) for each in group_failures(each.run for each in page.runs)]
    left_out = []
    if page.cursor is not None:
        left_out.append("Older runs: call list_runs with `after` = `cursor`.")
    if context.unlisted.notice:
        left_out.append(context.unlisted.notice)
    return RunsFound(
        runs=list(map(RunBrief.of, lines)), failures=failures, cursor=page.cursor, left_out=left_out
    )


@dataclass(frozen=True, kw_only=True)
class SearchEvents:
    """Arguments of `search_events`."""

    __pydantic_config__ = STRICT

    query: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_QUERY_CHARACTERS,
            description='Words that one event must have, `"a phrase"` in quotes, and terms that select the '
            'runs: `"no such column" status:failed since:2d`. A DynamoDB table has no index: add `run:ID` or '
            "`since:1d`.",
        ),
    ]
    limit: Annotated[int, Field(ge=1, le=MAX_HITS, description="Maximum number of events.")] = 10
    after: After = ""


async def search_events(box: ToolBox, given: SearchEvents) -> EventsFound:
    """A page of the events that have the words, the latest first."""
    after = cursor_of(given.after) if given.after else None
    found = await box.context.call(run_reads.search, box.context, given.query, limit=given.limit, after=after)
    left_out = []
    if found.cursor is not None:
        left_out.append("More events: call search_events with `after` = `cursor`.")
    if found.unindexed:
        left_out.append(f"{found.unindexed:,} events are not indexed yet: search again to continue.")
    if found.hits:
        left_out.append("The whole events: call read_events, or show_run with `call`.")
    return EventsFound(hits=found.hits, cursor=found.cursor, unindexed=found.unindexed, left_out=left_out)


@dataclass(frozen=True, kw_only=True)
class ShowRun:
    """Arguments of `show_run`."""

    __pydantic_config__ = STRICT

    run: RunName
    call: Annotated[
        str | None,
        Field(
            max_length=2_000,
            description="Show this call in detail: its ID, the beginning of one, or a name that one call "
            "has.",
        ),
    ] = None
    attempt: Annotated[
        int | None, Field(ge=1, description="The attempt of a restarted run, from 1; by default the last.")
    ] = None
    errors: Annotated[bool, Field(description="Only calls that failed, and their callers.")] = False
    agent: Annotated[str | None, Field(max_length=2_000, description="Only calls of this agent.")] = None
    rows: Annotated[
        int,
        Field(ge=1, le=MAX_ROWS, description="Rows of the tree; calls beyond that are folded and counted."),
    ] = 40
    max_characters: ValueCharacters = 4_000


async def show_run(box: ToolBox, given: ShowRun) -> RunReport:
    """A run with the tree of its calls, or one call of it."""
    context = box.context
    found = await box.find(given.run)
    shown, number = await folded(box, found, given.attempt)
    rows: list[CallRow] = []
    report, left_out = None, list[str]()
    if given.call is not None:
        call = find_call(shown.calls, given.call, run_id=found.run_id)
        report, left_out = await _call_report(box, shown, call, given.max_characters)
    else:
        options = OutlineOptions(errors=given.errors, agent=given.agent, lines=given.rows)
        outlined = await context.call(run_outline, shown, options)
        has_ended = shown.summary.ending is not None
        rows = [_row(row, has_ended=has_ended) for row in outlined.rows]
        left_out = list(_folded(outlined, given))
    error = shown.summary.error
    brief = await box.brief(found)
    return RunReport(
        run=brief,
        attempt=number,
        error=truncate_text(error, MAX_ERROR_CHARACTERS) if error else None,
        counts=dict(sorted(shown.counts.items(), key=lambda pair: -pair[1])[:MAX_LISTED]),
        calls=rows,
        call=report,
        left_out=left_out,
    )


async def folded(box: ToolBox, found: RunSummary, attempt: int | None = None) -> tuple[Run, int]:
    """The run at this attempt with its calls, as it is at this moment, and the number of the attempt."""
    context = box.context
    watched = await context.run_cache.get(RUN, found.run_id)
    run = watched.state
    if run is None:
        context.run_cache.drop_empty(RUN, found.run_id)
        raise run_reads.run_not_found(found.run_id)
    observed = await context.observe(run.summary)
    run = replace(run, summary=observed.run)
    number = len(run.summary.attempts) if attempt is None else attempt
    return await at_attempt(context, run, attempt), number


def _folded(outlined: Outline, given: ShowRun) -> Iterable[str]:
    if outlined.folded:
        yield (
            f"{outlined.folded:,} calls are folded into rows of several: raise `rows` (at most {MAX_ROWS}), "
            "or use `errors`, `agent` or `call`."
        )
    if outlined.left_out:
        yield f"{outlined.left_out:,} calls do not match: omit `errors` and `agent`."
    if outlined.rows:
        yield "Arguments and results: call show_run with `call`."


def _row(row: OutlineRow, *, has_ended: bool) -> CallRow:
    return CallRow(
        depth=row.depth,
        row=row.kind.value,
        count=row.count,
        failed=row.failed,
        below=row.below,
        leads_to_failure=row.leads_to_failure,
        call=call_brief(row.first, has_ended=has_ended),
    )


def call_brief(call: Call, *, has_ended: bool) -> CallBrief:
    """The short form of a call."""
    error = call.end.error if call.end else None
    return CallBrief(
        call_id=call.call_id,
        kind=call.kind,
        name=one_line(call.name, MAX_NAME),
        agent_name=call.agent_name,
        status=call.status_in(run_has_ended=has_ended),
        started_at=call.started_at,
        duration_ms=call.duration_ms,
        error=one_line(error, MAX_ERROR) if error else None,
        preview=call.preview or None,
    )


async def _call_report(box: ToolBox, run: Run, call: Call, most: int) -> tuple[CallReport, list[str]]:
    wanted = event_ids_of(call)
    events: list[Event] = []
    async for page in all_events(box.context, run.run_id):
        events += [event for event in page if event.event_id in wanted]
        if len(events) == len(wanted):
            break
    details = CallDetails.of(run, call, events)
    has_ended = run.summary.ending is not None
    brief = partial(_brief_by_id, run, has_ended)
    values = {name: shorten(getattr(details, name), most) for name in ("parameters", "input", "output")}
    cut = [name for name, (_, is_cut) in values.items() if is_cut]
    left_out = []
    if cut:
        left_out.append(
            f"{', '.join(cut)} shortened: raise `max_characters` (at most {MAX_VALUE_CHARACTERS:,})."
        )
    if len(details.children) > MAX_CHILDREN:
        left_out.append(
            f"{len(details.children) - MAX_CHILDREN:,} more calls in it: call show_run without `call`."
        )
    return (
        CallReport(
            call=call_brief(call, has_ended=has_ended),
            parameters=values["parameters"][0],
            input=values["input"][0],
            output=values["output"][0],
            traceback=truncate_text(details.traceback, most) if details.traceback else None,
            parent=brief(details.parent["call_id"]) if details.parent else None,
            children=[brief(each["call_id"]) for each in details.children[:MAX_CHILDREN]],
            attempts=[brief(each["call_id"]) for each in details.attempts[-MAX_CHILDREN:]],
        ),
        left_out,
    )


def _brief_by_id(run: Run, has_ended: bool, call_id: str) -> CallBrief:
    return call_brief(run.calls[call_id], has_ended=has_ended)


def shorten(value: Any, most: int) -> tuple[Any, bool]:
    """The value with at most about this many characters of JSON, and whether it was shortened."""
    if value is None:
        return None, False
    payload = {"value": value}
    text = encode_payload(payload)
    if len(text) <= most:
        return value, False
    cut, _ = fit_payload(payload, text, most)
    return cut.get("value"), True


@dataclass(frozen=True, kw_only=True)
class CompareRuns:
    """Arguments of `compare_runs`."""

    __pydantic_config__ = STRICT

    a: RunName
    b: RunName
    rows: Annotated[
        int,
        Field(ge=1, le=MAX_DIFFERENCES, description="Maximum number of calls; those that differ come first."),
    ] = 40


async def compare_runs(box: ToolBox, given: CompareRuns) -> Differences:
    """Two runs side by side: their calls aligned, with what differs."""
    runs = [await box.find(wanted) for wanted in (given.a, given.b)]
    view = await box.context.call(run_reads.compare, box.context, runs, max_rows=given.rows)
    shown = view.rows[: given.rows]
    hidden = view.left_out + len(view.rows) - len(shown)
    left_out = [f"{hidden:,} more calls: raise `rows` (at most {MAX_DIFFERENCES})."] if hidden else []
    first = view.first_difference
    view = replace(
        view,
        rows=shown,
        left_out=hidden,
        first_difference=first if first is not None and first < len(shown) else None,
    )
    return Differences(comparison=view, left_out=left_out)


@dataclass(frozen=True, kw_only=True)
class VerifyRun:
    """Arguments of `verify_run`."""

    __pydantic_config__ = STRICT

    run: RunName


async def verify_run(box: ToolBox, given: VerifyRun) -> Verified:
    """Whether every event of a run is stored as it was written."""
    view = await run_reads.verify_run(box.context, await _id_of(box, given.run))
    return Verified(verification=_bounded(view), left_out=list(_hidden(view)))


async def _id_of(box: ToolBox, wanted: str) -> str:
    """The ID of a run; of a deleted one, which is verified too, the ID as it was given."""
    try:
        return (await box.find(wanted)).run_id
    except RunDeleted:
        return wanted


def _bounded(view: VerificationView) -> VerificationView:
    producers = [
        replace(
            each,
            missing=list(each.missing)[:MAX_LISTED],
            altered=list(each.altered)[:MAX_LISTED],
            unreadable=list(each.unreadable)[:MAX_LISTED],
        )
        for each in view.producers[:MAX_LISTED]
    ]
    return replace(view, producers=producers, unreadable=view.unreadable[:MAX_LISTED])


def _hidden(view: VerificationView) -> Iterable[str]:
    lists: list[Sequence[object]] = [view.producers, view.unreadable]
    lists += [
        list(found) for each in view.producers for found in (each.missing, each.altered, each.unreadable)
    ]
    if any(len(found) > MAX_LISTED for found in lists):
        yield f"Lists are cut to {MAX_LISTED} entries: `longwatch verify {view.run_id} -o json` has all."


@dataclass(frozen=True, kw_only=True)
class ReadEvents:
    """Arguments of `read_events`."""

    __pydantic_config__ = STRICT

    run: RunName
    after: After = ""
    limit: Annotated[int, Field(ge=1, le=MAX_EVENTS, description="Maximum number of events.")] = 20
    max_characters: ValueCharacters = 1_000


async def read_events(box: ToolBox, given: ReadEvents) -> EventsRead:
    """A page of events; fewer than the limit if they are large."""
    context = box.context
    found = await box.find(given.run)
    after = cursor_of(given.after) if given.after else START
    page = await context.async_journal.read(found.run_id, after=after, limit=given.limit)
    events, cut = await context.call(_wire_events, page, given.max_characters)
    is_short = len(events) < len(page.events)
    left_out = []
    if cut:
        left_out.append(
            f"The payloads of {cut} events are shortened: raise `max_characters` (at most "
            f"{MAX_VALUE_CHARACTERS:,}), with a low `limit`."
        )
    if is_short or page.more:
        left_out.append("More events: call read_events with `after` = `cursor`.")
    return EventsRead(
        run_id=found.run_id,
        events=events,
        cursor=page.cursor_after(len(events)),
        more=is_short or page.more,
        left_out=left_out,
    )


def _wire_events(page: Page, most: int) -> tuple[list[EventView], int]:
    """The first events of the page, as many as a result may have, and how many of them are shortened."""
    found: list[EventView] = []
    size = cut = 0
    for event in page.events:
        line, is_cut = _line(event, most)
        size += len(line)
        if found and size > MAX_EVENT_CHARACTERS:
            break
        found.append(EventView(**json.loads(line)))
        cut += is_cut
    return found, cut


def _line(event: Event, most: int) -> tuple[str, bool]:
    text = payload_text(event)
    if len(text) <= most:
        return to_line(event), False
    payload, text = fit_payload(event.payload, text, most)
    return to_line(replace(event, payload=payload, encoded=text)), True

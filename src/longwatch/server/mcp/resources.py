"""Runs as resources: the newest are listed, any can be read by its URI."""

from __future__ import annotations

from urllib.parse import quote, unquote

from mcp_types import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from longwatch.errors import InvalidInput
from longwatch.model.preview import one_line
from longwatch.model.run_query import WORK
from longwatch.server.api.parameters import cursor_of
from longwatch.server.mcp.box import ToolBox
from longwatch.server.mcp.own_run import MyRun, my_run
from longwatch.server.mcp.results import MAX_NAME, NOTICE, ToolResult
from longwatch.server.mcp.runs import ReadEvents, ShowRun, read_events, show_run
from longwatch.server.mcp.texts import text_of

RUNS = "longwatch://runs/"
EVENTS = "/events"
OWN_RUN = "longwatch://my-run"
TEXT_TYPE = "text/plain"
LISTED_RUNS = 50  # on a page

TEMPLATES = ListResourceTemplatesResult(
    resource_templates=[
        ResourceTemplate(
            uri_template=f"{RUNS}{{run_id}}",
            name="run",
            title="A run",
            description=f"A run and the tree of its calls, as show_run returns it. {NOTICE}",
            mime_type=TEXT_TYPE,
        ),
        ResourceTemplate(
            uri_template=f"{RUNS}{{run_id}}{EVENTS}",
            name="events",
            title="The events of a run",
            description=f"The first events of a run, as read_events returns them. {NOTICE}",
            mime_type=TEXT_TYPE,
        ),
    ]
)


def run_uri(run_id: str) -> str:
    """The URI of a run. An ID may have any character."""
    return RUNS + quote(run_id, safe="")


async def list_resources(box: ToolBox, cursor: str | None) -> ListResourcesResult:
    """The newest runs, and at first the caller's own."""
    context = box.context
    after = cursor_of(cursor) if cursor else None
    page = await context.call(context.observer.find_runs, WORK, after=after, limit=LISTED_RUNS)
    own = [] if cursor or box.own_run is None else [_own_run()]
    found = [
        Resource(
            uri=run_uri(each.run.run_id),
            name=one_line(each.run.name or each.run.run_id, MAX_NAME),
            description=f"{each.run.kind}, {each.run.status.value}, {each.run.events:,} events",
            mime_type=TEXT_TYPE,
        )
        for each in page.runs
    ]
    return ListResourcesResult(resources=[*own, *found], next_cursor=page.cursor)


def _own_run() -> Resource:
    return Resource(
        uri=OWN_RUN, name="my run", description="The run that you are part of.", mime_type=TEXT_TYPE
    )


async def read_resource(box: ToolBox, uri: str) -> ReadResourceResult:
    """The text of a resource."""
    text = text_of(await _read(box, uri))
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, text=text, mime_type=TEXT_TYPE)])


async def _read(box: ToolBox, uri: str) -> ToolResult:
    if uri == OWN_RUN:
        return await my_run(box, MyRun())
    run_id, has_events = run_of(uri)
    if has_events:
        return await read_events(box, ReadEvents(run=run_id))
    return await show_run(box, ShowRun(run=run_id))


def run_of(uri: str) -> tuple[str, bool]:
    """The ID of the run that a URI names, and whether it names its events."""
    path = uri.removeprefix(RUNS)
    name = path.removesuffix(EVENTS)
    run_id = unquote(name, errors="replace")
    if path == uri or not run_id or "/" in name:
        raise InvalidInput(
            f"Unknown resource {uri[:200]!r}. Use {RUNS}RUN_ID or {RUNS}RUN_ID{EVENTS}, with the ID "
            "percent-encoded."
        )
    return run_id, name != path

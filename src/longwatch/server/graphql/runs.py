"""Runs in GraphQL, with their calls and events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import strawberry
from strawberry.types import Info

from longwatch.journal.codec import to_line
from longwatch.journal.usage_views import UsageView
from longwatch.journal.views import (
    EventView,
    FailureGroupView,
    ModelCallView,
    ProducerView,
    RunLine,
    usage_of_runs,
)
from longwatch.model.event import MAX_RUN_ID_BYTES, Event
from longwatch.model.failures import group_failures
from longwatch.model.query_language import MAX_QUERY_CHARACTERS
from longwatch.model.run import Status
from longwatch.server.api.parameters import MAX_CURSOR, cursor_of
from longwatch.server.api.runs import run_details, run_query
from longwatch.server.context import ServerContext
from longwatch.server.errors import ApiError
from longwatch.server.graphql.fields import (
    GraphqlContext,
    checked,
    checked_first,
    connection,
    connection_type,
    reading,
    server_of,
    slice_of,
)
from longwatch.server.graphql.types import (
    ENUM_OF_STATUS,
    JSON,
    Long,
    entries_of,
    list_of,
    object_type,
    plain_field,
    read_field,
)
from longwatch.server.run_reads import existing_run

MAX_RUNS = 200  # in a page
MAX_EVENTS = 1_000
MAX_CALLS = 1_000
DETAILS = "\0details"  # in the source of a run: the task that loads its details
ATTEMPT = "\0attempt"  # the attempt that was asked for

RequestInfo = Info[GraphqlContext, None]

EventType = object_type(EventView)
EventConnection = connection_type(EventType)
CallType = object_type(ModelCallView)
CallConnection = connection_type(CallType)


def run_source(view: RunLine | Mapping[str, Any], attempt: int | None = None) -> dict[str, Any]:
    """The source of a run's fields."""
    fields = dict(view) if isinstance(view, Mapping) else dict(vars(view))
    return {**fields, ATTEMPT: attempt}


async def details_of(root: dict[str, Any], info: RequestInfo) -> Any:
    """The details of a run, loaded once for all of its fields."""
    if DETAILS not in root:
        loading = run_details(server_of(info), root["run_id"], root[ATTEMPT])
        root[DETAILS] = asyncio.ensure_future(loading)
    return await asyncio.shield(root[DETAILS])


class RunFields:
    """The fields of a run that a list does not have."""

    event_count = strawberry.field(
        resolver=lambda root: read_field(root, "events"),
        graphql_type=Long,
        description="The number of events.",
    )

    @reading(JSON)
    async def counts(root: Any, info: RequestInfo) -> Any:
        """Event type → number of events."""
        return read_field(await details_of(root, info), "counts")

    @reading(entries_of(ProducerView))
    async def producers(root: Any, info: RequestInfo) -> Any:
        """The producers of its events by name."""
        return _entries(read_field(await details_of(root, info), "producers"))

    @reading(entries_of(UsageView))
    async def usage_by_agent(root: Any, info: RequestInfo) -> Any:
        """Agent → usage of the models that it called itself."""
        return _entries(read_field(await details_of(root, info), "usage_by_agent"))

    @reading(CallConnection)
    async def calls(
        root: Any,
        info: RequestInfo,
        first: int = 20,
        after: str | None = None,
        kind: str | None = None,
        status: str | None = None,
    ) -> Any:
        """Its calls in order of their start, of this kind and with this status if given."""
        first = checked_first(first, MAX_CALLS)
        found = [
            call
            for call in read_field(await details_of(root, info), "calls")
            if (not kind or call["kind"] == kind) and (not status or call["status"] == status)
        ]
        return slice_of(found, [call["call_id"] for call in found], after, first)

    @reading(EventConnection)
    async def events(root: Any, info: RequestInfo, first: int = 20, after: str | None = None) -> Any:
        """Its events in order of arrival. A subscription resumes from `endCursor`."""
        first = checked_first(first, MAX_EVENTS)
        cursor = cursor_of(checked(after, "after", most=MAX_CURSOR))
        page = await server_of(info).async_journal.read(root["run_id"], after=cursor, limit=first)
        nodes = await server_of(info).call(_event_fields, page.events)
        return connection(nodes, page.cursor, more=page.more)


def _entries(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def _event_fields(events: Sequence[Event]) -> list[Any]:
    """Events as `longwatch export` writes them."""
    return [json.loads(to_line(event)) for event in events]


RunType = object_type(RunLine, resolvers=RunFields, without=["events"])
RunConnection = connection_type(
    RunType,
    {
        "hint": plain_field(str | None, "Which runs of other producers may be missing, and what to do."),
        "usage": plain_field(object_type(UsageView) | None, "Of these runs together."),
        "failures": plain_field(
            list_of(object_type(FailureGroupView)), "Two or more of these runs that failed alike."
        ),
    },
)


class RunQueries:
    """The queries over runs."""

    @reading(RunConnection)
    async def runs(
        root: Any,
        info: RequestInfo,
        query: str | None = None,
        status: ENUM_OF_STATUS | None = None,
        kind: str | None = None,
        since: Long | None = None,
        until: Long | None = None,
        text: str | None = None,
        first: int = 50,
        after: str | None = None,
    ) -> Any:
        """Runs, newest first, that match a query such as `status:failed tag:nightly since:2d`."""
        server = server_of(info)
        first = checked_first(first, MAX_RUNS)
        wanted = run_query(
            checked(query, "query", most=MAX_QUERY_CHARACTERS),
            server.clock.now_ms(),
            status=None if status is None else Status(status.value),
            kind=checked(kind, "kind"),
            since=since,
            until=until,
            text=checked(text, "text"),
        )
        cursor = cursor_of(checked(after, "after", most=MAX_CURSOR)) if after else None
        page = await server.call(server.observer.find_runs, wanted, after=cursor, limit=first)
        now, prices = server.clock.now_ms(), server.prices.current()
        found = [each.run for each in page.runs]
        nodes = [
            run_source(RunLine.of(each.run, now_ms=now, observed=each.conditions, prices=prices))
            for each in page.runs
        ]
        return connection(
            nodes,
            page.cursor or after or None,
            more=page.cursor is not None,
            hint=server.unlisted.notice,
            usage=usage_of_runs(found, prices),
            failures=[FailureGroupView.of_group(each) for each in group_failures(found)],
        )

    @reading(RunType | None)
    async def run(root: Any, info: RequestInfo, run_id: str, attempt: int | None = None) -> Any:
        """One run, at one of its attempts if given. It is null, with an error, if there is none."""
        server, run_id = server_of(info), checked(run_id, "runId")
        if len(run_id.encode()) > MAX_RUN_ID_BYTES:
            raise ApiError(422, "invalid_request", f"Invalid runId: longer than {MAX_RUN_ID_BYTES} bytes.")
        if attempt is not None:
            return run_source(await load_attempt(server, run_id, attempt), attempt)
        return run_source(await load_line(server, run_id))


async def load_attempt(server: ServerContext, run_id: str, attempt: int) -> dict[str, Any]:
    """The fields of a run at one attempt."""
    details = await run_details(server, run_id, attempt)
    return dict(details) if isinstance(details, Mapping) else dict(vars(details))


async def load_line(server: ServerContext, run_id: str) -> RunLine:
    """One run as in the list. Its events are not read for that."""
    observed = await server.observe(await existing_run(server, run_id))
    return RunLine.of(
        observed.run,
        now_ms=server.clock.now_ms(),
        observed=observed.conditions,
        prices=server.prices.current(),
    )

"""Executions in GraphQL."""

from __future__ import annotations

from typing import Any

from strawberry.types import Info

from longwatch.executions.model import MAX_KEY_BYTES, Mode
from longwatch.executions.views import ExecutionDetails, ExecutionListItem
from longwatch.model.run import Status
from longwatch.server.api.executions import execution_details
from longwatch.server.api.parameters import MAX_CURSOR
from longwatch.server.cache.execution_cache import ExecutionQuery
from longwatch.server.graphql.fields import (
    GraphqlContext,
    checked,
    checked_first,
    connection,
    connection_type,
    reading,
    server_of,
)
from longwatch.server.graphql.runs import RunType, load_line, run_source
from longwatch.server.graphql.types import ENUM_OF_STATUS, enum_type, object_type, plain_field

MAX_EXECUTIONS = 200  # in a page

RequestInfo = Info[GraphqlContext, None]
ENUM_OF_MODE: Any = enum_type("Mode", [mode.value for mode in Mode])


class ExecutionFields:
    """The run of an execution."""

    @reading(RunType | None)
    async def run(root: Any, info: RequestInfo) -> Any:
        """The run of its events."""
        return run_source(await load_line(server_of(info), root["run_id"]))


ExecutionLineType = object_type(ExecutionListItem, name="ExecutionLine", resolvers=ExecutionFields)
ExecutionType = object_type(ExecutionDetails, name="Execution", resolvers=ExecutionFields)
ExecutionConnection = connection_type(
    ExecutionLineType, {"hint": plain_field(str | None, "Why the list is empty, and what to do.")}
)


class ExecutionQueries:
    """The queries over executions."""

    @reading(ExecutionConnection)
    async def executions(
        root: Any,
        info: RequestInfo,
        status: ENUM_OF_STATUS | None = None,
        mode: ENUM_OF_MODE | None = None,
        source: str | None = None,
        text: str | None = None,
        first: int = 50,
        after: str | None = None,
    ) -> Any:
        """Executions in other systems, newest first."""
        server, first = server_of(info), checked_first(first, MAX_EXECUTIONS)
        query = ExecutionQuery(
            status=None if status is None else Status(status.value),
            mode=None if mode is None else Mode(mode.value),
            source=checked(source, "source"),
            text=checked(text, "text"),
        )
        cursor = checked(after, "after", most=MAX_CURSOR)
        page = await server.call(server.executions.find, query, after=cursor, limit=first)
        cadence, now = (
            await server.call(server.executions.lessons_for, page.executions),
            server.clock.now_ms(),
        )
        nodes = [vars(ExecutionListItem.of(each, now_ms=now, cadence=cadence)) for each in page.executions]
        return connection(nodes, page.cursor or after or None, more=page.cursor is not None, hint=page.hint)

    @reading(ExecutionType | None)
    async def execution(root: Any, info: RequestInfo, execution_id: str, plan_id: str | None = None) -> Any:
        """One execution with its waves and its verdict. The plan is required if several have this id."""
        name = checked(execution_id, "executionId", most=MAX_KEY_BYTES)
        plan = checked(plan_id, "planId", most=MAX_KEY_BYTES) or None
        return vars(await execution_details(server_of(info), name, plan))

"""Executions: the list and one execution. Routes only read: longwatch never starts or stops one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from longwatch.executions.model import Mode
from longwatch.executions.views import ExecutionDetails, ExecutionList, ExecutionListItem
from longwatch.model.run import Status
from longwatch.server.api.openapi import etag_responses
from longwatch.server.api.parameters import (
    After,
    ContextDep,
    ExecutionId,
    ExecutionName,
    IfNoneMatch,
    PageLimit,
    PlanId,
)
from longwatch.server.cache.execution_cache import ExecutionQuery
from longwatch.server.context import ServerContext
from longwatch.server.responses import execution_etag, json_response, list_etag, matches, not_modified

router = APIRouter(prefix="/api/executions", tags=["executions"])


@router.get("", response_class=Response, responses=etag_responses(ExecutionList))
async def list_executions(
    context: ContextDep,
    status: Annotated[Status | None, Query(description="Only executions with this status.")] = None,
    mode: Annotated[Mode | None, Query(description="Only drills, recoveries or jobs.")] = None,
    source: Annotated[str, Query(max_length=200, description="Only executions of this source.")] = "",
    text: Annotated[str, Query(max_length=200, description="Part of the id, the name or the plan.")] = "",
    limit: Annotated[PageLimit, Query()] = 50,
    after: After = "",
    if_none_match: IfNoneMatch = "",
) -> Response:
    """List executions, newest first.

    With filters a page may have fewer than `limit`; only a null `cursor` is the end of the list.
    """
    executions, now = context.executions, context.clock.now_ms()
    query = ExecutionQuery(status=status, mode=mode, source=source, text=text)
    page = await context.call(executions.find, query, after=after, limit=limit)
    cadence = await context.call(executions.lessons_for, page.executions)
    listed = [ExecutionListItem.of(each, now_ms=now, cadence=cadence) for each in page.executions]
    etag = list_etag(map(execution_etag, listed), f"{page.cursor} {page.hint}")
    if matches(if_none_match, etag):
        return not_modified(etag)
    return json_response(ExecutionList(executions=listed, cursor=page.cursor, hint=page.hint), etag=etag)


@router.get("/{execution_id}", response_class=Response, responses=etag_responses(ExecutionDetails, 404, 409))
async def show_execution(
    context: ContextDep,
    execution_id: ExecutionName,
    plan: Annotated[
        str,
        Query(max_length=2048, description="Its plan; required if several plans have this id."),
    ] = "",
    if_none_match: IfNoneMatch = "",
) -> Response:
    """Show one execution: waves, jobs, servers, verdict, and the reasons for its status.

    409 if several plans have an execution with this id; the details name the plans.
    """
    return await _show(context, execution_id, plan or None, if_none_match)


@router.get(
    "/{plan_id}/{execution_id}", response_class=Response, responses=etag_responses(ExecutionDetails, 404)
)
async def show_execution_of_plan(
    context: ContextDep, plan_id: PlanId, execution_id: ExecutionId, if_none_match: IfNoneMatch = ""
) -> Response:
    """Show one execution of this plan."""
    return await _show(context, execution_id, plan_id, if_none_match)


async def _show(context: ServerContext, name: str, plan_id: str | None, if_none_match: str) -> Response:
    view = await execution_details(context, name, plan_id)
    etag = execution_etag(view)
    if matches(if_none_match, etag):
        return not_modified(etag)
    return json_response(view, etag=etag)


async def execution_details(
    context: ServerContext, name: str, plan_id: str | None = None
) -> ExecutionDetails:
    """One execution. Without a plan the name is `plan/execution`, or the id of only one."""
    executions, now = context.executions, context.clock.now_ms()
    execution = await context.call(executions.get, name, plan_id)
    cadence = await context.call(executions.lessons_for, [execution])
    return ExecutionDetails.of(execution, now_ms=now, cadence=cadence)

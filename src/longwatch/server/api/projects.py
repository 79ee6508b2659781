"""Projects and sessions: make them, list them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body
from starlette.responses import Response

from longwatch.server.api.openapi import plain, tagged, written
from longwatch.server.api.parameters import ContextDep, IfNoneMatch, ProjectId, SessionId
from longwatch.server.api.turn_schemas import (
    NewProject,
    NewSession,
    ProjectListShape,
    ProjectShape,
    SessionListShape,
    SessionShape,
)
from longwatch.server.context import ServerContext
from longwatch.server.responses import json_answer, matches, not_modified, weak_tag
from longwatch.turns import Conversation, conversation_view, project_view, tag_of

router = APIRouter(prefix="/api/projects", tags=["projects"])


@router.get("", response_class=Response, responses=tagged(ProjectListShape))
async def list_projects(context: ContextDep, if_none_match: IfNoneMatch = "") -> Response:
    """List projects, the first one first."""
    projects = await context.call(context.conversations.projects)
    tag = weak_tag(*((project.id, project.name, project.order) for project in projects))
    if matches(if_none_match, tag):
        return not_modified(tag)
    return json_answer({"projects": [project_view(project) for project in projects]}, tag=tag)


@router.post("", status_code=201, response_class=Response, responses=written(ProjectShape, 409, status=201))
async def create_project(context: ContextDep, wanted: Annotated[NewProject, Body()]) -> Response:
    """Make a project. The same again is the same project."""
    project = await context.call(context.conversations.create_project, wanted.id or None, wanted.name or None)
    return json_answer(project_view(project), status=201)


@router.get("/{project_id}", response_class=Response, responses=plain(ProjectShape, 404))
async def show_project(context: ContextDep, project_id: ProjectId) -> Response:
    """Show one project."""
    return json_answer(project_view(await context.call(context.conversations.project, project_id)))


@router.get("/{project_id}/sessions", response_class=Response, responses=tagged(SessionListShape, 404))
async def list_sessions(
    context: ContextDep, project_id: ProjectId, if_none_match: IfNoneMatch = ""
) -> Response:
    """List the sessions of a project, the first one first, each with how its last turn stands."""
    told = await context.call(_sessions, context, project_id)
    tag = weak_tag(*(tag for tag, _ in told))
    if matches(if_none_match, tag):
        return not_modified(tag)
    return json_answer({"sessions": [view for _, view in told]}, tag=tag)


@router.post(
    "/{project_id}/sessions",
    status_code=201,
    response_class=Response,
    responses=written(SessionShape, 404, 409, status=201),
)
async def create_session(
    context: ContextDep, project_id: ProjectId, wanted: Annotated[NewSession, Body()]
) -> Response:
    """Make a session. The same again is the same session."""
    session = await context.call(
        context.conversations.create_conversation, project_id, wanted.id or None, wanted.title or None
    )
    _, view = await context.call(_session, context, session)
    return json_answer(view, status=201)


@router.get(
    "/{project_id}/sessions/{session_id}", response_class=Response, responses=tagged(SessionShape, 404)
)
async def show_session(
    context: ContextDep, project_id: ProjectId, session_id: SessionId, if_none_match: IfNoneMatch = ""
) -> Response:
    """Show one session."""
    session = await context.call(context.conversations.conversation, project_id, session_id)
    told, view = await context.call(_session, context, session)
    tag = weak_tag(told)
    return not_modified(tag) if matches(if_none_match, tag) else json_answer(view, tag=tag)


def _sessions(context: ServerContext, project_id: str) -> list[tuple[str, dict[str, Any]]]:
    return [_session(context, session) for session in context.conversations.conversations(project_id)]


def _session(context: ServerContext, session: Conversation) -> tuple[str, dict[str, Any]]:
    """A session's tag and view. Blocks the calling thread."""
    last = context.conversations.last_turn(session)
    known = tag_of(last) if last is not None else ""
    return weak_tag(session.id, session.title, session.turn_count, known), conversation_view(session, last)

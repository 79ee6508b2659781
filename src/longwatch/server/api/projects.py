"""Projects and sessions: make them, list them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body
from pydantic import Field
from starlette.responses import Response

from longwatch.server.api.openapi import plain, tagged, written
from longwatch.server.api.parameters import ContextDep, IfNoneMatch, ProjectId, RequestBody, SessionId
from longwatch.server.context import ServerContext
from longwatch.server.responses import json_answer, matches, not_modified, weak_tag
from longwatch.turns.projects import Conversation
from longwatch.turns.turn import tag_of
from longwatch.turns.views import ProjectList, ProjectView, SessionList, SessionView

router = APIRouter(prefix="/api/projects", tags=["projects"])

NewId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=100,
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$",
        description="By default the server makes one.",
    ),
]


class CreateProjectRequest(RequestBody):
    """A new project."""

    id: NewId = ""
    name: Annotated[str, Field(max_length=1000)] = ""


class CreateSessionRequest(RequestBody):
    """A new session."""

    id: NewId = ""
    title: Annotated[str, Field(max_length=1000)] = ""


@router.get("", response_class=Response, responses=tagged(ProjectList))
async def list_projects(context: ContextDep, if_none_match: IfNoneMatch = "") -> Response:
    """List projects, the first one first."""
    projects = await context.call(context.conversations.projects)
    tag = weak_tag(*((project.id, project.name, project.order) for project in projects))
    if matches(if_none_match, tag):
        return not_modified(tag)
    return json_answer(ProjectList(projects=[ProjectView.of(project) for project in projects]), tag=tag)


@router.post("", status_code=201, response_class=Response, responses=written(ProjectView, 409, status=201))
async def create_project(context: ContextDep, wanted: Annotated[CreateProjectRequest, Body()]) -> Response:
    """Make a project. The same again is the same project."""
    project = await context.call(context.conversations.create_project, wanted.id or None, wanted.name or None)
    return json_answer(ProjectView.of(project), status=201)


@router.get("/{project_id}", response_class=Response, responses=plain(ProjectView, 404))
async def show_project(context: ContextDep, project_id: ProjectId) -> Response:
    """Show one project."""
    return json_answer(ProjectView.of(await context.call(context.conversations.project, project_id)))


@router.get("/{project_id}/sessions", response_class=Response, responses=tagged(SessionList, 404))
async def list_sessions(
    context: ContextDep, project_id: ProjectId, if_none_match: IfNoneMatch = ""
) -> Response:
    """List the sessions of a project, the first one first, each with how its last turn stands."""
    sessions = await context.call(_sessions, context, project_id)
    tag = weak_tag(*(tag for tag, _ in sessions))
    if matches(if_none_match, tag):
        return not_modified(tag)
    return json_answer(SessionList(sessions=[view for _, view in sessions]), tag=tag)


@router.post(
    "/{project_id}/sessions",
    status_code=201,
    response_class=Response,
    responses=written(SessionView, 404, 409, status=201),
)
async def create_session(
    context: ContextDep, project_id: ProjectId, wanted: Annotated[CreateSessionRequest, Body()]
) -> Response:
    """Make a session. The same again is the same session."""
    session = await context.call(
        context.conversations.create_conversation, project_id, wanted.id or None, wanted.title or None
    )
    _, view = await context.call(_session, context, session)
    return json_answer(view, status=201)


@router.get(
    "/{project_id}/sessions/{session_id}", response_class=Response, responses=tagged(SessionView, 404)
)
async def show_session(
    context: ContextDep, project_id: ProjectId, session_id: SessionId, if_none_match: IfNoneMatch = ""
) -> Response:
    """Show one session."""
    session = await context.call(context.conversations.conversation, project_id, session_id)
    told, view = await context.call(_session, context, session)
    tag = weak_tag(told)
    return not_modified(tag) if matches(if_none_match, tag) else json_answer(view, tag=tag)


def _sessions(context: ServerContext, project_id: str) -> list[tuple[str, SessionView]]:
    return [_session(context, session) for session in context.conversations.conversations(project_id)]


def _session(context: ServerContext, session: Conversation) -> tuple[str, SessionView]:
    """A session's tag and view. Blocks the calling thread."""
    last = context.conversations.last_turn(session)
    known = tag_of(last) if last is not None else ""
    return weak_tag(session.id, session.title, session.turn_count, known), SessionView.of(session, last)

"""Projects and their sessions: create, list and show."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body
from pydantic import Field
from starlette.responses import Response

from longwatch.server.api.openapi import etag_responses, json_responses, write_responses
from longwatch.server.api.parameters import ContextDep, IfNoneMatch, ProjectId, RequestBody, SessionId
from longwatch.server.context import ServerContext
from longwatch.server.responses import json_response, matches, not_modified, weak_etag
from longwatch.turns.projects import Conversation
from longwatch.turns.turn import tag_of
from longwatch.turns.views import (
    ProjectListView,
    ProjectView,
    SessionDetails,
    SessionList,
    SessionView,
)

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


@router.get("", response_class=Response, responses=etag_responses(ProjectListView))
async def list_projects(context: ContextDep, if_none_match: IfNoneMatch = "") -> Response:
    """List projects, oldest first."""
    projects = await context.call(context.conversations.projects)
    etag = weak_etag(*((project.id, project.name, project.order) for project in projects))
    if matches(if_none_match, etag):
        return not_modified(etag)
    return json_response(
        ProjectListView(projects=[ProjectView.of(project) for project in projects]), etag=etag
    )


@router.post(
    "", status_code=201, response_class=Response, responses=write_responses(ProjectView, 409, status=201)
)
async def create_project(context: ContextDep, wanted: Annotated[CreateProjectRequest, Body()]) -> Response:
    """Create a project. A repeated request returns the same project."""
    project = await context.call(context.conversations.create_project, wanted.id or None, wanted.name or None)
    return json_response(ProjectView.of(project), status=201)


@router.get("/{project_id}", response_class=Response, responses=json_responses(ProjectView, 404))
async def show_project(context: ContextDep, project_id: ProjectId) -> Response:
    """Show one project."""
    return json_response(ProjectView.of(await context.call(context.conversations.project, project_id)))


@router.get("/{project_id}/sessions", response_class=Response, responses=etag_responses(SessionList, 404))
async def list_sessions(
    context: ContextDep, project_id: ProjectId, if_none_match: IfNoneMatch = ""
) -> Response:
    """List the sessions of a project, oldest first, each with the status of its last turn."""
    sessions = await context.call(_sessions, context, project_id)
    etag = weak_etag(*(etag for etag, _ in sessions))
    if matches(if_none_match, etag):
        return not_modified(etag)
    return json_response(SessionList(sessions=[view for _, view in sessions]), etag=etag)


@router.post(
    "/{project_id}/sessions",
    status_code=201,
    response_class=Response,
    responses=write_responses(SessionView, 404, 409, status=201),
)
async def create_session(
    context: ContextDep, project_id: ProjectId, wanted: Annotated[CreateSessionRequest, Body()]
) -> Response:
    """Create a session. A repeated request returns the same session."""
    session = await context.call(
        context.conversations.create_conversation, project_id, wanted.id or None, wanted.title or None
    )
    _, view = await context.call(session_of, context, session)
    return json_response(view, status=201)


@router.get(
    "/{project_id}/sessions/{session_id}",
    response_class=Response,
    responses=etag_responses(SessionDetails, 404),
)
async def show_session(
    context: ContextDep, project_id: ProjectId, session_id: SessionId, if_none_match: IfNoneMatch = ""
) -> Response:
    """Show one session, with the usage of its turns together."""
    session = await context.call(context.conversations.conversation, project_id, session_id)
    session_etag, _ = await context.call(session_of, context, session)
    etag = weak_etag(session_etag, context.prices.tag)
    if matches(if_none_match, etag):
        return not_modified(etag)
    turns = await context.call(context.conversations.turns, project_id, session_id)
    return json_response(SessionDetails.of_turns(session, turns, context.prices.current()), etag=etag)


def _sessions(context: ServerContext, project_id: str) -> list[tuple[str, SessionView]]:
    return [session_of(context, session) for session in context.conversations.conversations(project_id)]


def session_of(context: ServerContext, session: Conversation) -> tuple[str, SessionView]:
    """A session's ETag and view. Blocks the calling thread."""
    last = context.conversations.last_turn(session)
    last_etag = tag_of(last) if last is not None else ""
    etag = weak_etag(session.id, session.title, session.turn_count, last_etag)
    return etag, SessionView.of(session, last)

"""Projects in GraphQL, with their sessions, turns, blocks and files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from strawberry.types import Info

from longwatch.documents.views import FileView
from longwatch.errors import InvalidCursor
from longwatch.journal.usage_views import UsageView
from longwatch.server.api.files import must_exist
from longwatch.server.api.long_polling import find_cached_turn
from longwatch.server.api.projects import session_of
from longwatch.server.context import ServerContext
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
from longwatch.server.graphql.types import object_type
from longwatch.turns.projects import Conversation
from longwatch.turns.turn import TurnState, blocks_before, blocks_cursor
from longwatch.turns.views import (
    BlockView,
    ProjectView,
    SessionView,
    StreamingBlockView,
    TurnLine,
    usage_of_turns,
)

MAX_PROJECTS = 200  # in a page
MAX_SESSIONS = 200
MAX_TURNS = 200
MAX_FILES = 1_000
MAX_BLOCKS = 1_000
MAX_ID = 128  # characters, as in the routes
STATE = "\0state"  # in the source of a turn
PROJECT = "\0project"  # in the source of a session: the id of its project

RequestInfo = Info[GraphqlContext, None]

BlockType = object_type(BlockView)
BlockConnection = connection_type(BlockType)
FileType = object_type(FileView)
FileConnection = connection_type(FileType)


def turn_source(server: ServerContext, state: TurnState) -> dict[str, Any]:
    """The source of a turn's fields."""
    return {**vars(TurnLine.of(state, server.prices.current())), STATE: state}


class TurnFields:
    """The fields of a turn that a list does not have."""

    @reading(BlockConnection, cost=1)
    async def blocks(root: Any, info: RequestInfo, first: int = 20, after: str | None = None) -> Any:
        """Its blocks in order. `endCursor` is a `blocks_cursor`; one whose blocks have moved is an error."""
        state, first = await state_of(root, info), checked_first(first, MAX_BLOCKS)
        begin = 0
        if after:
            count, dash, _ = checked(after, "after").partition("-")
            is_cursor = dash and count.isascii() and count.isdigit() and len(count) < 10
            begin = blocks_before(state, after) if is_cursor else 0
            if not begin and after != blocks_cursor(state, 0):
                raise InvalidCursor(
                    f"Blocks before {after[:40]!r} have moved, or it is not a cursor of this turn. "
                    "Leave `after` out to read all blocks."
                )
        end = min(begin + first, state.block_count)
        nodes = [BlockView.of(state.blocks[at], at) for at in range(begin, end)]
        return connection(nodes, blocks_cursor(state, end), more=end < state.block_count)

    @reading(object_type(StreamingBlockView) | None, cost=1)
    async def streaming(root: Any, info: RequestInfo) -> Any:
        """The block whose message has not ended; null if there is none."""
        streaming = (await state_of(root, info)).streaming
        return None if streaming is None else StreamingBlockView.of(streaming)


async def state_of(root: Any, info: RequestInfo) -> TurnState:
    """The turn of a source, which may be a message of the feed."""
    if STATE not in root:
        root[STATE] = await load_turn(server_of(info), root["project_id"], root["session_id"], root["id"])
    state: TurnState = root[STATE]
    return state


async def load_turn(server: ServerContext, project: str, session: str, turn: str) -> TurnState:
    """One turn as it is now."""
    return (await find_cached_turn(server, project, session, turn)).state.state


TurnType = object_type(TurnLine, resolvers=TurnFields)
TurnConnection = connection_type(TurnType)


class SessionFields:
    """The turns of a session."""

    @reading(TurnConnection)
    async def turns(root: Any, info: RequestInfo, first: int = 20, after: str | None = None) -> Any:
        """Its turns, oldest first."""
        server, first = server_of(info), checked_first(first, MAX_TURNS)
        states = await _turns(root, info)
        page = slice_of(states, [state.turn_id for state in states], after, first)
        return with_nodes(page, [turn_source(server, state) for state in page["nodes"]])

    @reading(object_type(UsageView) | None)
    async def usage(root: Any, info: RequestInfo) -> Any:
        """Of its turns together; null if no model was called."""
        return usage_of_turns(await _turns(root, info), server_of(info).prices.current())


async def _turns(root: Any, info: RequestInfo) -> Sequence[TurnState]:
    server = server_of(info)
    return await server.call(server.conversations.turns, root[PROJECT], root["id"])


SessionType = object_type(SessionView, resolvers=SessionFields)
SessionConnection = connection_type(SessionType)


class ProjectFields:
    """The sessions and files of a project."""

    @reading(SessionConnection)
    async def sessions(root: Any, info: RequestInfo, first: int = 20, after: str | None = None) -> Any:
        """Its sessions, oldest first."""
        server, first = server_of(info), checked_first(first, MAX_SESSIONS)
        found = await server.call(server.conversations.conversations, root["id"])
        page = slice_of(found, [session.id for session in found], after, first)
        sources = await server.call(session_sources, server, root["id"], page["nodes"])
        return with_nodes(page, sources)

    @reading(FileConnection)
    async def files(
        root: Any, info: RequestInfo, prefix: str | None = None, first: int = 20, after: str | None = None
    ) -> Any:
        """Its files by path."""
        server, first = server_of(info), checked_first(first, MAX_FILES)
        await must_exist(server, root["id"])
        prefix = checked(prefix, "prefix") or None
        found = (await server.call(server.documents.files, root["id"], prefix=prefix)).files
        page = slice_of(found, [entry.path for entry in found], after, first)
        return with_nodes(page, [FileView.of(entry) for entry in page["nodes"]])


def session_sources(
    server: ServerContext, project: str, sessions: Sequence[Conversation]
) -> list[dict[str, Any]]:
    """The sources of sessions, each with its last turn. Blocks the calling thread."""
    views = [session_of(server, session)[1] for session in sessions]
    return [{**vars(view), PROJECT: project} for view in views]


def with_nodes(page: dict[str, Any], nodes: Sequence[Any]) -> dict[str, Any]:
    """The page with these nodes in place of its own."""
    edges = [{**edge, "node": node} for edge, node in zip(page["edges"], nodes, strict=True)]
    return {**page, "nodes": nodes, "edges": edges}


ProjectType = object_type(ProjectView, resolvers=ProjectFields)
ProjectConnection = connection_type(ProjectType)


class ProjectQueries:
    """The queries over projects."""

    @reading(ProjectConnection)
    async def projects(root: Any, info: RequestInfo, first: int = 20, after: str | None = None) -> Any:
        """Projects, oldest first."""
        server, first = server_of(info), checked_first(first, MAX_PROJECTS)
        found = await server.call(server.conversations.projects)
        page = slice_of(found, [project.id for project in found], after, first)
        return with_nodes(page, [vars(ProjectView.of(project)) for project in page["nodes"]])

    @reading(ProjectType | None)
    async def project(root: Any, info: RequestInfo, id: str) -> Any:
        """One project."""
        server = server_of(info)
        found = await server.call(server.conversations.project, checked(id, "id", most=MAX_ID))
        return vars(ProjectView.of(found))

    @reading(SessionType | None)
    async def session(root: Any, info: RequestInfo, project_id: str, id: str) -> Any:
        """One session: turns that follow each other. The code and the glossary call it a conversation."""
        server = server_of(info)
        project = checked(project_id, "projectId", most=MAX_ID)
        found = await server.call(server.conversations.conversation, project, checked(id, "id", most=MAX_ID))
        return (await server.call(session_sources, server, project, [found]))[0]

    @reading(TurnType | None)
    async def turn(root: Any, info: RequestInfo, project_id: str, session_id: str, id: str) -> Any:
        """One turn."""
        server = server_of(info)
        ids = {"projectId": project_id, "sessionId": session_id, "id": id}
        found = await load_turn(server, *(checked(each, name, most=MAX_ID) for name, each in ids.items()))
        return turn_source(server, found)

"""Long polls: they end with a change, at their deadline, or at once when the server shuts down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from longwatch.errors import InvalidCursor
from longwatch.server.cache.rendered_responses import TURN, RenderedTurn
from longwatch.server.cache.run_cache import CachedRun
from longwatch.server.responses import STALE
from longwatch.turns.ids import conversation_run, validate_turn_id
from longwatch.turns.turn import has_position

if TYPE_CHECKING:
    from longwatch.server.context import ServerContext

S = TypeVar("S")


def stale_headers(context: ServerContext, run_id: str) -> dict[str, str]:
    """The header of a cached response while the journal is unavailable: it is the last known state."""
    return {STALE: "journal unavailable"} if context.hub.trouble(run_id) is not None else {}


def deadline(context: ServerContext, wait: int) -> float:
    """The loop time at which a long poll ends."""
    return asyncio.get_running_loop().time() + min(wait, context.limits.wait_seconds)


def remaining(context: ServerContext, until: float) -> float:
    """Seconds until this loop time; 0 when the server shuts down."""
    if context.closing.is_set():
        return 0.0
    return max(0.0, until - asyncio.get_running_loop().time())


async def wait_for_change(
    context: ServerContext, watched: CachedRun[S], has_changed: Callable[[S], bool], until: float
) -> None:
    """Wait until the run has changed for the caller, or the deadline."""
    while True:
        revision = watched.revision
        if has_changed(watched.state):
            return
        left = remaining(context, until)
        if left <= 0 or not await watched.wait_for_change(revision, left):
            return


async def find_cached_turn(
    context: ServerContext, project_id: str, session_id: str, turn_id: str, position: str = ""
) -> CachedRun[RenderedTurn]:
    """The turn in the run cache. The error names the project, session or turn that does not exist.

    With the position of a write, the turn includes everything that the write stored.
    """
    conversation_run(project_id, session_id)  # rejects invalid ids before anything is read
    watched = await context.run_cache.get(TURN, validate_turn_id(turn_id))
    if not watched.state.belongs_to(project_id, session_id):
        context.run_cache.drop_empty(TURN, turn_id)
        await context.call(context.conversations.turn, project_id, session_id, turn_id)
        await context.run_cache.catch_up(turn_id)  # it has just been created
        watched = await context.run_cache.get(TURN, turn_id)
    if position:
        # Also if the cache has the last event of the write: a journal may return it before the others.
        await context.run_cache.catch_up(turn_id)
        if not has_position(watched.state.state, position):
            raise InvalidCursor(
                f"Unknown position {position[:80]!r}: it is of another turn or journal, or has expired. "
                "Omit the header Longwatch-Position."
            )
    return watched

"""Long polls: they end with news, when their time is up, or at once when the server goes down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from longwatch.errors import InvalidCursor
from longwatch.server.cache.rendered_responses import TURN, ToldTurn
from longwatch.server.cache.run_cache import CachedRun
from longwatch.server.responses import STALE
from longwatch.turns.ids import conversation_run, validate_turn_id
from longwatch.turns.turn import has_position

if TYPE_CHECKING:
    from longwatch.server.context import ServerContext

S = TypeVar("S")


def stale_headers(context: ServerContext, run_id: str) -> dict[str, str]:
    """The header of an answer from memory while the journal cannot be read: it is the last that was known."""
    return {STALE: "journal unavailable"} if context.hub.trouble(run_id) is not None else {}


def deadline(context: ServerContext, wait: int) -> float:
    """The time of the loop until which a caller is made to wait."""
    return asyncio.get_running_loop().time() + min(wait, context.limits.wait_seconds)


def remaining(context: ServerContext, until: float) -> float:
    """Seconds that are left until this time of the loop; none if the server goes down."""
    if context.closing.is_set():
        return 0.0
    return max(0.0, until - asyncio.get_running_loop().time())


async def wait_for_change(
    context: ServerContext, watched: CachedRun[S], is_news: Callable[[S], bool], until: float
) -> None:
    """Wait until the run stands otherwise than the caller knows, or the time is up."""
    while True:
        revision = watched.revision
        if is_news(watched.state):
            return
        left = remaining(context, until)
        if left <= 0 or not await watched.news(revision, left):
            return


async def find_cached_turn(
    context: ServerContext, project_id: str, session_id: str, turn_id: str, position: str = ""
) -> CachedRun[ToldTurn]:
    """The turn on the board, or an error that says what of the three is not there.

    With the position of a write, everything that was stored with it is there.
    """
    conversation_run(project_id, session_id)  # names that can be none are refused before anything is read
    watched = await context.run_cache.look(TURN, validate_turn_id(turn_id))
    if not watched.state.belongs_to(project_id, session_id):
        context.run_cache.drop_empty(TURN, turn_id)
        await context.call(context.conversations.turn, project_id, session_id, turn_id)
        await context.run_cache.catch_up(turn_id)  # it has just been created
        watched = await context.run_cache.look(TURN, turn_id)
    if position:
        # Also if the last event of the write is known: a journal may show it before the others.
        await context.run_cache.catch_up(turn_id)
        if not has_position(watched.state.state, position):
            raise InvalidCursor(
                f"Position {position[:80]!r} is not in this journal: it is of another turn, or has expired. "
                "Leave the header Longwatch-Position out."
            )
    return watched

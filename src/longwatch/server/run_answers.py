"""The answer about one run, written once for everybody who asks while it stands like this."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from longwatch.journal.base import Arrivals
from longwatch.journal.views import shown_view
from longwatch.model.run import Condition, Run, fold
from longwatch.server.answers import to_json
from longwatch.server.board import RUN, Kept, Watched
from longwatch.server.reading import all_events
from longwatch.server.tags import matches, run_tag

if TYPE_CHECKING:
    from longwatch.server.context import ServerContext

HOLDS_MS = 1_000  # an open run grows older, so what is written about it holds for so long
GZIP_LEVEL = 5
CALLS_AT_ONCE = 1_000
COMPRESSED_FROM = 100_000  # bytes, from which on the answer is compressed beside the event loop


async def known_already(context: ServerContext, run_id: str, if_none_match: str) -> str | None:
    """The run's tag if the caller has it, from its line in the list alone: nothing is folded for that.

    Only for a run that is not on the board yet, and where the line is a row that is kept with every append.
    """
    if not if_none_match or not isinstance(context.journal, Arrivals):
        return None
    if context.board.glance(RUN, run_id) is not None:
        return None
    found = await context.async_journal.find_run(run_id)
    if found is None:
        return None
    observed = await context.observed(found)
    tag = run_tag(observed.run, context.clock.now_ms(), observed.conditions)
    if not matches(if_none_match, tag):
        return None
    context.board.follow(RUN, run_id)  # so that its process is watched, and the next question is cheap
    return tag


async def run_body(
    context: ServerContext,
    watched: Watched[Run | None],
    run: Run,
    conditions: Sequence[Condition],
    tag: str,
    *,
    attempt: int | None,
    compressed: bool,
) -> tuple[bytes, bool]:
    """The body, and whether it is compressed. One thread writes it for all who ask at once.

    `run` is what is on the board, as it stands by this moment's observation of its processes.
    """
    now, kept = context.clock.now_ms(), watched.body
    is_over = run.summary.ending is not None
    if kept is None or kept.tag != tag or not (is_over or 0 <= now - kept.at < HOLDS_MS):
        make_view = partial(shown_view, run, attempt=attempt, observed=conditions, now_ms=now)
        writing = asyncio.ensure_future(_body(context, run, attempt, make_view))
        kept = watched.body = Kept(tag, now, writing)
    try:
        plain, small = await asyncio.shield(kept.written)
    except BaseException:
        if watched.body is kept and kept.written.done():
            watched.body = None
        raise
    return (small, True) if compressed and small else (plain, False)


async def _body(
    context: ServerContext, run: Run, attempt: int | None, make_view: Callable[[Run], dict[str, Any]]
) -> tuple[bytes, bytes]:
    return await context.call(_written, partial(make_view, await at_attempt(context, run, attempt)))


async def at_attempt(context: ServerContext, run: Run, attempt: int | None) -> Run:
    """The run at this attempt, from 1, or at its last. What belongs to one of several is read again."""
    attempts = len(run.summary.attempts)
    number = attempts if attempt is None else attempt
    if attempts == 1:
        return run.at_attempt(number)
    own: Run | None = None
    belongs = run.attempt_of()
    async for events in all_events(context, run.run_id):
        own = fold([event for event in events if belongs(event) == number], own)
    return run.at_attempt(number, own)


def _written(make_view: Callable[[], dict[str, Any]]) -> tuple[bytes, bytes]:
    view = make_view()
    calls = view.pop("calls")
    # In parts: while JSON is written, no other thread gets its turn.
    parts = [to_json(calls[at : at + CALLS_AT_ONCE])[1:-1] for at in range(0, len(calls), CALLS_AT_ONCE)]
    body = b"".join((to_json(view)[:-1], b',"calls":[', b",".join(parts), b"]}"))
    is_large = len(body) >= COMPRESSED_FROM
    return body, gzip.compress(body, GZIP_LEVEL, mtime=0) if is_large else b""

"""Responses about runs and turns, rendered once for all requests until they change."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from starlette.types import Message

from longwatch.journal.base import Arrivals
from longwatch.journal.sqlite.snapshots import is_eligible
from longwatch.journal.views import RunDetails
from longwatch.model.event import START, Event
from longwatch.model.prices import Prices
from longwatch.model.run import Condition, Run, fold
from longwatch.server.access.origins import SECURITY_HEADERS
from longwatch.server.cache.run_cache import RUN, CachedRun, Reducer, RenderedBody
from longwatch.server.context import ServerContext
from longwatch.server.responses import (
    JSON_TYPE,
    REVALIDATE,
    matches,
    run_etag,
    to_json,
)
from longwatch.turns import TurnState, tag_of
from longwatch.turns.views import TurnDetails, TurnStatusView, TurnUpdate

if TYPE_CHECKING:
    from longwatch.server.context import ServerContext

PAGE_EVENTS = 1_000
HOLDS_MS = 1_000  # an open run grows older, so its response is valid for that long
GZIP_LEVEL = 5
DETAILS = "details"  # the view of a run that is stored
CALLS_AT_ONCE = 1_000
COMPRESSED_FROM = 100_000  # bytes, from which on a thread compresses the response


async def find_matching_etag(context: ServerContext, run_id: str, if_none_match: str) -> str | None:
    """The run's ETag if the client has it, from the run's summary alone: nothing is folded for that.

    Only for a run that is not cached yet, in a journal that stores the summary with every append.
    """
    if not if_none_match or not isinstance(context.journal, Arrivals):
        return None
    if context.run_cache.peek(RUN, run_id) is not None:
        return None
    found = await context.async_journal.find_run(run_id)
    if found is None:
        return None
    observed = await context.observe(found)
    tag = run_etag(observed.run, context.clock.now_ms(), observed.conditions, context.prices.current())
    if not matches(if_none_match, tag):
        return None
    context.run_cache.follow(RUN, run_id)  # so that its processes are watched, and the next request is cheap
    return tag


async def find_snapshot(context: ServerContext, run_id: str) -> tuple[bytes, str] | None:
    """The compressed body and the ETag of a large run that has ended, if an earlier request has stored them.

    Not while the run is cached: the cache may be ahead of what is stored with the run.
    """
    if context.snapshots is None or context.run_cache.peek(RUN, run_id) is not None:
        return None
    found = await context.async_journal.find_run(run_id)
    if found is None or not is_eligible(found):
        return None
    prices = context.prices.current()
    body = await context.call(context.snapshots.find, found, DETAILS, repr(prices))
    return None if body is None else (body, run_etag(found, context.clock.now_ms(), (), prices))


async def run_body(
    context: ServerContext,
    watched: CachedRun[Run | None],
    run: Run,
    conditions: Sequence[Condition],
    tag: str,
    *,
    attempt: int | None,
    compressed: bool,
) -> tuple[bytes, bool]:
    """The body, and whether it is compressed. One thread renders it for all concurrent requests.

    `run` is the cached run with the present observation of its processes.
    """
    now, cached = context.clock.now_ms(), watched.body
    is_over = run.summary.ending is not None
    if cached is None or cached.tag != tag or not (is_over or 0 <= now - cached.at < HOLDS_MS):
        make_view = partial(
            RunDetails.of_attempt,
            run,
            attempt=attempt,
            observed=conditions,
            now_ms=now,
            prices=context.prices.current(),
        )
        writing = asyncio.ensure_future(_body(context, run, attempt, make_view))
        cached = watched.body = RenderedBody(tag, now, writing)
    try:
        plain, small = await asyncio.shield(cached.written)
    except BaseException:
        if watched.body is cached and cached.written.done():
            watched.body = None
        raise
    return (small, True) if compressed and small else (plain, False)


async def _body(
    context: ServerContext, run: Run, attempt: int | None, make_view: Callable[[Run], RunDetails]
) -> tuple[bytes, bytes]:
    shown = await at_attempt(context, run, attempt)
    plain, small = await context.call(_render, partial(make_view, shown))
    if context.snapshots is not None and attempt is None and small:
        await context.call(context.snapshots.save, run, DETAILS, repr(context.prices.current()), small)
    return plain, small


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


def _render(make_view: Callable[[], RunDetails]) -> tuple[bytes, bytes]:
    view = dict(vars(make_view()))
    calls = view.pop("calls")
    # In parts: while JSON is encoded, no other thread runs.
    parts = [to_json(calls[at : at + CALLS_AT_ONCE])[1:-1] for at in range(0, len(calls), CALLS_AT_ONCE)]
    body = b"".join((to_json(view)[:-1], b',"calls":[', b",".join(parts), b"]}"))
    is_large = len(body) >= COMPRESSED_FROM
    return body, gzip.compress(body, GZIP_LEVEL, mtime=0) if is_large else b""


AsgiResponse = tuple[Message, Message]
"""The start and the body of a response, as they are sent."""

NOTHING: Message = {"type": "http.response.body", "body": b""}


class RenderedTurn:
    """A turn, its ETag, and its responses."""

    def __init__(self, state: TurnState) -> None:
        self.state = state
        self._body: tuple[Prices, bytes] | None = None

    def plus(self, events: Sequence[Event]) -> RenderedTurn:
        """The turn and what the events add to it. The same events again add nothing."""
        return RenderedTurn(self.state.plus(events))

    def belongs_to(self, project_id: str, session_id: str) -> bool:
        """Whether it is a turn of this session."""
        creation = self.state.creation
        return (
            creation is not None
            and creation.project_id == project_id
            and creation.conversation_id == session_id
        )

    @cached_property
    def tag(self) -> str:
        return f'W/"{tag_of(self.state)}"'

    @cached_property
    def raw_tag(self) -> bytes:
        return self.tag.encode()

    @cached_property
    def unchanged(self) -> AsgiResponse:
        """The response 304: the client has the present state."""
        return {"type": "http.response.start", "status": 304, "headers": self._headers}, NOTHING

    @cached_property
    def status(self) -> AsgiResponse:
        """The response with the turn's status."""
        body = to_json(TurnStatusView.of(self.state))
        headers = [
            (b"content-type", JSON_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            *self._headers,
        ]
        start = {"type": "http.response.start", "status": 200, "headers": headers}
        return start, {"type": "http.response.body", "body": body}

    @property
    def _headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"etag", self.raw_tag), (b"cache-control", REVALIDATE.encode()), *SECURITY_HEADERS]

    def body(self, prices: Prices) -> bytes:
        """The whole turn as JSON, rendered once for the same prices."""
        if self._body is None or self._body[0] is not prices:
            self._body = prices, to_json(TurnDetails.of(self.state, prices))
        return self._body[1]

    def update_body(self, first: int, prices: Prices) -> bytes:
        """The turn without its prompt and the blocks before the one with this sequence, as JSON."""
        return to_json(TurnUpdate.of(self.state, first, prices))


TURN: Reducer[RenderedTurn] = Reducer(
    "turn", lambda run_id: RenderedTurn(TurnState(run_id)), lambda turn, events: turn.plus(events)
)


async def all_events(context: ServerContext, run_id: str) -> AsyncIterator[Sequence[Event]]:
    """Every event of the run once, a page at a time, as they arrived."""
    cursor, more = START, True
    while more:
        page = await context.async_journal.read(run_id, after=cursor, limit=PAGE_EVENTS)
        yield page.events
        cursor, more = page.cursor, page.more

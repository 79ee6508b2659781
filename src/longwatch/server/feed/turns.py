"""A turn as a topic: the turn itself whenever it changes, and its blocks one by one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from longwatch.clock import Clock
from longwatch.following.hub import Hub
from longwatch.following.items import Ended, Followed
from longwatch.model.event import START, Cursor, Event
from longwatch.server.feed.messages import Frame, caught_up, message
from longwatch.turns.turn import Block, TurnState
from longwatch.turns.views import block_view, turn_view

SETTLED_MS = 60_000  # after its end nothing more is expected of a turn

_AS_OF_NOW = ("block_count", "last_updated")  # change with every block, and the block tells as much


class TurnRenderer:
    """Tells a turn from its events. Blocks are upserts: one that moves for a late one is told again."""

    def __init__(self, topic: str, state: TurnState, *, clock: Clock, settles: bool = False) -> None:
        self.state = state
        self._topic = topic
        self._clock = clock
        self._settles = settles
        self._told = _core(state) if state.creation is not None else None

    @property
    def is_settled(self) -> bool:
        ended_at = self.state.completed_at
        return self._settles and ended_at is not None and self._clock.now_ms() - ended_at > SETTLED_MS

    def event(self, followed: Followed) -> Sequence[Frame]:
        before, self.state = self.state, self.state.plus([followed.event])
        frames = [
            message("block", self._topic, turn_id=self.state.turn_id, block=block_view(block, sequence))
            for sequence, block in changed_blocks(before.blocks, self.state.blocks)
        ]
        core = _core(self.state)
        if self.state.creation is not None and core != self._told:
            self._told = core
            frames.append(message("turn", self._topic, turn=turn_view(self.state, blocks=False)))
        if frames:
            # Only the last one of an event carries its cursor: whoever is cut off before it gets all again.
            frames[-1].cursor = followed.cursor
        return frames

    def caught_up(self, cursor: str) -> Sequence[Frame]:
        return [caught_up(self._topic, cursor)]

    def ended(self, ended: Ended) -> Sequence[Frame]:
        return ()  # the turn itself has said so


def changed_blocks(before: Sequence[Block], after: Sequence[Block]) -> list[tuple[int, Block]]:
    """The blocks that are new or have moved, and their places."""
    if len(after) == len(before) + 1 and (not before or after[-2] is before[-1]):
        return [(len(before), after[-1])]  # nearly always
    return [
        (place, block)
        for place, block in enumerate(after)
        if place >= len(before) or before[place] is not block
    ]


async def state_at(hub: Hub, turn_id: str, cursor: str) -> TurnState:
    """The turn as somebody knows it who has seen everything up to this cursor."""
    state = TurnState(turn_id)
    if not cursor:
        return state
    # In this order: an event that is stored in between is unseen, and is told later.
    everything = [event async for event in _events(hub, turn_id, START)]
    unseen = {event.event_id async for event in _events(hub, turn_id, Cursor(cursor))}
    return state.plus([event for event in everything if event.event_id not in unseen])


async def _events(hub: Hub, run_id: str, after: Cursor) -> AsyncGenerator[Event, None]:
    more = True
    while more:
        page = await hub.read(run_id, after, thorough=False)
        for event in page.events:
            yield event
        after, more = page.cursor, page.more


def _core(state: TurnState) -> dict[str, Any]:
    """What of a turn is worth a message of its own."""
    view = turn_view(state, blocks=False)
    return {name: value for name, value in view.items() if name not in _AS_OF_NOW}

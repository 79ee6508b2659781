"""Topics of conversations: their turns and blocks, and the lists of projects and conversations.

The cursor of a conversation has that of its list of turns, then those of the turns that are not over:
`12~turn-5f0c:40~turn-77ab:`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from longwatch.clock import Clock, iso_from_ms
from longwatch.errors import InvalidCursor
from longwatch.following.broadcast import TAKEN_BYTES
from longwatch.following.hub import Hub
from longwatch.following.items import Ended, Followed
from longwatch.model.event import START, Cursor, Event, text_of
from longwatch.model.prices import NO_PRICES, Prices
from longwatch.server.live.messages import Frame, caught_up, message
from longwatch.server.live.subscription import TopicSubscription
from longwatch.turns.streaming import StreamingBlock
from longwatch.turns.turn import Block, TurnState
from longwatch.turns.views import BlockDelta, BlockView, TurnLine

MOST_OPEN_TURNS = 1_000  # that a cursor may name; it comes from outside
AT_ONCE = 4  # turns whose history is read at the same time

MakeTurn = Callable[[str, str, Callable[[], None]], TopicSubscription]
"""Follows a turn: its id, its cursor, and what to call when there are frames."""


class TurnListRenderer:
    """Renders the turns of a conversation, for `ConversationSubscription` and not for viewers."""

    is_settled = False

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def event(self, followed: Followed) -> Sequence[Frame]:
        turn_id = text_of(followed.event.payload, "turn_id")
        if followed.event.type != "turn_added" or turn_id is None:
            return ()
        return [Frame("turn_added", turn_id, followed.cursor)]

    def caught_up(self, cursor: str) -> Sequence[Frame]:
        return [caught_up(self._topic, cursor)]

    def catch_up(self) -> Sequence[Frame]:
        return ()

    def ended(self, ended: Ended) -> Sequence[Frame]:
        return ()


@dataclass(slots=True)
class _FollowedTurn:
    """A turn that is followed."""

    subscription: TopicSubscription
    cursor: str  # after the frames that were passed on
    is_caught_up: bool = False


class ConversationSubscription:
    """Follows a conversation for one viewer."""

    def __init__(
        self,
        topic: str,
        after: str,
        *,
        make_list: Callable[[str, Callable[[], None]], TopicSubscription],
        make_turn: MakeTurn,
        wake: Callable[[], None],
    ) -> None:
        self.topic = topic
        self.cursor = after
        self._make_turn = make_turn
        self._wake = wake
        listed, turns = split_conversation_cursor(after)
        self._list_cursor = listed
        self._list = make_list(listed, wake)
        self._turns = {
            turn_id: _FollowedTurn(make_turn(turn_id, cursor, wake), cursor)
            for turn_id, cursor in turns.items()
        }
        self._added: deque[Frame] = deque()  # turns that are not read yet
        self._is_listed = False  # the list has been read to its end
        self._is_caught_up = False

    @property
    def is_over(self) -> bool:
        return self._list.is_over

    def take(self) -> Sequence[Frame]:
        found = self._take_list()
        size = 0
        for turn_id, turn in list(self._turns.items()):
            if size >= TAKEN_BYTES:
                break
            frames = self._take_turn(turn_id, turn)
            size += sum(len(frame.data) for frame in frames)
            found += frames
        self._open_turns()
        is_everything_read = self._is_listed and not self._added
        if (
            not self._is_caught_up
            and is_everything_read
            and all(turn.is_caught_up for turn in self._turns.values())
        ):
            self._is_caught_up = True
            self.cursor = self._joined()
            found.append(caught_up(self.topic, self.cursor))
        return found

    def chunk(self) -> bytes:
        return b"".join([frame.sse for frame in self.take()])

    def close(self) -> None:
        self._list.close()
        for turn in self._turns.values():
            turn.subscription.close()
        self._turns.clear()

    def _take_list(self) -> list[Frame]:
        frames: list[Frame] = []
        while found := self._list.take():
            for frame in found:
                if frame.name == "turn_added":
                    self._added.append(frame)
                elif frame.name == "caught_up":
                    self._is_listed = True
                else:
                    frames.append(frame)  # an error, or `missed`
        return frames

    def _open_turns(self) -> None:
        reading = sum(not turn.is_caught_up for turn in self._turns.values())
        opened = False
        while self._added and reading < AT_ONCE:
            frame = self._added.popleft()
            if frame.data not in self._turns:
                self._turns[frame.data] = _FollowedTurn(self._make_turn(frame.data, "", self._wake), "")
                reading, opened = reading + 1, True
            self._list_cursor = frame.cursor or self._list_cursor
        if opened:
            self.cursor = self._joined()

    def _take_turn(self, turn_id: str, turn: _FollowedTurn) -> list[Frame]:
        frames: list[Frame] = []
        for frame in turn.subscription.take():
            if frame.cursor is not None:
                turn.cursor = frame.cursor
            if frame.name == "caught_up":
                turn.is_caught_up = True
                continue
            self.cursor = self._joined()
            frames.append(frame.at(self.cursor) if frame.cursor is not None else frame)
        if turn.subscription.is_over:
            turn.subscription.close()
            del self._turns[turn_id]
        return frames

    def _joined(self) -> str:
        turns = "".join(f"~{turn_id}:{turn.cursor}" for turn_id, turn in self._turns.items())
        return f"{self._list_cursor}{turns}"


def split_conversation_cursor(text: str) -> tuple[str, dict[str, str]]:
    """The cursor of the list of turns, and those of its open turns."""
    listed, *parts = text.split("~")
    turns: dict[str, str] = {}
    for part in parts:
        turn_id, colon, cursor = part.partition(":")
        if not colon or not turn_id.startswith("turn-") or len(turns) >= MOST_OPEN_TURNS:
            raise InvalidCursor(
                f"Invalid cursor {text[:40]!r} of a session. Leave it out to start from the beginning."
            )
        turns[turn_id] = cursor
    return listed, turns


class ProjectListRenderer:
    """Renders the projects that are added to the list of projects."""

    is_settled = False

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def event(self, followed: Followed) -> Sequence[Frame]:
        payload = followed.event.payload
        project_id = text_of(payload, "project_id")
        if followed.event.type != "project_added" or project_id is None:
            return ()
        project = {
            "id": project_id,
            "name": text_of(payload, "name"),
            "created_at": iso_from_ms(followed.event.occurred_at),
        }
        return [message("project", self._topic, followed.cursor, project=project)]

    def caught_up(self, cursor: str) -> Sequence[Frame]:
        return [caught_up(self._topic, cursor)]

    def catch_up(self) -> Sequence[Frame]:
        return ()

    def ended(self, ended: Ended) -> Sequence[Frame]:
        return ()  # a list never ends


class SessionListRenderer(ProjectListRenderer):
    """Renders the sessions that are added to a project."""

    def event(self, followed: Followed) -> Sequence[Frame]:
        payload = followed.event.payload
        session_id = text_of(payload, "conversation_id")
        if followed.event.type != "conversation_added" or session_id is None:
            return ()
        session = {
            "id": session_id,
            "title": text_of(payload, "title"),
            "created_at": iso_from_ms(followed.event.occurred_at),
        }
        return [message("session", self._topic, followed.cursor, session=session)]


SETTLED_MS = 60_000  # after its end nothing more is expected of a turn

_AS_OF_NOW = ("block_count", "last_updated")  # change with every block, which is a message of its own


class TurnRenderer:
    """Renders a turn from its events. Blocks are upserts: one that a late one moves is sent again.

    Of a block that is still streaming, a viewer that has read the history gets the text so far, then deltas.
    """

    def __init__(
        self,
        topic: str,
        state: TurnState,
        *,
        clock: Clock,
        prices: Callable[[], Prices] = lambda: NO_PRICES,
        settles: bool = False,
    ) -> None:
        self.state = state
        self._topic = topic
        self._clock = clock
        self._prices = prices
        self._settles = settles
        self._is_live = False
        self._streamed = state.streaming  # what the viewer has of it, until the history is read
        self._sent = _core(state) if state.creation is not None else None

    @property
    def is_settled(self) -> bool:
        ended_at = self.state.completed_at
        return self._settles and ended_at is not None and self._clock.now_ms() - ended_at > SETTLED_MS

    def event(self, followed: Followed) -> Sequence[Frame]:
        before, self.state = self.state, self.state.plus([followed.event])
        replaced = replaced_stream(before, self.state)
        frames = [
            message(
                "block",
                self._topic,
                turn_id=self.state.turn_id,
                block=BlockView.of(block, sequence),
                **({} if replaced is None else {"replaces": replaced}),
            )
            for sequence, block in changed_blocks(before.blocks, self.state.blocks)
        ]
        if self._is_live and self.state.deltas != before.deltas:
            frames += self._delta(before.streaming)
        core = _core(self.state)
        if self.state.creation is not None and core != self._sent:
            self._sent = core
            frames.append(message("turn", self._topic, turn=TurnLine.of(self.state, self._prices())))
        if frames:
            # Only the last frame of an event has its cursor: a viewer that misses it gets all again.
            frames[-1].cursor = followed.cursor
        return frames

    def caught_up(self, cursor: str) -> Sequence[Frame]:
        return [*self.catch_up(), caught_up(self._topic, cursor)]

    def catch_up(self) -> Sequence[Frame]:
        self._is_live = True
        # The whole text, because later viewers get the same frame; nothing new must not end a long poll.
        return [] if self.state.streaming == self._streamed else self._delta(None)

    def ended(self, ended: Ended) -> Sequence[Frame]:
        return ()  # the frame of the turn states it

    def _delta(self, before: StreamingBlock | None) -> list[Frame]:
        """The text of the streaming block that a viewer of an earlier state lacks."""
        block = self.state.streaming
        if block is None:
            return []
        delta = BlockDelta.of(block, block.since(before))
        return [message("block_delta", self._topic, turn_id=self.state.turn_id, delta=delta)]


def replaced_stream(before: TurnState, after: TurnState) -> str | None:
    """The id of the streaming block that a finished block has replaced; None if there was none."""
    was = before.streaming if after.finished_line > before.finished_line else None
    return was.id if was is not None else None


def changed_blocks(before: Sequence[Block], after: Sequence[Block]) -> list[tuple[int, Block]]:
    """The blocks that are new or have moved, and their positions."""
    if len(after) == len(before) + 1 and (not before or after[-2] is before[-1]):
        return [(len(before), after[-1])]  # nearly always
    return [
        (position, block)
        for position, block in enumerate(after)
        if position >= len(before) or before[position] is not block
    ]


async def state_at(hub: Hub, turn_id: str, cursor: str) -> TurnState:
    """The turn as a viewer knows it that has seen everything up to this cursor."""
    state = TurnState(turn_id)
    if not cursor:
        return state
    # In this order: an event that is stored in between is unseen, and is sent later.
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
    """The fields of a turn whose change is worth a message."""
    fields = vars(TurnLine.of(state))
    return {name: value for name, value in fields.items() if name not in _AS_OF_NOW}

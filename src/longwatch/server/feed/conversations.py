"""A conversation as a topic: all its turns and their blocks, put together from topics of its own.

Its cursor is that of the conversation's list of turns, and beside it those of the turns that are not over:
`12~turn-5f0c:40~turn-77ab:`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from longwatch.errors import InvalidCursor
from longwatch.following.items import Ended, Followed
from longwatch.model.event import text_of
from longwatch.server.feed.messages import Frame, caught_up
from longwatch.server.feed.ring import CHUNK_BYTES
from longwatch.server.feed.subscriptions import Subscription

MOST_OPEN_TURNS = 1_000  # that a cursor may name; it comes from outside
AT_ONCE = 4  # turns whose history is read at the same time

MakeTurn = Callable[[str, str, Callable[[], None]], Subscription]
"""Follows a turn: its id, its cursor, and whom to wake."""


class TurnListRenderer:
    """Tells which turns a conversation has. Its messages go to `ConversationSubscription`, not to people."""

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

    def ended(self, ended: Ended) -> Sequence[Frame]:
        return ()


@dataclass(slots=True)
class _Turn:
    """A turn that is followed."""

    taking: Subscription
    cursor: str  # after what was handed on
    is_caught_up: bool = False


class ConversationSubscription:
    """Follows a conversation for one viewer."""

    def __init__(
        self,
        topic: str,
        after: str,
        *,
        make_list: Callable[[str, Callable[[], None]], Subscription],
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
            turn_id: _Turn(make_turn(turn_id, cursor, wake), cursor) for turn_id, cursor in turns.items()
        }
        self._added: deque[Frame] = deque()  # turns that wait for their turn
        self._is_listed = False  # the list has been read to its end
        self._is_caught_up = False

    @property
    def is_over(self) -> bool:
        return self._list.is_over

    def take(self) -> Sequence[Frame]:
        found = self._take_list()
        size = 0
        for turn_id, turn in list(self._turns.items()):
            if size >= CHUNK_BYTES:
                break
            told = self._take_turn(turn_id, turn)
            size += sum(len(frame.data) for frame in told)
            found += told
        self._open_turns()
        is_all_told = self._is_listed and not self._added
        if not self._is_caught_up and is_all_told and all(turn.is_caught_up for turn in self._turns.values()):
            self._is_caught_up = True
            self.cursor = self._joined()
            found.append(caught_up(self.topic, self.cursor))
        return found

    def chunk(self) -> bytes:
        return b"".join([frame.sse for frame in self.take()])

    def close(self) -> None:
        self._list.close()
        for turn in self._turns.values():
            turn.taking.close()
        self._turns.clear()

    def _take_list(self) -> list[Frame]:
        told: list[Frame] = []
        while found := self._list.take():
            for frame in found:
                if frame.name == "turn_added":
                    self._added.append(frame)
                elif frame.name == "caught_up":
                    self._is_listed = True
                else:
                    told.append(frame)  # it cannot be read, or was too slow
        return told

    def _open_turns(self) -> None:
        reading = sum(not turn.is_caught_up for turn in self._turns.values())
        opened = False
        while self._added and reading < AT_ONCE:
            frame = self._added.popleft()
            if frame.data not in self._turns:
                self._turns[frame.data] = _Turn(self._make_turn(frame.data, "", self._wake), "")
                reading, opened = reading + 1, True
            self._list_cursor = frame.cursor or self._list_cursor
        if opened:
            self.cursor = self._joined()

    def _take_turn(self, turn_id: str, turn: _Turn) -> list[Frame]:
        told: list[Frame] = []
        for frame in turn.taking.take():
            if frame.cursor is not None:
                turn.cursor = frame.cursor
            if frame.name == "caught_up":
                turn.is_caught_up = True
                continue
            self.cursor = self._joined()
            told.append(frame.at(self.cursor) if frame.cursor is not None else frame)
        if turn.taking.is_over:
            turn.taking.close()
            del self._turns[turn_id]
        return told

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
                f"{text[:40]!r} is no cursor of a session; leave it out to begin at the start"
            )
        turns[turn_id] = cursor
    return listed, turns

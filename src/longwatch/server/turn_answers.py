"""Turns on the board, with the answers about them written once for everybody who asks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from starlette.types import Message

from longwatch.model.event import Event
from longwatch.server.answers import JSON_TYPE, REVALIDATE, to_json
from longwatch.server.board import Kind
from longwatch.server.sharing import EVERY_ANSWER
from longwatch.turns import TurnState, status_view, tag_of, turn_view

Answer = tuple[Message, Message]
"""The beginning and the body of an answer, as they are sent."""

NOTHING: Message = {"type": "http.response.body", "body": b""}


class ToldTurn:
    """A turn as it stands, its tag, and what is sent of it."""

    def __init__(self, state: TurnState) -> None:
        self.state = state

    def plus(self, events: Sequence[Event]) -> ToldTurn:
        """The turn and what the events add to it. The same events again add nothing."""
        return ToldTurn(self.state.plus(events))

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
    def unchanged(self) -> Answer:
        """That the caller knows how the turn stands."""
        return {"type": "http.response.start", "status": 304, "headers": self._headers}, NOTHING

    @cached_property
    def status(self) -> Answer:
        """How the turn stands."""
        body = to_json(status_view(self.state))
        headers = [
            (b"content-type", JSON_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            *self._headers,
        ]
        start = {"type": "http.response.start", "status": 200, "headers": headers}
        return start, {"type": "http.response.body", "body": body}

    @property
    def _headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"etag", self.raw_tag), (b"cache-control", REVALIDATE.encode()), *EVERY_ANSWER]

    @cached_property
    def body(self) -> bytes:
        return to_json(turn_view(self.state))


TURN: Kind[ToldTurn] = Kind(
    "turn", lambda run_id: ToldTurn(TurnState(run_id)), lambda told, events: told.plus(events)
)

"""Where the executor of a turn sends the output of its command: to a journal, or to a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from longwatch.model.run import Status
from longwatch.turns.conversations import Conversations
from longwatch.turns.line_reader import LineResult
from longwatch.turns.turn import TurnState

MAX_LINE_BYTES = 16 * 1024 * 1024  # agents print whole files and images on one line
RETRY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class TurnName:
    project_id: str
    conversation_id: str
    turn_id: str

    @classmethod
    def of(cls, state: TurnState) -> TurnName:
        """The name of an existing turn."""
        assert state.creation is not None
        return cls(state.creation.project_id, state.creation.conversation_id, state.turn_id)


class TurnStatus(Protocol):
    @property
    def turn_id(self) -> str: ...
    @property
    def status(self) -> Status: ...
    @property
    def error(self) -> str | None: ...
    @property
    def has_ended(self) -> bool: ...
    @property
    def duration_ms(self) -> int | None:
        """From the creation to the ending; None while the turn is open, or if unknown."""


class TurnSink(Protocol):
    """Receives the output of one turn. Every call may be repeated: what is stored already changes nothing."""

    @property
    def max_line_bytes(self) -> int:
        """The maximum length of a line; longer ones are cut."""

    @property
    def retry_seconds(self) -> float:
        """How long to retry when the command has ended and the sink does not respond."""

    def start(self, *, executor: str, process: Mapping[str, object]) -> int:
        """Claim the turn; returns the number of the next line. Raises `TurnTaken` or `TurnEnded`."""

    def feed(self, lines: Sequence[str], first_line: int) -> LineResult:
        """Add lines, the first of which has this number. `TurnEnded` if the turn has ended.

        An agent's report among them does not end the turn; `end` does, when the process has ended too.
        """

    def read_status(self) -> TurnStatus:
        """The status of the turn, as of the last poll."""

    def end(self, type: str, fields: Mapping[str, object]) -> TurnStatus:
        """End the turn by the agent's report and these fields of its process; returns its status."""


class JournalTurnSink:
    """Writes to a journal that this process has open."""

    max_line_bytes = MAX_LINE_BYTES
    retry_seconds = RETRY_SECONDS

    def __init__(self, conversations: Conversations, name: TurnName) -> None:
        self._conversations = conversations
        self._ids = (name.project_id, name.conversation_id, name.turn_id)

    def start(self, *, executor: str, process: Mapping[str, object]) -> int:
        state = self._conversations.start(*self._ids, executor=executor, process=process)
        return state.highest_line + 1

    def feed(self, lines: Sequence[str], first_line: int) -> LineResult:
        return self._conversations.feed(*self._ids, lines, first_line, keep_output=True, defer_end=True)

    def read_status(self) -> TurnState:
        return self._conversations.turn(*self._ids)

    def end(self, type: str, fields: Mapping[str, object]) -> TurnState:
        return self._conversations.end(*self._ids, type, fields)

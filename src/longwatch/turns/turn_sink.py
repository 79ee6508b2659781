"""Where the executor of a turn brings what its command says: to a journal, or to a server elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from longwatch.model.run import Status
from longwatch.turns.conversations import Conversations
from longwatch.turns.line_reader import LineResult
from longwatch.turns.turn import TurnState

MAX_LINE_BYTES = 16 * 1024 * 1024  # agents print whole files, and images, on one line
RETRY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class TurnName:
    """Which turn it is."""

    project_id: str
    conversation_id: str
    turn_id: str

    @classmethod
    def of(cls, state: TurnState) -> TurnName:
        """The name of a turn that was created."""
        assert state.creation is not None
        return cls(state.creation.project_id, state.creation.conversation_id, state.turn_id)


class TurnStatus(Protocol):
    """How a turn stands."""

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
        """How long a turn took that has ended, from its creation; None where that is not known."""


class TurnSink(Protocol):
    """Takes what is said of one turn. Everything may be said again: what is known already changes nothing."""

    @property
    def max_line_bytes(self) -> int:
        """How long a line may be; the rest of a longer one is left out."""

    @property
    def retry_seconds(self) -> float:
        """How long to try on when the command has ended and the desk does not answer."""

    def start(self, *, executor: str, process: Mapping[str, object]) -> int:
        """Take the turn, or `TurnTaken` or `TurnEnded`. Returns the number of the next line."""

    def feed(self, lines: Sequence[str], first_line: int) -> LineResult:
        """Add lines, the first of which has this number. `TurnEnded` if the turn takes no more.

        The agent's report among them does not end the turn; `end` does, when its process is known too.
        """

    def read_status(self) -> TurnStatus:
        """How the turn stands, as far as is known."""

    def end(self, type: str, fields: Mapping[str, object]) -> TurnStatus:
        """End the turn, judging what is said of the process beside the agent's report; how it stands then."""


class JournalTurnSink:
    """A desk before a journal that this process has open."""

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

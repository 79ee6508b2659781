"""Turns over a journal: made, listed, fed, interrupted and ended.

Every write is an event under an id that comes from what it says, so that doing it again changes nothing. A
race between two writers is decided by the fold of what both wrote, the same on every journal: of several
turns all but the last one end, and of several ends the better one counts (see `summaries`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import (
    AlreadyThere,
    EventConflict,
    TurnEnded,
    TurnNotFound,
    TurnTaken,
)
from longwatch.events import Event
from longwatch.journal.base import Journal
from longwatch.runs import Status
from longwatch.settings import Settings
from longwatch.turns.deaths import Deaths
from longwatch.turns.directory import Conversation
from longwatch.turns.feeding import Fed, LineReader
from longwatch.turns.folds import Folds
from longwatch.turns.names import checked_turn_id, conversation_run, new_turn_id
from longwatch.turns.projects import Projects
from longwatch.turns.state import WIRE_WORDS, TurnState

NAME_CHARACTERS = 80  # of a prompt, in lists
INTERRUPTED = "interrupted by the user"
GONE_AFTER_MS = 60_000  # a turn that was added longer ago and has no events has expired
REMEMBERED_ENDS = 100_000  # ids of turns that are known to have ended


class Conversations(Projects):
    """All conversations of one journal. Threads may share it."""

    def __init__(
        self, journal: Journal, clock: Clock = SYSTEM_CLOCK, *, settings: Settings | None = None
    ) -> None:
        super().__init__(journal, clock, settings=settings)
        self._turns = Folds[TurnState](journal)
        self._deaths = Deaths(clock)
        self._ended: dict[str, None] = {}

    def create_turn(
        self, project_id: str, conversation_id: str, prompt: str | None = None, id: str | None = None
    ) -> TurnState:
        """Make a turn, pending, and cancel those before it that have not ended.

        Of turns that are made at the same time the last one goes on, and the others are cancelled as well.
        """
        turn_id = new_turn_id() if id is None else checked_turn_id(id)
        run_id = conversation_run(project_id, conversation_id)
        conversation = self._conversation(project_id, conversation_id, thorough=True)
        if not conversation.exists:
            self.conversation(project_id, conversation_id)
        known = self._turn(turn_id) if id is not None else TurnState(turn_id)
        if known.creation is not None and not _belongs(known, project_id, conversation_id):
            raise AlreadyThere(
                f"Turn {turn_id!r} belongs to another session. Leave its id out, or choose another."
            )
        if known.creation is None or conversation.turn(turn_id) is None:
            number = known.creation.number if known.creation is not None else conversation.next_number
            self._append(self._new_turn(run_id, project_id, conversation_id, turn_id, prompt, number))
        self._cancel_earlier(project_id, conversation_id)
        return self._turn(turn_id, thorough=True)

    def turns(self, project_id: str, conversation_id: str) -> list[TurnState]:
        """The turns of a conversation, the first one first. Those whose events are gone are left out."""
        conversation = self.conversation(project_id, conversation_id)
        states = [self._turn(added.turn_id) for added in conversation.turns]
        return [self._looked_after(state) for state in states if state.creation is not None]

    def last_turn(self, conversation: Conversation) -> TurnState | None:
        """How the newest turn of a conversation stands; None if it has none."""
        if not conversation.turns:
            return None
        state = self._turn(conversation.turns[-1].turn_id)
        return self._looked_after(state) if state.creation is not None else None

    def turn(self, project_id: str, conversation_id: str, turn_id: str) -> TurnState:
        """One turn with its blocks, or an error that says what of the three is not there."""
        return self._looked_after(self._found(project_id, conversation_id, turn_id))

    def start(
        self,
        project_id: str,
        conversation_id: str,
        turn_id: str,
        *,
        executor: str | None = None,
        process: Mapping[str, object] | None = None,
    ) -> TurnState:
        """Say who executes a turn. `TurnTaken` if somebody else does, `TurnEnded` if nobody may any more."""
        state = self._found(project_id, conversation_id, turn_id, thorough=True)
        if state.has_ended:
            raise TurnEnded(turn_id, state.wire_status)
        said = {"executor": executor, "process": process}
        given = {name: value for name, value in said.items() if value is not None}
        # All who want the turn write this event under one id and at one time: there every journal can tell
        # that it is somebody else's. Only whoever comes first goes on.
        claimed_at = state.created_at or 0
        try:
            self._journal.append(
                [self._make.event(turn_id, f"{turn_id}-00-claimed", "turn_claimed", claimed_at, given)]
            )
        except EventConflict as error:
            who = state.start.executor if state.start is not None else None
            raise TurnTaken(
                f"Turn {turn_id} is executed by {who or 'somebody else'} already. "
                "Wait for it, or create a new turn."
            ) from error
        if state.start is None:
            at = self._clock.now_ms()
            self._append([self._make.event(turn_id, f"{turn_id}-00-started", "turn_started", at, given)])
            state = self._turn(turn_id, thorough=True)
        return state

    def feed(
        self,
        project_id: str,
        conversation_id: str,
        turn_id: str,
        lines: Iterable[str],
        first_line: int | None = None,
        *,
        keep_output: bool = False,
    ) -> Fed:
        """Add lines of stream-JSON to a turn, in their order.

        With the number of the first line, lines that are there already are not stored again. Without it only
        those that carry a `uuid` are recognised. `InvalidLine` and `TurnEnded` are raised after everything
        before the line in question was stored; they say how much that was. `keep_output` keeps a line that is
        no JSON as output, rather than to refuse it.
        """
        state = self._found(project_id, conversation_id, turn_id)
        reader = LineReader(state, self._make, self._clock.now_ms(), keep_output=keep_output)
        batch = reader.batch(lines, first_line)
        # The end goes last: where a batch is stored in part, what comes before the end can still be added.
        self._append(batch.events)
        self._append(batch.end)
        if batch.problem is not None:
            raise batch.problem
        status = state.wire_status
        if batch.end:
            status = state.plus(batch.end).wire_status
        elif batch.events:
            status = WIRE_WORDS[Status.RUNNING]
        return Fed(batch.accepted, batch.blocks, status, (*batch.events, *batch.end))

    def interrupt(
        self, project_id: str, conversation_id: str, turn_id: str, reason: str | None = None
    ) -> TurnState:
        """Cancel a turn. One that has ended stays as it is."""
        state = self._found(project_id, conversation_id, turn_id, thorough=True)
        if not state.has_ended:
            self._cancel(turn_id, "interrupted", reason or INTERRUPTED, by="user")
        return self._turn(turn_id, thorough=True)

    def end(
        self,
        project_id: str,
        conversation_id: str,
        turn_id: str,
        type: str = "turn_completed",
        said: Mapping[str, object] | None = None,
    ) -> TurnState:
        """Say for an agent that did not say it itself how its turn ended. Its own word counts for more."""
        state = self._found(project_id, conversation_id, turn_id, thorough=True)
        if not state.has_ended:
            told, at = {**(said or {}), "written_for": True}, self._clock.now_ms()
            self._append([self._make.event(turn_id, f"{turn_id}-ended", type, at, told)])
        return self._turn(turn_id, thorough=True)

    def find_turn(self, turn_id: str) -> TurnState:
        """A turn by its id alone, or `TurnNotFound`."""
        state = self._turn(turn_id)
        if state.creation is None:
            raise TurnNotFound(f"There is no turn {turn_id!r} in {self._journal.url}. Check its id.")
        return state

    def _new_turn(
        self,
        conversation_run_id: str,
        project_id: str,
        conversation_id: str,
        turn_id: str,
        prompt: str | None,
        number: int,
    ) -> list[Event]:
        at = self._clock.now_ms()
        name = _first_line(prompt)
        fixed = {
            "project_id": project_id,
            "conversation_id": conversation_id,
            "number": number,
            "parent_run_id": conversation_run_id,
        }
        said = {"prompt": prompt, "name": name}
        return [
            self._make.event(turn_id, f"{turn_id}-00-created", "turn_created", at, said, fixed=fixed),
            self._make.event(
                conversation_run_id,
                f"{turn_id}-added",
                "turn_added",
                at,
                {"turn_id": turn_id, "number": number, "prompt": name},
                expires=False,
            ),
        ]

    def _cancel_earlier(self, project_id: str, conversation_id: str) -> None:
        """Cancel every turn but the last one, unless it has ended.

        Whoever adds a turn looks afterwards, so of two that add turns at once the later one sees both.
        """
        turns = self._conversation(project_id, conversation_id, thorough=True).turns
        for turn in turns[:-1]:
            if turn.turn_id in self._ended:
                continue
            run, age_ms = self._journal.find_run(turn.turn_id), self._clock.now_ms() - turn.order[0]
            if run.ending is None if run is not None else age_ms < GONE_AFTER_MS:
                told = f"cancelled: turn {turns[-1].turn_id} was started in the session"
                self._cancel(turn.turn_id, "superseded", told, by=turns[-1].turn_id)
            self._ended[turn.turn_id] = None
            while len(self._ended) > REMEMBERED_ENDS:
                self._ended.pop(next(iter(self._ended)), None)

    def _cancel(self, turn_id: str, how: str, told: str, *, by: str) -> None:
        said = {"error_message": told, "by": by}
        at = self._clock.now_ms()
        self._append([self._make.event(turn_id, f"{turn_id}-{how}", "turn_cancelled", at, said)])

    def _looked_after(self, state: TurnState) -> TurnState:
        """The turn, ended if the process that executes it is known to be gone without a word."""
        if not self._deaths.has_come(state):
            return state
        state = self._turn(state.turn_id, thorough=True)
        event = self._deaths.end_of(state, self._make.ttl_seconds)
        if event is None:
            return state
        self._append([event])
        return self._turn(state.turn_id, thorough=True)

    def _found(
        self, project_id: str, conversation_id: str, turn_id: str, *, thorough: bool = False
    ) -> TurnState:
        state = self._turn(turn_id, thorough=thorough)
        if not _belongs(state, project_id, conversation_id):
            self.conversation(project_id, conversation_id)
            raise TurnNotFound(
                f"There is no turn {turn_id!r} in session {conversation_id!r} of project {project_id!r}. "
                "Create it, or check its id."
            )
        return state

    def _turn(self, turn_id: str, *, thorough: bool = False) -> TurnState:
        return self._turns.read(checked_turn_id(turn_id), lambda: TurnState(turn_id), thorough=thorough)


def _belongs(state: TurnState, project_id: str, conversation_id: str) -> bool:
    creation = state.creation
    return creation is not None and (creation.project_id, creation.conversation_id) == (
        project_id,
        conversation_id,
    )


def _first_line(prompt: str | None) -> str | None:
    """The beginning of a prompt, for lists."""
    lines = (prompt or "").strip().splitlines()
    if not lines:
        return None
    return lines[0] if len(lines[0]) <= NAME_CHARACTERS else f"{lines[0][: NAME_CHARACTERS - 1]}…"

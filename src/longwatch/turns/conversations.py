"""Creates, lists, feeds, interrupts and ends the turns of a journal, also when their executor has died.

The id of every event derives from its content, so that repeating a write changes nothing. A race between two
writers has the same result in every journal: of several open turns all but the last end, and of several
endings the first counts (see `journal.claims`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from hashlib import blake2b

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import (
    AlreadyThere,
    RunDeleted,
    TurnEnded,
    TurnNotFound,
    TurnTaken,
)
from longwatch.following.observation import Observer, read_known
from longwatch.following.process_watch import GRACE_SECONDS
from longwatch.journal.base import Journal
from longwatch.journal.claims import claim_ending, ending_from_death, read_all_events, store_claim
from longwatch.journal.fold_reader import FoldReader
from longwatch.model.event import Event, number_of, text_of
from longwatch.model.process import Presence
from longwatch.model.run import Status
from longwatch.settings import Settings
from longwatch.turns.ids import conversation_run, new_id, new_turn_id, validate_turn_id
from longwatch.turns.line_reader import LineReader, LineResult
from longwatch.turns.projects import Conversation, Projects
from longwatch.turns.streaming import TextStream
from longwatch.turns.turn import TurnState, position_of, report_of_turn, wire_status_of
from longwatch.turns.verdict import (
    TurnEvidence,
    correction_of,
    died_event,
    ending_event,
    evidence_of,
    pick_worse,
    verdict_event,
)

MAX_NOTICED = 1_000


class DeathGrace:
    """Delays the ending of a turn whose process has exited: its parent may still report the outcome."""

    def __init__(self, journal: Journal, clock: Clock, *, grace_seconds: float = GRACE_SECONDS) -> None:
        self._journal = journal
        self._clock = clock
        self._observer = Observer(journal, clock=clock)
        self._grace_seconds = grace_seconds
        self._noticed: dict[str, float] = {}

    def is_over(self, state: TurnState) -> bool:
        """Whether the process that owns this turn has exited and the grace period is over."""
        if state.has_ended or state.process is None or state.process.presence() is not Presence.GONE:
            self._noticed.pop(state.turn_id, None)
            return False
        now = self._clock.monotonic()
        while len(self._noticed) >= MAX_NOTICED:
            self._noticed.pop(next(iter(self._noticed)), None)
        return now - self._noticed.setdefault(state.turn_id, now) >= self._grace_seconds

    def find_ending(self, turn_id: str) -> Event | None:
        """The terminal event of a turn whose processes have all exited, under the id of its one ending.

        None if the turn has ended, another process still works on it, or its events wait in an outbox.
        """
        death = self._observer.death_of(turn_id, read_known(self._journal, turn_id))
        return None if death is None else ending_from_death(death)


NAME_CHARACTERS = 80  # of a prompt, in lists
INTERRUPTED = "interrupted by the user"
NUMBERED = "turn_numbered"
EXPIRED_AFTER_MS = 60_000  # a turn without events that was added longer ago has expired
MAX_STREAMS = 1_000  # turns whose streamed text is in memory
MAX_ENDED_TURNS = 100_000  # ids of ended turns in memory


class Conversations(Projects):
    """All conversations of one journal. Safe for several threads."""

    def __init__(
        self, journal: Journal, clock: Clock = SYSTEM_CLOCK, *, settings: Settings | None = None
    ) -> None:
        super().__init__(journal, clock, settings=settings)
        self._turns = FoldReader[TurnState](journal)
        self._death_grace = DeathGrace(journal, clock)
        self._ended: dict[str, None] = {}
        self._streams: dict[str, TextStream] = {}  # turn -> the text that its agent is printing

    def create_turn(
        self,
        project_id: str,
        conversation_id: str,
        prompt: str | None = None,
        id: str | None = None,
        *,
        on_cancelled: Callable[[str], None] | None = None,
    ) -> TurnState:
        """Create a pending turn, and cancel the open turns before it.

        Of turns that are created at the same time, the last one stays open and the others are cancelled.
        `on_cancelled` receives the id of each cancelled turn.
        """
        turn_id = new_turn_id() if id is None else validate_turn_id(id)
        conversation = self._conversation(project_id, conversation_id, thorough=True)
        if not conversation.exists:
            self.conversation(project_id, conversation_id)
        stored = self._turn(turn_id, thorough=True) if id is not None else TurnState(turn_id)
        if stored.creation is None or _belongs(stored, project_id, conversation_id):
            self._append(self._creation_events(conversation, stored, prompt, is_given=id is not None))
            stored = self._turn(turn_id, thorough=True)
        if not _belongs(stored, project_id, conversation_id):  # two sessions may create it at the same time
            raise AlreadyThere(
                f"Turn {turn_id!r} belongs to another session. Omit the id, or choose another one."
            )
        for cancelled in self._cancel_earlier(project_id, conversation_id):
            if on_cancelled is not None:
                on_cancelled(cancelled)
        return self._turn(turn_id, thorough=True)

    def turns(self, project_id: str, conversation_id: str, *, thorough: bool = False) -> list[TurnState]:
        """The turns of a conversation, the first one first, without expired and deleted ones.

        `thorough` includes everything that any writer has stored by now, whatever its clock.
        """
        conversation = self.conversation(project_id, conversation_id, thorough=thorough)
        states = [self._find_turn(added.turn_id, thorough=thorough) for added in conversation.turns]
        return [self._end_if_died(state) for state in states if _belongs(state, project_id, conversation_id)]

    def last_turn(self, conversation: Conversation) -> TurnState | None:
        """The newest turn of a conversation; None if it has none, or that one expired or was deleted."""
        if not conversation.turns:
            return None
        state = self._find_turn(conversation.turns[-1].turn_id)
        return self._end_if_died(state) if state.creation is not None else None

    def turn(self, project_id: str, conversation_id: str, turn_id: str) -> TurnState:
        """One turn with its blocks, or an error that names the missing project, session or turn."""
        return self._end_if_died(self._require_turn(project_id, conversation_id, turn_id))

    def start(
        self,
        project_id: str,
        conversation_id: str,
        turn_id: str,
        *,
        executor: str | None = None,
        process: Mapping[str, object] | None = None,
        claim: str | None = None,
    ) -> TurnState:
        """Claim a turn for its one executor. `TurnTaken` if another has it, `TurnEnded` if it has ended.

        Executors may share a name, so every call counts as another executor. An executor that retries a lost
        call passes the same unique `claim` again.
        """
        state = self._require_turn(project_id, conversation_id, turn_id, thorough=True)
        if state.has_ended:
            raise TurnEnded(turn_id, state.wire_status)
        ours = claim or new_id()
        fields = {"executor": executor, "process": process}
        given = {name: value for name, value in fields.items() if value is not None}
        # All executors write this event with the same id and time, so that every journal detects a second
        # one. The id sorts after that of `turn_created`, which has the same time.
        wanted = self._make.event(
            turn_id,
            f"{turn_id}-00-created-claimed",
            "turn_claimed",
            state.created_at or 0,
            given,
            fixed={"claim": ours},
        )
        claimed = store_claim(self._journal, wanted).payload
        if text_of(claimed, "claim") != ours:
            raise TurnTaken(
                f"Another executor already has turn {turn_id}: {text_of(claimed, 'executor') or 'unnamed'}. "
                "Wait for it, or create a new turn."
            )
        if state.start is None:
            at = self._clock.now_ms()
            attempt = blake2b(ours.encode(errors="surrogatepass"), digest_size=4).hexdigest()
            fields = {**given, "attempt": attempt}
            self._append([self._make.event(turn_id, f"{turn_id}-00-started", "turn_started", at, fields)])
            state = self._turn(turn_id, thorough=True)
        if state.has_ended:  # between the first read and the claim
            raise TurnEnded(turn_id, state.wire_status)
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
        defer_end: bool = False,
    ) -> LineResult:
        """Add lines of an agent's JSON to a turn, in their order. The agent's report ends the turn.

        With the number of the first line, stored lines are not stored again, and gaps in the numbers are
        reported. Without it, only lines with a `uuid` are recognised. `InvalidLine` and `TurnEnded` are
        raised after all previous lines were stored, and state how many those are. `keep_output` stores a line
        that is not JSON as output instead of rejecting it. `defer_end` is for an executor, which calls `end`
        when the agent's process has ended too.
        """
        state = self._require_turn(project_id, conversation_id, turn_id)
        now = self._clock.now_ms()
        reader = LineReader(
            state,
            self._make,
            now,
            keep_output=keep_output,
            defer_end=defer_end,
            stream=self._streams.get(turn_id),
        )
        batch = reader.batch(lines, first_line)
        # The ending is stored last: if a batch is stored in part, the lines before it can still be added.
        self._append(batch.events)
        self._keep_stream(turn_id, reader.stream)
        status = state.wire_status if state.has_ended or not batch.events else wire_status_of(Status.RUNNING)
        if batch.report is not None and not defer_end:
            report = batch.report
            state = self._conclude(
                state, lambda state: TurnEvidence(pick_worse(report_of_turn(state), report))
            )
            status = state.wire_status
        if isinstance(batch.problem, TurnEnded):
            raise TurnEnded(turn_id, status, batch.accepted, batch.blocks)
        if batch.problem is not None:
            raise batch.problem
        position = position_of(state, *(event.event_id for event in batch.events[-1:]))
        missing = tuple(reader.lines.gaps())
        return LineResult(batch.accepted, batch.blocks, status, tuple(batch.events), missing, position)

    def _keep_stream(self, turn_id: str, stream: TextStream | None) -> None:
        """Remember what was streamed. Another process that is fed the next lines waits for the next block."""
        self._streams.pop(turn_id, None)
        if stream is not None:
            self._streams[turn_id] = stream
        while len(self._streams) > MAX_STREAMS:
            self._streams.pop(next(iter(self._streams)), None)

    def interrupt(
        self, project_id: str, conversation_id: str, turn_id: str, reason: str | None = None
    ) -> TurnState:
        """Cancel a turn. A turn that has ended stays unchanged."""
        state = self._require_turn(project_id, conversation_id, turn_id, thorough=True)
        return self._settle(state, self._cancelled_event(turn_id, reason or INTERRUPTED, by="user"))

    def wait(
        self,
        project_id: str,
        conversation_id: str,
        turn_id: str,
        reason: str,
        detail: str | None = None,
    ) -> TurnState:
        """Record that a turn waits. An open wait with the same reason and detail does not change.

        `TurnEnded` if the turn has ended.
        """
        state = self._require_turn(project_id, conversation_id, turn_id, thorough=True)
        if state.has_ended:
            raise TurnEnded(turn_id, state.wire_status)
        if any((wait.reason, wait.detail) == (reason, detail) for wait in state.waiting):
            return state
        given = {"reason": reason} if detail is None else {"reason": reason, "detail": detail}
        return self._record_wait(state, "waiting_started", new_id(), given)

    def resume(
        self, project_id: str, conversation_id: str, turn_id: str, reason: str | None = None
    ) -> TurnState:
        """Record that a turn no longer waits, or not for this reason. Without open waits, nothing changes."""
        state = self._require_turn(project_id, conversation_id, turn_id, thorough=True)
        now = self._clock.now_ms()
        for wait in state.waiting:
            if reason is None or wait.reason == reason:
                given = {"reason": wait.reason, "duration_ms": max(0, now - (wait.since or now))}
                state = self._record_wait(state, "waiting_ended", wait.call_id, given)
        return state

    def _record_wait(
        self, state: TurnState, type: str, call_id: str, fields: Mapping[str, object]
    ) -> TurnState:
        event_id = f"{state.turn_id}-{type}-{call_id}"
        now = self._clock.now_ms()
        self._append([self._make.event(state.turn_id, event_id, type, now, fields, call_id=call_id)])
        return self._turn(state.turn_id, thorough=True)

    def end(
        self,
        project_id: str,
        conversation_id: str,
        turn_id: str,
        type: str = "turn_completed",
        fields: Mapping[str, object] | None = None,
    ) -> TurnState:
        """End a turn with the outcome of the turn or of its process, judged with the agent's report.

        A turn that has ended stays unchanged; a different outcome is stored as a correction.
        """
        state = self._require_turn(project_id, conversation_id, turn_id, thorough=True)
        return self._conclude(state, lambda state: evidence_of(type, fields or {}, report_of_turn(state)))

    def report_death(self, project_id: str, conversation_id: str, turn_id: str, message: str) -> TurnState:
        """End a turn whose executor died. A turn that has ended stays unchanged."""
        state = self._require_turn(project_id, conversation_id, turn_id, thorough=True)
        return self._settle(state, died_event(self._make, state, self._clock.now_ms(), message))

    def find_turn(self, turn_id: str) -> TurnState:
        """A turn by its id alone, or `TurnNotFound`."""
        state = self._turn(turn_id)
        if state.creation is None:
            raise TurnNotFound(f"No turn {turn_id!r} in {self._journal.url}. Check the id.")
        return state

    def _claim(self, conversation: Conversation, turn_id: str, *, is_given: bool) -> tuple[int, int]:
        """The number and the creation time of a turn, the same for every writer that creates it.

        Writers claim a number with the same id and time, so that every journal detects a second claim. Of two
        writers that create one turn, the second finds the claim of the first, either stored or by collision.
        `is_given`: the caller chose the id, so another writer may use it too.
        """
        run_id, now = conversation_run(conversation.project_id, conversation.id), self._clock.now_ms()
        for claim in read_all_events(self._journal, run_id) if is_given else ():
            if claim.type == NUMBERED and _is_claim_of(claim, turn_id, now):
                return _claimed_number(claim)
        number = conversation.next_number
        while True:
            at = conversation.created_at + number
            fixed = {"turn_id": turn_id, "number": number, "created_at": now}
            wanted = self._make_lasting(run_id, f"{run_id}#turn-{number}", NUMBERED, at, {}, fixed=fixed)
            claim = store_claim(self._journal, wanted)
            if _is_claim_of(claim, turn_id, now):
                return _claimed_number(claim)
            number += 1

    def _creation_events(
        self, conversation: Conversation, stored: TurnState, prompt: str | None, *, is_given: bool
    ) -> list[Event]:
        """The events that create a turn and are not stored yet: a creation may have been interrupted.

        Every writer claims the end of the turn at its creation time, so all give it the same time.
        """
        creation, added = stored.creation, conversation.turn(stored.turn_id)
        if creation is not None:
            number, at = creation.number, creation.order[0]
        else:
            number, at = self._claim(conversation, stored.turn_id, is_given=is_given)
            number = added.number if added is not None else number
        run_id = conversation_run(conversation.project_id, conversation.id)
        events = []
        if creation is None:
            events.append(self._turn_created(conversation, run_id, stored.turn_id, at, prompt, number))
        if added is None:
            fields, fixed = {"prompt": _first_line(prompt)}, {"turn_id": stored.turn_id, "number": number}
            event_id = f"{stored.turn_id}-added"
            events.append(self._make_lasting(run_id, event_id, "turn_added", at, fields, fixed=fixed))
        return events

    def _turn_created(
        self,
        conversation: Conversation,
        run_id: str,
        turn_id: str,
        at: int,
        prompt: str | None,
        number: int,
    ) -> Event:
        fixed = {
            "project_id": conversation.project_id,
            "conversation_id": conversation.id,
            "number": number,
            "parent_run_id": run_id,
        }
        fields = {"prompt": prompt, "name": _first_line(prompt)}
        return self._make.event(turn_id, f"{turn_id}-00-created", "turn_created", at, fields, fixed=fixed)

    def _cancel_earlier(self, project_id: str, conversation_id: str) -> list[str]:
        """Cancel every open turn but the last one; returns the ids of the cancelled turns.

        Every writer calls this after it adds a turn, so of two concurrent writers the later one sees both.
        """
        turns, cancelled = self._conversation(project_id, conversation_id, thorough=True).turns, list[str]()
        for turn in turns[:-1]:
            if turn.turn_id in self._ended:
                continue
            run, age_ms = self._journal.find_run(turn.turn_id), self._clock.now_ms() - turn.order[0]
            if run.ending is None if run is not None else age_ms < EXPIRED_AFTER_MS:
                message = f"cancelled: turn {turns[-1].turn_id} was started in the session"
                terminal = self._cancelled_event(turn.turn_id, message, by=turns[-1].turn_id)
                with suppress(RunDeleted):
                    created_at = self._turn(turn.turn_id, thorough=True).created_at
                    self._store_ending(terminal, turn.order[0] if created_at is None else created_at)
                    cancelled.append(turn.turn_id)
            self._ended[turn.turn_id] = None
            while len(self._ended) > MAX_ENDED_TURNS:
                self._ended.pop(next(iter(self._ended)), None)
        return cancelled

    def _cancelled_event(self, turn_id: str, message: str, *, by: str) -> Event:
        fields = {"error_message": message, "by": by}
        return ending_event(self._make, turn_id, "turn_cancelled", self._clock.now_ms(), fields)

    def _conclude(self, state: TurnState, evidence: Callable[[TurnState], TurnEvidence]) -> TurnState:
        """End the turn by the evidence; if it has another ending already, add a correction."""
        at = self._clock.now_ms()
        state = self._settle(state, verdict_event(self._make, state.turn_id, at, evidence(state)))
        later = verdict_event(self._make, state.turn_id, at, evidence(state))
        stored = state.correction or state.ending
        correction = correction_of(stored, later) if stored is not None else None
        if correction is None:
            return state
        self._append([correction])
        return self._turn(state.turn_id, thorough=True)

    def _settle(self, state: TurnState, terminal: Event) -> TurnState:
        """End the turn with this event, unless another ending was claimed first."""
        if state.has_ended:
            return state
        self._store_ending(terminal, state.created_at or 0)
        return self._turn(state.turn_id, thorough=True)

    def _store_ending(self, terminal: Event, created_at: int) -> None:
        """Store this ending, or the one that was claimed first."""
        self._append([claim_ending(self._journal, terminal, created_at)])

    def _end_if_died(self, state: TurnState) -> TurnState:
        """The turn, ended if its process has exited without reporting an outcome."""
        return self.end_died(state.turn_id) if self._death_grace.is_over(state) else state

    def end_died(self, turn_id: str) -> TurnState:
        """The turn, ended if all its processes have exited and none reported an outcome."""
        event, state = self._death_grace.find_ending(turn_id), self._turn(turn_id, thorough=True)
        return state if event is None or state.has_ended else self._settle(state, event)

    def _require_turn(
        self, project_id: str, conversation_id: str, turn_id: str, *, thorough: bool = False
    ) -> TurnState:
        state = self._turn(turn_id, thorough=thorough)
        if not _belongs(state, project_id, conversation_id):
            self.conversation(project_id, conversation_id)
            raise TurnNotFound(
                f"No turn {turn_id!r} in session {conversation_id!r} of project {project_id!r}. "
                "Create it, or check the id."
            )
        return state

    def _find_turn(self, turn_id: str, *, thorough: bool = False) -> TurnState:
        """A turn that a session lists; without a creation if it was deleted."""
        try:
            return self._turn(turn_id, thorough=thorough)
        except RunDeleted:
            return TurnState(turn_id)

    def _turn(self, turn_id: str, *, thorough: bool = False) -> TurnState:
        thorough = self._is_written(validate_turn_id(turn_id)) or thorough
        return self._turns.read(turn_id, lambda: TurnState(turn_id), thorough=thorough)


def _belongs(state: TurnState, project_id: str, conversation_id: str) -> bool:
    creation = state.creation
    return creation is not None and (creation.project_id, creation.conversation_id) == (
        project_id,
        conversation_id,
    )


def _is_claim_of(claim: Event, turn_id: str, now_ms: int) -> bool:
    """Whether this claim of a number belongs to the turn, and not to an expired turn of the same id."""
    number, turn = _claimed_number(claim), text_of(claim.payload, "turn_id")
    return turn == turn_id and now_ms - number[1] < EXPIRED_AFTER_MS


def _claimed_number(claim: Event) -> tuple[int, int]:
    number, created_at = (number_of(claim.payload, name) for name in ("number", "created_at"))
    return int(number or 0), int(created_at or 0)


def _first_line(prompt: str | None) -> str | None:
    """The first line of a prompt, truncated for lists."""
    lines = (prompt or "").strip().splitlines()
    if not lines:
        return None
    return lines[0] if len(lines[0]) <= NAME_CHARACTERS else f"{lines[0][: NAME_CHARACTERS - 1]}…"

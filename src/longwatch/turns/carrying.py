"""Carries the lines of a running command into its turn, and notices when somebody else ends the turn.

One thread takes whatever lines have gathered and feeds them, numbered, so that a feed whose answer was lost
is simply made again. When there are none for a while it looks how the turn stands.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import Empty, Full, Queue

from longwatch.clock import Clock
from longwatch.errors import LongwatchError, TurnEnded, WorthAnotherTry
from longwatch.events import Event
from longwatch.polling.backoff import Backoff
from longwatch.turns.conversations import Conversations
from longwatch.turns.feeding import Fed
from longwatch.turns.state import TurnState

LOOK_SECONDS = 0.5  # between looks at a turn whose command is silent
GATHERED_LINES = 500  # fed at once
WAITING_LINES = 10_000  # beyond, the command waits as it would for any slow reader
LAST_SECONDS = 10.0  # for a journal that is away when the command has ended
RETRIES = Backoff(0.1, 2.0, 2.0)
ENDED = ("completed", "failed")


class Carrier:
    """Feeds the lines of one turn. `take` may be called from one other thread."""

    def __init__(
        self,
        conversations: Conversations,
        state: TurnState,
        *,
        stop: Callable[[], None],
        show: Callable[[Sequence[Event]], None],
        tell: Callable[[str], None],
        clock: Clock,
    ) -> None:
        assert state.creation is not None
        self._conversations = conversations
        self._ids = (state.creation.project_id, state.creation.conversation_id, state.turn_id)
        self._next_line = state.highest_line + 1
        self._stop = stop
        self._show: Callable[[Sequence[Event]], None] | None = show
        self._tell = tell
        self._clock = clock
        self._lines: Queue[str | None] = Queue(WAITING_LINES)
        self._has_said_end = False  # the command, in a line of its own
        self._is_over = False  # further lines have no place in the turn
        self._give_up_at: float | None = None
        self._thread = threading.Thread(target=self._work, name="longwatch-turn", daemon=True)
        self.error: LongwatchError | None = None  # why lines were lost

    def start(self) -> None:
        self._thread.start()

    def take(self, line: str | None) -> None:
        """One line of the command's output; None after the last one. Waits while too many are waiting."""
        while self._thread.is_alive():
            try:
                self._lines.put(line, timeout=LOOK_SECONDS)
            except Full:
                continue
            return

    def finish(self) -> None:
        """There are no more lines. Return when all are stored, or cannot be."""
        self._give_up_at = self._clock.monotonic() + LAST_SECONDS
        self.take(None)
        self._thread.join()

    def _work(self) -> None:
        while True:
            lines, is_last = self._gathered()
            try:
                if lines and not self._is_over:
                    self._feed(lines)
                elif not is_last and not self._is_over:
                    self._look()
            except LongwatchError as error:
                self.error, self._is_over = error, True
                self._tell(f"what the command says is not stored any more: {error}")
            if is_last:
                return

    def _gathered(self) -> tuple[list[str], bool]:
        """The lines that are there, after waiting a little for the first; whether they are the last."""
        lines: list[str] = []
        try:
            line = self._lines.get(timeout=LOOK_SECONDS)
            while line is not None:
                lines.append(line)
                # A line that may end the turn is fed before what follows it, which may be refused.
                if len(lines) >= GATHERED_LINES or '"result"' in line:
                    return lines, False
                line = self._lines.get_nowait()
        except Empty:
            return lines, False
        return lines, True

    def _feed(self, lines: list[str]) -> None:
        try:
            fed = self._patiently_fed(lines)
        except TurnEnded:
            self._ended()
            return
        self._next_line += len(lines)
        self._has_said_end = fed.status in ENDED
        self._shown(fed.events)

    def _patiently_fed(self, lines: list[str]) -> Fed:
        backoff = RETRIES
        while True:
            try:
                return self._conversations.feed(*self._ids, lines, self._next_line, keep_output=True)
            except WorthAnotherTry as error:
                backoff = backoff.failed()
                if self._give_up_at is not None and self._clock.monotonic() >= self._give_up_at:
                    raise
                if backoff.failures == 1:
                    self._tell(f"the journal does not take the command's lines, which wait: {error}")
                self._clock.sleep(backoff.delay or 0.0)

    def _look(self) -> None:
        if self._has_said_end:
            return
        try:
            state = self._conversations.turn(*self._ids)
        except WorthAnotherTry:
            return
        if state.has_ended:
            self._ended()

    def _ended(self) -> None:
        """The turn takes no more lines: by the command's own word, or because somebody stopped it."""
        self._is_over = True
        if self._has_said_end:
            self._tell("the command goes on after the end of its turn; what it says now is not stored")
        else:
            self._stop()

    def _shown(self, events: Sequence[Event]) -> None:
        if self._show is None or not events:
            return
        try:
            self._show(events)
        except OSError:  # nobody reads it any more; the turn goes on
            self._show = None

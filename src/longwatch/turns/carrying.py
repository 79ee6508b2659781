"""Carries the lines of a running command into its turn, and notices when somebody else ends the turn.

One thread takes whatever lines have gathered and feeds them, numbered, so that a feed whose answer was lost
is simply made again. When there are none for a while it looks how the turn stands. What could not be stored
in the end is handed to `keep`, so that nothing is lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from longwatch.clock import Clock
from longwatch.errors import LongwatchError, TurnEnded, WorthAnotherTry
from longwatch.model.event import Event
from longwatch.polling.backoff import Backoff
from longwatch.turns.desk import Desk
from longwatch.turns.feeding import Fed
from longwatch.turns.waiting import Waiting

LOOK_SECONDS = 0.5  # between looks at a turn whose command is silent
GATHERED_LINES = 500  # fed at once
GATHERED_CHARACTERS = 4 * 1024 * 1024
RETRIES = Backoff(0.1, 2.0, 5.0, jitter=0.25)

Keep = Callable[[int, Sequence[str]], None]
"""Puts away lines that were not stored, with the number of the first."""


class Carrier:
    """Feeds the lines of one turn. `take` may be called from one other thread."""

    def __init__(
        self,
        desk: Desk,
        next_line: int,
        *,
        stop: Callable[[], None],
        show: Callable[[Sequence[Event]], None],
        tell: Callable[[str], None],
        clock: Clock,
        keep: Keep | None = None,
        remark: Callable[[str], None] | None = None,
    ) -> None:
        self._desk = desk
        self._next_line = next_line
        self._stop = stop
        self._show: Callable[[Sequence[Event]], None] | None = show
        self._tell = tell
        self._remark = remark or tell  # what is not a loss, so that a quiet caller may leave it out
        self._clock = clock
        self._keep = keep
        self._lines = Waiting()
        self._is_over = False  # further lines have no place in the turn
        self._give_up_at: float | None = None
        self._thread = threading.Thread(target=self._work, name="longwatch-turn", daemon=True)
        self.error: LongwatchError | None = None  # why lines were not stored

    def start(self) -> None:
        self._thread.start()

    def take(self, line: str) -> None:
        """One line of the command's output. Waits while too many are waiting."""
        while self._thread.is_alive() and not self._lines.put(line, LOOK_SECONDS):
            pass

    def finish(self, patience_seconds: float, is_hurried: Callable[[], bool] = lambda: False) -> None:
        """There are no more lines. Return when all are stored, or cannot be, or somebody is in a hurry."""
        self._give_up_at = self._clock.monotonic() + patience_seconds
        self._lines.close()
        self._thread.join(LOOK_SECONDS)
        if self._thread.is_alive():
            self._remark(
                f"the last lines of the command wait up to {patience_seconds:g} s for the journal. "
                "Ctrl-C gives up"
            )
        while self._thread.is_alive():
            self._thread.join(LOOK_SECONDS)
            if is_hurried():
                self._give_up_at = self._clock.monotonic()

    def _work(self) -> None:
        is_last = False
        while not is_last:
            lines, is_last = self._lines.take(
                LOOK_SECONDS, most_lines=GATHERED_LINES, most_characters=GATHERED_CHARACTERS
            )
            try:
                if self._is_over:
                    self._put_away(lines)
                elif lines:
                    self._feed(lines)
                elif not is_last:
                    self._look()
            except LongwatchError as error:
                self.error, self._is_over = error, True
                self._tell(f"what the command says is not stored any more: {error}")
                self._put_away(lines)

    def _feed(self, lines: list[str]) -> None:
        try:
            fed = self._patiently_fed(lines)
        except TurnEnded:
            self._ended()
            return
        self._next_line += len(lines)
        self._shown(fed.events)

    def _patiently_fed(self, lines: list[str]) -> Fed:
        backoff = RETRIES
        while True:
            try:
                fed = self._desk.feed(lines, self._next_line)
            except WorthAnotherTry as error:
                backoff = backoff.failed()
                if self._give_up_at is not None and self._clock.monotonic() >= self._give_up_at:
                    raise
                if backoff.failures == 1:
                    self._remark(f"the journal does not take the command's lines, which wait: {error}")
                self._clock.sleep(backoff.delay or 0.0)
            else:
                if backoff.failures:
                    self._remark("the journal takes the command's lines again")
                return fed

    def _look(self) -> None:
        try:
            standing = self._desk.standing()
        except WorthAnotherTry:
            return
        if standing.has_ended:
            self._ended()

    def _ended(self) -> None:
        """The turn was ended by another writer: an interrupt, or a newer turn."""
        self._is_over = True
        self._stop()

    def _put_away(self, lines: Sequence[str]) -> None:
        if self.error is None or self._keep is None or not lines:
            return
        try:
            self._keep(self._next_line, lines)
        except OSError as error:
            self._keep = None
            self._tell(f"what was not stored cannot be kept here either: {error}")
        self._next_line += len(lines)

    def _shown(self, events: Sequence[Event]) -> None:
        if self._show is None or not events:
            return
        try:
            self._show(events)
        except OSError:  # nobody reads it any more; the turn goes on
            self._show = None

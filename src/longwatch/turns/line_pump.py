"""Carries the lines of a running command into its turn, and notices when the turn is ended elsewhere.

One thread takes whatever lines have gathered and feeds them, numbered, so that a feed whose answer was lost
is simply made again. When there are none for a while it looks how the turn stands. What could not be stored
in the end is handed to `keep`, so that nothing is lost.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from longwatch.clock import Clock
from longwatch.errors import LongwatchError, TurnEnded, WorthAnotherTry
from longwatch.model.event import Event
from longwatch.polling.backoff import Backoff
from longwatch.turns.line_reader import LineResult
from longwatch.turns.turn_sink import TurnSink

WAITING_CHARACTERS = 32 * 1024 * 1024
WAITING_LINES = 10_000
LINE_COSTS = 100  # characters that each line is counted with, besides its own


class LineQueue:
    """A queue between the thread that reads lines and the one that stores them."""

    def __init__(self, most_characters: int = WAITING_CHARACTERS, most_lines: int = WAITING_LINES) -> None:
        self._most_characters = most_characters
        self._most_lines = most_lines
        self._lines: deque[str] = deque()
        self._characters = 0
        self._is_closed = False
        self._changed = threading.Condition()

    def put(self, line: str, seconds: float) -> bool:
        """Add a line. False if there was no room within so many seconds; there always is for a first one.

        A line that comes after `close` is dropped: its producer outlives the turn.
        """
        size = len(line) + LINE_COSTS
        with self._changed:
            if self._is_closed:
                return True
            if not self._changed.wait_for(lambda: self._has_room(size), seconds):
                return False
            self._lines.append(line)
            self._characters += size
            self._changed.notify_all()
            return True

    def close(self) -> None:
        """There are no more lines."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def take(self, seconds: float, *, most_lines: int, most_characters: int) -> tuple[list[str], bool]:
        """The lines that are there, and whether they are the last of all. Waits so long for the first."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._lines) or self._is_closed, seconds)
            taken: list[str] = []
            size = 0
            while self._lines and len(taken) < most_lines:
                if taken and size + len(self._lines[0]) > most_characters:
                    break
                line = self._lines.popleft()
                size += len(line)
                self._characters -= len(line) + LINE_COSTS
                taken.append(line)
            self._changed.notify_all()
            return taken, self._is_closed and not self._lines

    def _has_room(self, size: int) -> bool:
        if not self._lines:
            return True
        return len(self._lines) < self._most_lines and self._characters + size <= self._most_characters


POLL_SECONDS = 0.5  # between looks at a turn whose command is silent
GATHERED_LINES = 500  # fed at once
GATHERED_CHARACTERS = 4 * 1024 * 1024
RETRIES = Backoff(0.1, 2.0, 5.0, jitter=0.25)

StoreUnsent = Callable[[int, Sequence[str]], None]
"""Puts away lines that were not stored, with the number of the first."""


class LinePump:
    """Feeds the lines of one turn. `take` may be called from one other thread."""

    def __init__(
        self,
        sink: TurnSink,
        next_line: int,
        *,
        stop: Callable[[], None],
        show: Callable[[Sequence[Event]], None],
        warn: Callable[[str], None],
        clock: Clock,
        keep: StoreUnsent | None = None,
        notify: Callable[[str], None] | None = None,
    ) -> None:
        self._sink = sink
        self._next_line = next_line
        self._stop = stop
        self._show: Callable[[Sequence[Event]], None] | None = show
        self._warn = warn
        self._notify = notify or warn  # what is not a loss, so that a quiet caller may leave it out
        self._clock = clock
        self._store_unsent = keep
        self._lines = LineQueue()
        self._is_over = False  # further lines have no place in the turn
        self._give_up_at: float | None = None
        self._thread = threading.Thread(target=self._work, name="longwatch-turn", daemon=True)
        self.error: LongwatchError | None = None  # why lines were not stored

    def start(self) -> None:
        self._thread.start()

    def take(self, line: str) -> None:
        """One line of the command's output. Waits while too many are waiting."""
        while self._thread.is_alive() and not self._lines.put(line, POLL_SECONDS):
            pass

    def finish(self, retry_seconds: float, is_hurried: Callable[[], bool] = lambda: False) -> None:
        """There are no more lines. Return when all are stored, or cannot be, or somebody is in a hurry."""
        self._give_up_at = self._clock.monotonic() + retry_seconds
        self._lines.close()
        self._thread.join(POLL_SECONDS)
        if self._thread.is_alive():
            self._notify(
                f"the last lines of the command wait up to {retry_seconds:g} s for the journal. "
                "Ctrl-C gives up"
            )
        while self._thread.is_alive():
            self._thread.join(POLL_SECONDS)
            if is_hurried():
                self._give_up_at = self._clock.monotonic()

    def _work(self) -> None:
        is_last = False
        while not is_last:
            lines, is_last = self._lines.take(
                POLL_SECONDS, most_lines=GATHERED_LINES, most_characters=GATHERED_CHARACTERS
            )
            try:
                if self._is_over:
                    self._keep_unsent(lines)
                elif lines:
                    self._feed(lines)
                elif not is_last:
                    self._poll()
            except LongwatchError as error:
                self.error, self._is_over = error, True
                self._warn(f"what the command says is not stored any more: {error}")
                self._keep_unsent(lines)

    def _feed(self, lines: list[str]) -> None:
        try:
            fed = self._feed_with_retries(lines)
        except TurnEnded:
            self._on_turn_ended()
            return
        self._next_line += len(lines)
        self._show_events(fed.events)

    def _feed_with_retries(self, lines: list[str]) -> LineResult:
        backoff = RETRIES
        while True:
            try:
                fed = self._sink.feed(lines, self._next_line)
            except WorthAnotherTry as error:
                backoff = backoff.failed()
                if self._give_up_at is not None and self._clock.monotonic() >= self._give_up_at:
                    raise
                if backoff.failures == 1:
                    self._notify(f"the journal does not take the command's lines, which wait: {error}")
                self._clock.sleep(backoff.delay or 0.0)
            else:
                if backoff.failures:
                    self._notify("the journal takes the command's lines again")
                return fed

    def _poll(self) -> None:
        try:
            read_status = self._sink.read_status()
        except WorthAnotherTry:
            return
        if read_status.has_ended:
            self._on_turn_ended()

    def _on_turn_ended(self) -> None:
        """The turn was ended by another writer: an interrupt, or a newer turn."""
        self._is_over = True
        self._stop()

    def _keep_unsent(self, lines: Sequence[str]) -> None:
        if self.error is None or self._store_unsent is None or not lines:
            return
        try:
            self._store_unsent(self._next_line, lines)
        except OSError as error:
            self._store_unsent = None
            self._warn(f"what was not stored cannot be kept here either: {error}")
        self._next_line += len(lines)

    def _show_events(self, events: Sequence[Event]) -> None:
        if self._show is None or not events:
            return
        try:
            self._show(events)
        except OSError:  # nobody reads it any more; the turn goes on
            self._show = None

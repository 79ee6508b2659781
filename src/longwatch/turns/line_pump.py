"""Feeds the lines of a running command to its turn, and notices when another writer ends the turn.

One thread takes the lines that have gathered and feeds them with numbers, so that a feed whose response was
lost can be repeated. Without lines it polls the status of the turn. Lines that could not be stored go to
`keep`, so that nothing is lost.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from longwatch.clock import Clock
from longwatch.errors import LongwatchError, TurnEnded, WorthAnotherTry
from longwatch.model.event import Event
from longwatch.polling.backoff import Backoff
from longwatch.turns.dialects import is_fragment
from longwatch.turns.line_reader import LineResult
from longwatch.turns.turn_sink import TurnSink

WAITING_CHARACTERS = 32 * 1024 * 1024
WAITING_LINES = 10_000
LINE_COSTS = 100  # characters added for each line


class LineQueue:
    """A bounded queue between the thread that reads lines and the thread that stores them."""

    def __init__(self, most_characters: int = WAITING_CHARACTERS, most_lines: int = WAITING_LINES) -> None:
        self._most_characters = most_characters
        self._most_lines = most_lines
        self._lines: deque[str] = deque()
        self._characters = 0
        self._whole = 0  # lines that are not fragments of a message
        self._is_closed = False
        self._changed = threading.Condition()

    def put(self, line: str, seconds: float) -> bool:
        """Add a line. False if there is no room within this time; an empty queue always has room.

        A line after `close` is dropped: its process outlives the turn.
        """
        size = len(line) + LINE_COSTS
        with self._changed:
            if self._is_closed:
                return True
            if not self._changed.wait_for(lambda: self._has_room(size), seconds):
                return False
            self._lines.append(line)
            self._characters += size
            self._whole += not is_fragment(line)
            self._changed.notify_all()
            return True

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def take(
        self, seconds: float, *, most_lines: int, most_characters: int, gather_seconds: float = 0.0
    ) -> tuple[list[str], bool]:
        """The queued lines, and whether they are the last. Waits up to this time for the first line.

        While only fragments of a message are queued, it waits up to `gather_seconds` for more of them.
        """
        with self._changed:
            self._changed.wait_for(lambda: bool(self._lines) or self._is_closed, seconds)
            if self._lines and gather_seconds > 0:
                self._changed.wait_for(
                    lambda: self._whole > 0 or self._is_closed or len(self._lines) >= most_lines,
                    gather_seconds,
                )
            taken: list[str] = []
            size = 0
            while self._lines and len(taken) < most_lines:
                if taken and size + len(self._lines[0]) > most_characters:
                    break
                line = self._lines.popleft()
                size += len(line)
                self._characters -= len(line) + LINE_COSTS
                self._whole -= not is_fragment(line)
                taken.append(line)
            self._changed.notify_all()
            return taken, self._is_closed and not self._lines

    def _has_room(self, size: int) -> bool:
        if not self._lines:
            return True
        return len(self._lines) < self._most_lines and self._characters + size <= self._most_characters


POLL_SECONDS = 0.5  # between polls of a turn whose command prints nothing
STREAM_SECONDS = 0.25  # between feeds of a message that is streaming, each of which stores an event
GATHERED_LINES = 500  # fed at once
GATHERED_CHARACTERS = 4 * 1024 * 1024
RETRIES = Backoff(0.1, 2.0, 5.0, jitter=0.25)

StoreUnsent = Callable[[int, Sequence[str]], None]
"""Stores lines that the sink did not accept, given the number of the first."""


class LinePump:
    """Feeds the lines of one turn. One other thread may call `put`."""

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
        self._notify = notify or warn  # for messages that are not losses
        self._clock = clock
        self._store_unsent = keep
        self._lines = LineQueue()
        self._is_over = False  # the turn accepts no further lines
        self._give_up_at: float | None = None
        self._fed_at = clock.monotonic() - STREAM_SECONDS
        self._thread = threading.Thread(target=self._work, name="longwatch-turn", daemon=True)
        self.error: LongwatchError | None = None  # why lines were not stored

    def start(self) -> None:
        self._thread.start()

    def put(self, line: str) -> None:
        """Queue a line of the command's output. Blocks while the queue is full."""
        while self._thread.is_alive() and not self._lines.put(line, POLL_SECONDS):
            pass

    def finish(self, retry_seconds: float, is_hurried: Callable[[], bool] = lambda: False) -> None:
        """Return when all lines are stored, the retries are over or `is_hurried` ends them."""
        self._give_up_at = self._clock.monotonic() + retry_seconds
        self._lines.close()
        self._thread.join(POLL_SECONDS)
        if self._thread.is_alive():
            self._notify(
                f"waiting up to {retry_seconds:g} s for the journal to store the command's last lines. "
                "Press Ctrl-C to give up."
            )
        while self._thread.is_alive():
            self._thread.join(POLL_SECONDS)
            if is_hurried():
                self._give_up_at = self._clock.monotonic()

    def _work(self) -> None:
        is_last = False
        while not is_last:
            lines, is_last = self._lines.take(
                POLL_SECONDS,
                most_lines=GATHERED_LINES,
                most_characters=GATHERED_CHARACTERS,
                gather_seconds=self._fed_at + STREAM_SECONDS - self._clock.monotonic(),
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
                self._warn(f"the command's output is no longer stored: {error}")
                self._keep_unsent(lines)

    def _feed(self, lines: list[str]) -> None:
        try:
            fed = self._feed_with_retries(lines)
        except TurnEnded:
            self._on_turn_ended()
            return
        self._next_line += len(lines)
        self._fed_at = self._clock.monotonic()
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
                    self._notify(f"cannot store the command's lines now, retrying: {error}")
                self._clock.sleep(backoff.delay or 0.0)
            else:
                if backoff.failures:
                    self._notify("the command's lines are stored again")
                return fed

    def _poll(self) -> None:
        try:
            read_status = self._sink.read_status()
        except WorthAnotherTry:
            return
        if read_status.has_ended:
            self._on_turn_ended()

    def _on_turn_ended(self) -> None:
        """Stop the command: another writer ended the turn, by an interrupt or a newer turn."""
        self._is_over = True
        self._stop()

    def _keep_unsent(self, lines: Sequence[str]) -> None:
        if self.error is None or self._store_unsent is None or not lines:
            return
        try:
            self._store_unsent(self._next_line, lines)
        except OSError as error:
            self._store_unsent = None
            self._warn(f"cannot write the unsent lines to a file: {error}")
        self._next_line += len(lines)

    def _show_events(self, events: Sequence[Event]) -> None:
        if self._show is None or not events:
            return
        try:
            self._show(events)
        except OSError:  # the output is closed; the turn continues
            self._show = None

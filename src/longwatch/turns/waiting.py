"""Lines that wait to be stored: so many characters of them, then whoever brings more has to wait."""

from __future__ import annotations

import threading
from collections import deque

WAITING_CHARACTERS = 32 * 1024 * 1024
WAITING_LINES = 10_000
LINE_COSTS = 100  # characters that each line is counted with, besides its own


class Waiting:
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

"""A journal that can be made to wait."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from longwatch.events import Event
from longwatch.journal.memory import MemoryJournal

OPEN_WAIT_SECONDS = 30  # longer than any healthy test takes


class Gate(MemoryJournal):
    """A journal whose appends wait until they are let through."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = threading.Semaphore(0)
        self.open = threading.Event()
        self.groups: list[int] = []

    def append(self, events: Sequence[Event]) -> None:
        self.arrived.release()
        assert self.open.wait(OPEN_WAIT_SECONDS)
        self.groups.append(len(events))
        super().append(events)

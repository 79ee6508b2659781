"""A journal that can be made to wait."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import Event
from tests.patience import PATIENCE_SECONDS


class Gate(MemoryJournal):
    """A journal whose appends wait until they are let through."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = threading.Semaphore(0)
        self.open = threading.Event()
        self.groups: list[int] = []

    def append(self, events: Sequence[Event]) -> None:
        self.arrived.release()
        assert self.open.wait(PATIENCE_SECONDS)
        self.groups.append(len(events))
        super().append(events)

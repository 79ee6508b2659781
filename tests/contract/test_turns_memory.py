"""Turns keep their promises in memory."""

from __future__ import annotations

import pytest

from longwatch.journal.memory import MemoryJournal
from longwatch.testing.clock import FakeClock
from tests.contract.events import OpenAgain
from tests.contract.turns import TurnsContract


class TestTurnsInMemory(TurnsContract):
    @pytest.fixture
    def open_again(self, clock: FakeClock) -> OpenAgain:
        journal = MemoryJournal(clock=clock)
        return lambda: journal

"""The memory journal keeps the promises."""

from __future__ import annotations

import pytest

from longwatch.journal.memory import MemoryJournal
from longwatch.testing.clock import FakeClock
from tests.contract.deletions import DeletionArrivalsContract, DeletionContract
from tests.contract.events import OpenAgain
from tests.contract.journal import JournalContract


class TestMemoryJournal(JournalContract, DeletionContract, DeletionArrivalsContract):
    opens_by_url = False

    @pytest.fixture
    def open_again(self, clock: FakeClock) -> OpenAgain:
        journal = MemoryJournal(clock=clock)
        return lambda: journal

"""The memory journal keeps the promises."""

from __future__ import annotations

import pytest

from longwatch.journal.memory import MemoryJournal
from longwatch.testing.clock import FakeClock
from tests.contract.journal import JournalContract
from tests.contract.making import OpenAgain


class TestMemoryJournal(JournalContract):
    opens_by_url = False

    @pytest.fixture
    def open_again(self, clock: FakeClock) -> OpenAgain:
        journal = MemoryJournal(clock=clock)
        return lambda: journal

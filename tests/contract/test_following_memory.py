"""Following keeps its promises on the memory journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from longwatch.journal.memory import MemoryJournal
from tests.contract.following import FollowingContract, StoriesContract
from tests.contract.making import OpenAgain
from tests.contract.watches import LoopClock


@pytest.mark.looptime
class TestMemoryJournal(FollowingContract):
    @pytest.fixture
    def open_again(self, clock: LoopClock) -> OpenAgain:
        journal = MemoryJournal(clock=clock)
        return lambda: journal


class TestStories(StoriesContract):
    def open_store(self, clock: LoopClock, folder: Path) -> OpenAgain:
        journal = MemoryJournal(clock=clock)
        return lambda: journal

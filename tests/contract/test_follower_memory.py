"""Following keeps its promises on the memory journal."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from longwatch.following import Hub
from longwatch.journal.memory import MemoryJournal
from longwatch.storage.change_signal import ChangeSignal, LocalSignal, LocalSubscription, OnChange
from longwatch.testing.simulation.virtual_loop import AtOnce, LoopClock
from tests.contract.events import OpenAgain, new_run
from tests.contract.follower import FollowerContract, StoriesContract
from tests.contract.follower_endings import FollowedDeletionContract
from tests.contract.watches import Watch


class CountingSignal(LocalSubscription):
    """A subscription that is listed until it is closed."""

    def __init__(self, on_change: OnChange, journal: CountingJournal) -> None:
        super().__init__(LocalSignal(), on_change, None)
        self._journal = journal
        journal.subscriptions.append(self)

    def close(self) -> None:
        self._journal.subscriptions.remove(self)


class CountingJournal(MemoryJournal):
    """A journal that lists its open subscriptions."""

    def __init__(self, *, clock: LoopClock) -> None:
        super().__init__(clock=clock)
        self.subscriptions: list[object] = []

    def subscribe(self, on_change: OnChange) -> ChangeSignal:
        return CountingSignal(on_change, self)


@pytest.mark.looptime
class TestMemoryJournal(FollowerContract, FollowedDeletionContract):
    @pytest.fixture
    def open_again(self, clock: LoopClock) -> OpenAgain:
        journal = MemoryJournal(clock=clock)
        return lambda: journal

    async def test_a_follower_that_leaves_before_the_first_signal_leaves_nothing_behind(
        self, clock: LoopClock
    ) -> None:
        journal = CountingJournal(clock=clock)
        for steps in range(12):  # of the event loop, so that it leaves at every stage of its beginning
            async with Hub(journal, clock=clock, executor=AtOnce()) as hub:
                watch = Watch(hub.follow(new_run()))
                for _ in range(steps):
                    await asyncio.sleep(0)
                await watch.leave()
                await asyncio.sleep(1.0)

                assert journal.subscriptions == []


class TestStories(StoriesContract):
    def open_store(self, clock: LoopClock, folder: Path) -> OpenAgain:
        journal = MemoryJournal(clock=clock)
        return lambda: journal

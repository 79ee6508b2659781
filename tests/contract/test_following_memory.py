"""Following keeps its promises on the memory journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from longwatch.following import Hub
from longwatch.journal.memory import MemoryJournal, MemorySignal
from longwatch.storage.change_signal import ChangeSignal
from longwatch.testing.simulation.virtual_loop import AtOnce, LoopClock
from tests.contract.following import FollowingContract, StoriesContract
from tests.contract.making import OpenAgain, new_run
from tests.contract.watches import Watch


class HeardJournal(MemoryJournal):
    """One that knows who listens to it."""

    def __init__(self, *, clock: LoopClock) -> None:
        super().__init__(clock=clock)
        self.listeners: list[object] = []

    def listen(self, heard: Callable[[], None]) -> ChangeSignal:
        listening = super().listen(heard)
        self.listeners.append(listening)
        return listening

    def stop_listening(self, ear: MemorySignal) -> None:
        super().stop_listening(ear)
        self.listeners.remove(ear)


@pytest.mark.looptime
class TestMemoryJournal(FollowingContract):
    @pytest.fixture
    def open_again(self, clock: LoopClock) -> OpenAgain:
        journal = MemoryJournal(clock=clock)
        return lambda: journal

    async def test_whoever_leaves_before_anything_was_heard_leaves_nothing_behind(
        self, clock: LoopClock
    ) -> None:
        journal = HeardJournal(clock=clock)
        for steps in range(12):  # of the event loop, so that it leaves at every stage of its beginning
            async with Hub(journal, clock=clock, executor=AtOnce()) as hub:
                watch = Watch(hub.follow(new_run()))
                for _ in range(steps):
                    await asyncio.sleep(0)
                await watch.leave()
                await asyncio.sleep(1.0)

                assert journal.listeners == []


class TestStories(StoriesContract):
    def open_store(self, clock: LoopClock, folder: Path) -> OpenAgain:
        journal = MemoryJournal(clock=clock)
        return lambda: journal

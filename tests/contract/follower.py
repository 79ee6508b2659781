"""What following a run promises on every journal. In virtual time, without threads."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from hypothesis import HealthCheck, given, settings

from longwatch.journal.base import Journal
from longwatch.storage.change_signal import Subscribe
from longwatch.testing.simulation.virtual_loop import LoopClock, in_virtual_time
from tests.contract.events import OpenAgain
from tests.contract.followed_stories import FollowedPlay, FollowedStory, followed_stories
from tests.contract.follower_delivery import DeliveryContract
from tests.contract.follower_endings import EndingsContract


class FollowerContract(DeliveryContract, EndingsContract):
    """An adapter's test class defines how to open its journal."""


class StoriesContract:
    """Everything at once, as hypothesis makes it up; each example in an event loop of its own."""

    examples = 100

    def open_store(self, clock: LoopClock, folder: Path) -> OpenAgain:
        """A new store, and how to open it."""
        raise NotImplementedError

    def subscribe(self, journal: Journal) -> Subscribe | None:
        return None

    def test_every_watcher_gets_every_event_exactly_once_whatever_happens(self, tmp_path: Path) -> None:
        clock, folders = LoopClock(), count()

        @settings(max_examples=self.examples, suppress_health_check=list(HealthCheck), deadline=None)
        @given(story=followed_stories())
        def check(story: FollowedStory) -> None:
            opened = self.open_store(clock, tmp_path / str(next(folders)))

            async def play() -> None:
                await FollowedPlay(opened, clock, story, self.subscribe).play()

            in_virtual_time(play)

        check()

"""Stories of writers, watchers who come, go and fall behind, and outages, for hypothesis to make up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st

from longwatch.errors import Throttled
from longwatch.following import CaughtUp, Ended, Followed, Hub, Reason
from longwatch.journal.base import Journal
from longwatch.model.event import START, Cursor, Event
from longwatch.storage.change_signal import Subscribe
from longwatch.testing.simulation.virtual_loop import AtOnce, LoopClock
from tests.contract.events import event, new_run
from tests.contract.faults import Fails
from tests.contract.stories import MOST_SKEW_MS, CutOff, Pass, Ship, Write, Writer
from tests.contract.watches import Watch


@dataclass(frozen=True)
class Join:
    """A watcher starts at the beginning."""


@dataclass(frozen=True)
class Restart:
    """One of the watchers ends; another process resumes from its last cursor."""

    which: int


@dataclass(frozen=True)
class Hold:
    """One of the watchers consumes nothing for a while, or continues."""

    which: int


@dataclass(frozen=True)
class Outage:
    """The journal can not be read for a while, or can again."""


Step = Write | Pass | CutOff | Ship | Join | Restart | Hold | Outage


@dataclass(frozen=True)
class FollowedStory:
    """What happens, and how wrong the two writers' clocks are."""

    skews: tuple[int, int]
    steps: tuple[Step, ...]


def followed_stories() -> st.SearchStrategy[FollowedStory]:
    """Any order of these."""
    writer, which = st.integers(0, 1), st.integers(0, 5)
    step = st.one_of(
        st.builds(Write, writer, st.integers(1, 4)),
        st.builds(Write, writer, st.integers(1, 4)),
        st.builds(Pass, st.sampled_from([0.001, 0.4, 0.5, 1.9, 2.1, 14.0, 16.0, 31.0])),
        st.builds(Pass, st.sampled_from([0.001, 0.1, 0.5])),
        st.builds(CutOff, writer),
        st.builds(Ship, writer, st.booleans()),
        st.builds(Join),
        st.builds(Restart, which),
        st.builds(Hold, which),
        st.builds(Outage),
    )
    skew = st.integers(-MOST_SKEW_MS, MOST_SKEW_MS)
    return st.builds(FollowedStory, st.tuples(skew, skew), st.lists(step, min_size=3, max_size=30).map(tuple))


@dataclass
class Lineage:
    """A watcher and those that resumed from its cursors."""

    watches: list[Watch] = field(default_factory=list)
    is_held: bool = False

    @property
    def ids(self) -> list[str]:
        return [each for watch in self.watches for each in watch.ids]

    @property
    def cursor(self) -> Cursor:
        items = [item for watch in self.watches for item in watch.items]
        return items[-1].cursor if items else START


class FollowedPlay:
    """Plays a story in the running event loop, and reports what is wrong with what its watchers got."""

    def __init__(
        self,
        open_again: Callable[[], Journal],
        clock: LoopClock,
        story: FollowedStory,
        subscribe: Callable[[Journal], Subscribe | None],
    ) -> None:
        self.run_id = new_run()
        self._clock = clock
        self._story = story
        self._journal = Fails(open_again())
        self._hub = Hub(
            self._journal,
            clock=clock,
            executor=AtOnce(),
            buffer_events=6,
            page_events=3,
            subscribe=subscribe(self._journal),
        )
        self._is_out = False
        self._lineages: list[Lineage] = []
        self._announced: list[Event] = []
        self._writers = [
            Writer(f"producer-{index}", self.run_id, skew, clock, open_again())  # type: ignore[arg-type]
            for index, skew in enumerate(story.skews)
        ]

    async def play(self) -> None:
        async with self._hub:
            await self._do(Join())
            for step in self._story.steps:
                await self._do(step)
            await self._wind_up()
        self._check()

    async def _do(self, step: Step) -> None:
        match step:
            case Write(writer, count):
                self._writers[writer].write(count)
            case Pass(seconds):
                await asyncio.sleep(seconds)
            case CutOff(writer):
                self._writers[writer].cut_off = True
            case Ship(writer):
                self._announced += self._writers[writer].ship(lambda: None)
            case Join():
                self._lineages.append(Lineage([Watch(self._hub.follow(self.run_id))]))
            case Restart(which):
                lineage = self._lineages[which % len(self._lineages)]
                await lineage.watches[-1].leave()
                follower = self._hub.follow(self.run_id, after=Cursor(str(lineage.cursor)))
                lineage.watches.append(Watch(follower, patient=not lineage.is_held))
            case Hold(which):
                lineage = self._lineages[which % len(self._lineages)]
                lineage.is_held = not lineage.is_held
                lineage.watches[-1].pause() if lineage.is_held else lineage.watches[-1].go_on()
            case Outage():
                self._is_out = not self._is_out
                self._journal.fail(Throttled("by the test")) if self._is_out else self._journal.recover()

    async def _wind_up(self) -> None:
        """Everything is repaired and shipped, the run ends, and every watcher reads until its end."""
        self._journal.recover()
        for lineage in self._lineages:
            lineage.watches[-1].go_on()
        for index in (0, 1):
            await self._do(Pass(40.0))
            await self._do(Ship(index, poll_between=False))
        await self._do(Pass(40.0))
        last = event(self.run_id, self._clock.now_ms() + 20_000, "workflow_complete")
        self._announced.append(last)
        self._writers[0].journal.append([last])
        for lineage in self._lineages:
            ended = await lineage.watches[-1].end()
            assert ended.reason is Reason.ENDED

    def _check(self) -> None:
        written = [each.event_id for writer in self._writers for each in writer.written]
        written += [each.event_id for each in self._announced]
        for lineage in self._lineages:
            assert sorted(lineage.ids) == sorted(written)
            for watch in lineage.watches:
                _check_items(watch)


def _check_items(watch: Watch) -> None:
    orders = [each.order for each in watch.events]
    late = [order < max(orders[:index], default=order) for index, order in enumerate(orders)]
    assert [item.late for item in watch.items if isinstance(item, Followed)] == late
    assert sum(isinstance(item, CaughtUp) for item in watch.items) <= 1
    assert not any(isinstance(item, Ended) for item in watch.items[:-1])

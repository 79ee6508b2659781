"""Following keeps its promises on DynamoDB's layouts, on a table in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from longwatch.errors import Throttled
from longwatch.following import Hub, Reason
from longwatch.journal.base import Journal
from longwatch.journal.dynamodb.journal import DynamoJournal
from longwatch.model.event import START, Page
from longwatch.storage.urls import TableAddress
from longwatch.testing.simulation.virtual_loop import AtOnce, LoopClock, in_virtual_time
from longwatch.testing.tables import SimulatedTable
from tests.contract.events import OpenAgain, event, new_run
from tests.contract.follower import FollowerContract, StoriesContract
from tests.contract.follower_basis import numbered
from tests.contract.watches import Watch

MakeHub = Callable[..., Hub]


class SimulatedContract(FollowerContract):
    layout: str

    @pytest.fixture
    def table(self) -> SimulatedTable:
        return SimulatedTable(self.layout, page_items=7)

    @pytest.fixture
    def open_again(self, clock: LoopClock, table: SimulatedTable) -> OpenAgain:
        address = TableAddress(table="simulated", layout=self.layout)
        return lambda: DynamoJournal(table, address, clock=clock, in_flight=1)

    async def test_a_late_event_that_only_earlier_followers_have_seen_reaches_a_joining_follower(
        self, journal: Journal, make_hub: MakeHub, now: int
    ) -> None:
        run = new_run()
        first, late = event(run, now), event(run, now - 10_000)
        journal.append([first])

        async with make_hub() as hub:
            there = Watch(hub.follow(run))
            await asyncio.sleep(14.0)
            cursor = journal.read(run).cursor  # has just read far back, and will not again for a while
            await asyncio.sleep(0.2)
            journal.append([late])
            await there.has(2)
            joins = Watch(hub.follow(run, after=cursor))
            await joins.has(1)
            await asyncio.sleep(40.0)

        assert there.events == [first, late]
        assert joins.events == [late]

    async def test_a_late_event_that_only_the_joining_follower_has_seen_is_not_delivered_twice(
        self, journal: Journal, make_hub: MakeHub, now: int
    ) -> None:
        run = new_run()
        first, late = event(run, now), event(run, now - 10_000)
        journal.append([first])

        async with make_hub() as hub:
            there = Watch(hub.follow(run))
            await asyncio.sleep(16.0)
            journal.append([late])  # the others read that far back in 14 s
            joins = Watch(hub.follow(run))
            await joins.caught_up()
            await asyncio.sleep(40.0)

        assert there.events == [first, late]
        assert joins.events == [late, first]

    async def test_shipped_events_that_are_not_announced_yet_reach_a_joining_follower_once(
        self, journal: Journal, make_hub: MakeHub, now: int
    ) -> None:
        run = new_run()
        first, second = event(run, now), event(run, now + 60_000)
        shipped = event(run, now + 1_000, producer="p", number=1)
        announcement = event(
            run, now + 83_000, "late_batch", payload={"from": now + 1_000, "to": now + 1_000, "count": 1}
        )
        journal.append([first])

        async with make_hub() as hub:
            there = Watch(hub.follow(run))
            await asyncio.sleep(60.0)
            journal.append([second])
            await asyncio.sleep(20.0)  # the others read back no further than to 30 s before the second one
            journal.append([shipped])
            joins = Watch(hub.follow(run))
            await joins.caught_up()
            await asyncio.sleep(3.0)
            journal.append([announcement])
            await there.has(4)
            await joins.has(4)
            await asyncio.sleep(20.0)

        assert there.events == [first, second, shipped, announcement]
        assert joins.events == [first, shipped, second, announcement]

    async def test_a_run_is_polled_once_however_many_follow_it_and_not_at_all_when_all_have_left(
        self, journal: Journal, make_hub: MakeHub, table: SimulatedTable, now: int
    ) -> None:
        run = new_run()
        journal.append([event(run, now)])

        async with make_hub() as hub:
            watches = [Watch(hub.follow(run)) for _ in range(50)]
            for watch in watches:
                await watch.caught_up()
            await asyncio.sleep(3.0)
            before = len(table.calls)
            await asyncio.sleep(10.0)
            assert 19 <= len(table.calls) - before <= 21
            for watch in watches:
                await watch.leave()
            before = len(table.calls)
            await asyncio.sleep(10.0)
            assert len(table.calls) == before


@pytest.mark.looptime
class TestWorkflowLayout(SimulatedContract):
    layout = "workflow"


@pytest.mark.looptime
class TestSessionLayout(SimulatedContract):
    layout = "session"


class RefusesOnce:
    """Does not respond to the first thorough read."""

    default_ttl_seconds = None
    url = "simulated://"

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._refuses = True

    def read(self, run_id: str, **options: Any) -> Page:
        if options["thorough"] and self._refuses:
            self._refuses = False
            raise Throttled("by the test")
        return self._journal.read(run_id, **options)


def test_a_watch_with_a_silence_limit_waits_while_events_queue_and_the_journal_is_unavailable() -> None:
    clock, run = LoopClock(), new_run()
    address = TableAddress(table="simulated", layout="workflow")

    async def story() -> list[Watch]:
        journal = DynamoJournal(SimulatedTable("workflow"), address, clock=clock)
        journal.append([event(run, clock.now_ms())])
        refusing = cast(Journal, RefusesOnce(journal))
        async with Hub(refusing, clock=clock, executor=AtOnce()) as hub:
            there = Watch(hub.follow(run))
            await there.caught_up()
            joins = Watch(hub.follow(run, silent_after_seconds=0.7))
            await asyncio.sleep(0.1)
            journal.append([event(run, clock.now_ms())])
            await asyncio.sleep(5.0)
        return [there, joins]

    there, joins = in_virtual_time(story)  # raises if the loop goes round and no time passes

    assert joins.ids == there.ids
    assert joins.ended is not None
    assert joins.ended.reason is Reason.SILENT


class HidesHistory(RefusesOnce):
    """Responds to no read from the beginning."""

    def read(self, run_id: str, **options: Any) -> Page:
        if options["after"] == START:
            raise Throttled("by the test")
        return self._journal.read(run_id, **options)


def test_a_follower_that_resumes_waits_for_late_events_of_producers_it_has_not_seen() -> None:
    clock, run = LoopClock(), new_run()
    address = TableAddress(table="simulated", layout="workflow")

    async def story() -> Watch:
        now = clock.now_ms()
        journal = DynamoJournal(SimulatedTable("workflow"), address, clock=clock)
        journal.append([event(run, now, producer="seen before", number=1)])
        cursor = journal.read(run).cursor
        for each in numbered(run, now + 1, 2, producer="whole"):
            journal.append([each])
        async with Hub(cast(Journal, HidesHistory(journal)), clock=clock, executor=AtOnce()) as hub:
            watch = Watch(hub.follow(run, after=cursor))
            await asyncio.sleep(1.0)
            journal.append([event(run, now + 100, producer="seen before", number=2)])
            await watch.end()
        return watch

    watch = in_virtual_time(story)

    assert watch.events[-1].producer == "seen before"
    assert watch.ended is not None
    assert watch.ended.reason is Reason.ENDED


class SimulatedStories(StoriesContract):
    layout: str
    examples = 40

    def open_store(self, clock: LoopClock, folder: Path) -> OpenAgain:
        table, address = (
            SimulatedTable(self.layout, page_items=7),
            TableAddress(table="t", layout=self.layout),
        )
        return lambda: DynamoJournal(table, address, clock=clock, in_flight=1)


class TestWorkflowStories(SimulatedStories):
    layout = "workflow"


class TestSessionStories(SimulatedStories):
    layout = "session"

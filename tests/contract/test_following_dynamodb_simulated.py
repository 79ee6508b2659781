"""Following keeps its promises on DynamoDB's layouts, on a table in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from longwatch.following import Hub
from longwatch.journal.base import Journal
from longwatch.journal.dynamodb.failures import TableAddress
from longwatch.journal.dynamodb.journal import DynamoJournal
from tests.contract.following import FollowingContract, StoriesContract
from tests.contract.making import OpenAgain, event, new_run
from tests.contract.simulated import SimulatedTable
from tests.contract.watches import LoopClock, Watch

MakeHub = Callable[..., Hub]


class SimulatedContract(FollowingContract):
    layout: str

    @pytest.fixture
    def table(self) -> SimulatedTable:
        return SimulatedTable(self.layout, page_items=7)

    @pytest.fixture
    def open_again(self, clock: LoopClock, table: SimulatedTable) -> OpenAgain:
        address = TableAddress(table="simulated", layout=self.layout)
        return lambda: DynamoJournal(table, address, clock=clock, in_flight=1)

    async def test_a_late_event_that_only_the_others_have_seen_is_not_lost_on_one_who_joins(
        self, journal: Journal, make_hub: MakeHub, now: int
    ) -> None:
        run = new_run()
        first, late = event(run, now), event(run, now - 10_000)
        journal.append([first])

        async with make_hub() as hub:
            there = Watch(hub.follow(run))
            await asyncio.sleep(14.0)
            cursor = journal.read(run).cursor  # has just looked far back, and will not again for a while
            await asyncio.sleep(0.2)
            journal.append([late])
            await there.has(2)
            joins = Watch(hub.follow(run, after=cursor))
            await joins.has(1)
            await asyncio.sleep(40.0)

        assert there.events == [first, late]
        assert joins.events == [late]

    async def test_a_late_event_that_only_the_one_who_joins_has_seen_does_not_come_twice(
        self, journal: Journal, make_hub: MakeHub, now: int
    ) -> None:
        run = new_run()
        first, late = event(run, now), event(run, now - 10_000)
        journal.append([first])

        async with make_hub() as hub:
            there = Watch(hub.follow(run))
            await asyncio.sleep(16.0)
            journal.append([late])  # the others look that far back in 14 s
            joins = Watch(hub.follow(run))
            await joins.caught_up()
            await asyncio.sleep(40.0)

        assert there.events == [first, late]
        assert joins.events == [late, first]

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

"""Following a DynamoDB table on a local engine, in real time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from longwatch.following import Hub, Reason
from longwatch.journal.dynamodb.journal import DynamoJournal
from longwatch.model.run import Status
from longwatch.storage.urls import TableAddress
from tests.contract.events import event, ids, new_run
from tests.contract.follower_basis import numbered
from tests.contract.tables import SharedTable, new_table
from tests.contract.watches import Watch

pytestmark = pytest.mark.needs_ministack


@pytest.fixture(params=["workflow", "session"])
def address(request: pytest.FixtureRequest, ministack_url: str) -> Iterator[TableAddress]:
    with new_table(ministack_url, request.param) as address:
        yield address


@pytest.fixture
def journal(address: TableAddress) -> Iterator[DynamoJournal]:
    with DynamoJournal(SharedTable(address), address) as journal:
        yield journal


async def test_followers_join_share_and_end(journal: DynamoJournal, address: TableAddress) -> None:
    run = new_run()
    story = numbered(run, 1_700_000_000_000, 40)
    with DynamoJournal(SharedTable(address), address) as writer:
        await asyncio.to_thread(writer.append, story[:15])

        async with Hub(journal, poll_seconds=0.05, page_events=6) as hub:
            watches = [Watch(hub.follow(run)) for _ in range(3)]
            for watch in watches:
                await watch.caught_up()
            await asyncio.to_thread(writer.append, story[20:30])
            watches.append(Watch(hub.follow(run)))
            await asyncio.to_thread(writer.append, story[15:20])
            for watch in watches:
                await watch.has(30)
            watches.append(Watch(hub.follow(run, after=watches[0].followed[7].cursor)))
            await asyncio.to_thread(writer.append, story[30:])
            endings = [await watch.end() for watch in watches]

    for watch in watches[:4]:
        assert sorted(watch.ids) == sorted(ids(story))
    assert sorted([*watches[0].ids[:8], *watches[4].ids]) == sorted(ids(story))
    assert {(ended.reason, ended.status) for ended in endings} == {(Reason.ENDED, Status.SUCCEEDED)}


async def test_many_runs_are_followed_at_once(journal: DynamoJournal) -> None:
    runs = [new_run() for _ in range(30)]

    async with Hub(journal, poll_seconds=0.1) as hub:
        watches = [Watch(hub.follow(run)) for run in runs]
        for watch in watches:
            await watch.caught_up()
        await asyncio.to_thread(journal.append, [event(run, 1_700_000_000_000) for run in runs])
        for watch in watches:
            await watch.has(1)

    for run, watch in zip(runs, watches, strict=True):
        assert [each.run_id for each in watch.events] == [run]

"""Thousands of items of other producers inside the look-back window, some of them late: each is read once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import boto3
import pytest

from longwatch.clock import iso_from_ms
from longwatch.following import Hub
from longwatch.journal.base import Journal
from longwatch.journal.dynamodb.journal import DynamoJournal, open_dynamodb
from longwatch.model.event import START, Cursor
from longwatch.storage.urls import TableAddress
from longwatch.testing import FakeClock
from tests.contract.events import new_run
from tests.contract.tables import new_table
from tests.contract.watches import Watch

BEGIN = 1_794_736_800_000
SPAN_MS = 28_000  # inside the look-back of 30 s
ITEMS = 5_000
LATE = 300
ODD = 250  # items whose key is not a time

pytestmark = pytest.mark.needs_java


@pytest.fixture(params=["workflow", "session"])
def address(request: pytest.FixtureRequest, dynamodb_local_url: str) -> Iterator[TableAddress]:
    with new_table(dynamodb_local_url, request.param) as at:
        yield at


@pytest.fixture
def journal(address: TableAddress) -> Iterator[Journal]:
    with open_dynamodb(
        TableAddress(
            table=address.table,
            region=address.region,
            layout=address.layout,
            endpoint=address.endpoint,
        ),
        clock=FakeClock(),
    ) as journal:
        yield journal


def foreign(layout: str, run: str, at: int) -> dict[str, Any]:
    if layout == "workflow":
        return {"workflow_id": {"S": run}, "timestamp": {"N": str(at)}, "event_type": {"S": "step"}}
    return {"PK": {"S": f"SESSION#{run}"}, "SK": {"S": f"EVENT#{iso_from_ms(at)}"}, "Status": {"S": "STEP"}}


def write(address: TableAddress, items: Sequence[dict[str, Any]]) -> None:
    """As another program does it: without conditions, 25 at a time."""
    client = boto3.client("dynamodb", region_name=address.region, endpoint_url=address.endpoint)
    for first in range(0, len(items), 25):
        puts: Any = [{"PutRequest": {"Item": item}} for item in items[first : first + 25]]
        assert not client.batch_write_item(RequestItems={address.table: puts})["UnprocessedItems"]
    client.close()


def read_on(journal: Journal, run: str, after: Cursor, *, limit: int = 500) -> tuple[list[str], Cursor]:
    """Everything that is new, each page from the text of the cursor, as another process would."""
    found: list[str] = []
    while True:
        page = journal.read(run, after=Cursor(str(after)), limit=limit, thorough=True)
        found += [event.event_id for event in page.events]
        after = page.cursor
        if not page.more:
            return found, after


def test_late_items_among_thousands_are_read_once(journal: Journal, address: TableAddress) -> None:
    run, draw = new_run(), Random(7)
    times = draw.sample(range(BEGIN, BEGIN + SPAN_MS), ITEMS)
    early, late = times[LATE:], times[:LATE]
    write(address, [foreign(address.layout, run, at) for at in early])

    first, cursor = read_on(journal, run, START)
    again, cursor = read_on(journal, run, cursor)
    write(address, [foreign(address.layout, run, at) for at in late])
    second, cursor = read_on(journal, run, cursor, limit=70)
    nothing, cursor = read_on(journal, run, cursor)

    assert (len(first), again, len(second), nothing) == (ITEMS - LATE, [], LATE, [])
    assert Counter(first + second).most_common(1)[0][1] == 1


def test_items_whose_key_is_not_a_time_are_read_once(journal: Journal, address: TableAddress) -> None:
    run = new_run()
    if address.layout == "workflow":
        items = [foreign("workflow", run, -index) for index in range(1, ODD + 1)]
    else:
        items = [{**foreign("session", run, 0), "SK": {"S": f"EVENT#odd-{index}"}} for index in range(ODD)]
    write(address, [*items, foreign(address.layout, run, BEGIN)])

    found, cursor = read_on(journal, run, START)
    again, _ = read_on(journal, run, cursor)

    assert len(set(found)) == len(found) == ODD + 1
    assert again == []


async def test_a_follower_gets_late_items_among_thousands(address: TableAddress) -> None:
    run, draw = new_run(), Random(8)
    times = draw.sample(range(BEGIN, BEGIN + SPAN_MS), 3_000)
    write(address, [foreign(address.layout, run, at) for at in times[LATE:]])
    with open_dynamodb(
        TableAddress(
            table=address.table, region=address.region, layout=address.layout, endpoint=address.endpoint
        )
    ) as journal:
        assert isinstance(journal, DynamoJournal)
        async with Hub(journal) as hub:
            watch = Watch(hub.follow(run))
            await watch.caught_up()
            write(address, [foreign(address.layout, run, at) for at in times[:LATE]])
            joined = Watch(hub.follow(run))  # requests a thorough read
            await watch.has(3_000)
            await joined.has(3_000)

    assert len(watch.ids) == len(set(watch.ids)) == 3_000
    assert len(joined.ids) == len(set(joined.ids)) == 3_000

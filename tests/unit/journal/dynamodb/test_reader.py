"""Reading: few read units, pages of 1 MB, items of other producers."""

from __future__ import annotations

import pytest

from longwatch.journal.dynamodb.journal import DynamoJournal
from longwatch.journal.dynamodb.read_progress import ReadProgress
from longwatch.journal.dynamodb.reader import wide_is_due
from longwatch.journal.dynamodb.table import PutCondition
from longwatch.model.event import START, Event
from longwatch.model.run import summarise
from longwatch.storage.dynamodb.values import AttributeMap, to_attribute
from longwatch.storage.urls import TableAddress
from longwatch.testing.clock import FakeClock
from longwatch.testing.tables import SimulatedTable

NOW = 1_794_736_800_000


def opened(
    layout: str = "workflow", *, page_items: int = 1_000
) -> tuple[DynamoJournal, SimulatedTable, FakeClock]:
    clock, table = FakeClock(NOW), SimulatedTable(layout, page_items=page_items)
    return DynamoJournal(table, TableAddress(table="t", layout=layout), clock=clock), table, clock


def events_every(ms: int, count: int) -> list[Event]:
    return [
        Event(
            run_id="wf-1",
            event_id=f"e{index}",
            type="t",
            occurred_at=NOW + ms * index,
            producer="p",
            number=index + 1,
        )
        for index in range(count)
    ]


def put_foreign(table: SimulatedTable, **attributes: object) -> None:
    names = {"workflow": "workflow_id", "session": "PK"}
    item: AttributeMap = {name: to_attribute(value) for name, value in attributes.items()}
    assert table.put(item, PutCondition(expression=f"attribute_not_exists({names[table.layout]})")) is None


def test_a_quiet_tick_reads_the_overlap_only() -> None:
    journal, table, clock = opened()
    journal.append(events_every(100, 1_000))
    cursor = journal.read("wf-1", limit=2_000).cursor
    table.items_read = 0
    table.calls.clear()
    clock.advance(1)

    journal.read("wf-1", after=cursor)

    assert table.calls == ["query"]
    assert table.items_read <= 21


def test_a_wide_look_back_reads_the_window_only() -> None:
    journal, table, clock = opened()
    journal.append(events_every(100, 1_000))
    cursor = journal.read("wf-1", limit=2_000).cursor
    table.items_read = 0
    clock.advance(15)

    journal.read("wf-1", after=cursor)

    assert 290 <= table.items_read <= 302


def test_catching_up_reads_each_item_about_once() -> None:
    journal, table, _ = opened()
    journal.append(events_every(100, 3_000))
    table.items_read, cursor, seen = 0, START, 0
    while True:
        page = journal.read("wf-1", after=cursor, limit=500)
        cursor, seen = page.cursor, seen + len(page.events)
        if not page.more:
            break

    assert seen == 3_000
    assert table.items_read < 3_000 * 1.3


def test_a_burst_that_overflows_its_milliseconds_does_not_hide_what_others_write() -> None:
    journal, _, clock = opened()
    crowd = [
        Event(run_id="wf-1", event_id=f"c{n}", type="t", occurred_at=NOW, producer="p", number=n)
        for n in range(1, 401)
    ]
    journal.append(crowd)
    cursor = journal.read("wf-1", limit=1_000).cursor
    clock.advance(0.05)
    other = Event(run_id="wf-1", event_id="other", type="t", occurred_at=NOW + 50, producer="q", number=1)
    journal.append([other])

    page = journal.read("wf-1", after=cursor)

    assert list(page.events) == [other]


@pytest.mark.parametrize("limit", [1, 3, 50])
def test_pages_of_the_store_are_followed_to_the_end(limit: int) -> None:
    journal, _, _ = opened(page_items=4)
    events = events_every(1, 30)
    journal.append(events)

    found: list[Event] = []
    cursor = START
    while True:
        page = journal.read("wf-1", after=cursor, limit=limit)
        found += page.events
        cursor = page.cursor
        if not page.more:
            break

    assert found == events
    run = journal.find_run("wf-1")
    assert run is not None
    assert run.events == 30


def test_foreign_and_own_items_share_a_run() -> None:
    journal, table, clock = opened()
    put_foreign(table, workflow_id="wf-1", timestamp=NOW, event_type="workflow_start", payload="{}")
    put_foreign(table, workflow_id="wf-1", timestamp=NOW + 0.5, event_type="tool_call", event_id="call")
    journal.append(
        [Event(run_id="wf-1", event_id="own", type="agent_start", occurred_at=NOW, producer="p", number=1)]
    )

    page = journal.read("wf-1")
    clock.advance(20)
    again = journal.read("wf-1", after=page.cursor)

    assert {event.event_id for event in page.events} == {f"key:wf-1:{NOW}", f"key:wf-1:{NOW}.5", "own"}
    assert list(again.events) == []


def test_one_invalid_item_does_not_spoil_a_page_and_comes_once() -> None:
    journal, table, clock = opened("session")
    for sort in ("EVENT#abc", "EVENT#2026-11-15T10:00:00+00:00", "EVENT#", "META"):
        put_foreign(table, PK="SESSION#wf-1", SK=sort, Status="X")
    put_foreign(table, PK="SESSION#wf-1", SK="EVENT#2026-11-15T10:00:00.1Z", nothing=None)

    seen, cursor = [], START
    for _ in range(4):
        page = journal.read("wf-1", after=cursor, limit=2)
        seen += [event.event_id for event in page.events]
        cursor = page.cursor
        clock.advance(16)

    assert sorted(seen) == [
        "key:wf-1:EVENT#",
        "key:wf-1:EVENT#2026-11-15T10:00:00+00:00",
        "key:wf-1:EVENT#2026-11-15T10:00:00.1Z",
        "key:wf-1:EVENT#abc",
    ]


def test_the_partitions_that_list_runs_read_as_empty() -> None:
    journal, _, _ = opened()
    journal.append([Event(run_id="wf-1", event_id="e", type="workflow_start", occurred_at=NOW)])

    assert list(journal.read("longwatch#runs#2026-11-15").events) == []


def test_numbers_of_expired_events_are_not_missed() -> None:
    journal, _, clock = opened()
    journal.append(
        [
            Event(run_id="wf-1", event_id=f"e{n}", type="t", occurred_at=NOW, producer="p", number=n, ttl=ttl)
            for n, ttl in ((1, None), (2, NOW // 1000), (3, None))
        ]
    )

    page = journal.read("wf-1")

    assert [event.number for event in page.events] == [1, 3]
    clock.advance(3)
    assert journal.read("wf-1", after=page.cursor).cursor == page.cursor  # nothing to read further back


@pytest.mark.parametrize(
    ("since_wide", "gap_age", "due"),
    [
        (1_000, None, False),
        (14_999, None, False),
        (15_000, None, True),
        (1_999, 5_000, False),
        (2_000, 5_000, True),
        (2_000, 30_000, False),
        (15_000, 30_000, True),
        (-1, None, True),
    ],
)
def test_the_reader_reads_further_back_at_intervals(since_wide: int, gap_age: int | None, due: bool) -> None:
    progress = ReadProgress(wide_at=NOW - since_wide, gap_since=None if gap_age is None else NOW - gap_age)

    assert wide_is_due(progress, NOW) is due


def test_the_summary_of_a_run_is_that_of_its_events() -> None:
    journal, _, _ = opened(page_items=3)
    events = events_every(500, 20)
    journal.append(events)

    assert journal.find_run("wf-1") == summarise(events)["wf-1"]

"""The journal on real engines: pages of 1 MB, large items, lost responses, other producers."""

from __future__ import annotations

import pytest

from longwatch.errors import InvalidEvent, JournalUnavailable, TableProblem
from longwatch.journal.dynamodb.journal import DynamoJournal, open_dynamodb
from longwatch.model.event import START, Event, new_event_id
from longwatch.model.run import Status
from longwatch.recording.writer import Heartbeat
from longwatch.storage.urls import TableAddress
from longwatch.testing.clock import FakeClock
from longwatch.testing.tables import FailingTable, failing_at, failing_by_chance
from tests.contract.tables import REGION, SharedTable, client_of
from tests.integration.dynamodb.stand_in import serving

NOW = 1_794_736_800_000


def opened(at: TableAddress) -> DynamoJournal:
    return DynamoJournal(SharedTable(at), at, clock=FakeClock(NOW))


def events(count: int, *, per_ms: int = 1, payload: dict[str, object] | None = None) -> list[Event]:
    return [
        Event(
            run_id="wf-1",
            event_id=new_event_id(NOW),
            type="workflow_start" if n == 1 else "tool_call",
            occurred_at=NOW + (n - 1) // per_ms,
            producer="p",
            number=n,
            payload=payload or {},
        )
        for n in range(1, count + 1)
    ]


def test_pages_over_a_megabyte_are_followed(address: TableAddress) -> None:
    journal, large = opened(address), events(20, payload={"text": "x" * 150_000})
    journal.append(large)

    pages = [journal.read("wf-1")]
    while pages[-1].more:
        pages.append(journal.read("wf-1", after=pages[-1].cursor))
    found = journal.find_run("wf-1")

    assert [event for page in pages for event in page.events] == large
    assert len(pages) == 3  # a page ends with the event that fills a megabyte
    assert found is not None
    assert found.events == 20


def test_a_payload_of_350_kilobytes_is_stored(address: TableAddress) -> None:
    journal, (large,) = opened(address), events(1, payload={"text": "x" * 350 * 1024})

    journal.append([large])

    assert list(journal.read("wf-1").events) == [large]


def test_the_largest_event_that_is_not_refused_is_stored(address: TableAddress) -> None:
    journal = opened(address)
    size, step = 409_600, 10

    while True:
        try:
            journal.append(events(1, payload={"text": "x" * size}))
        except InvalidEvent:
            size -= step
        else:
            break

    assert size > 408_000


@pytest.mark.parametrize("fails_at", [1, 2, 3, 5, 8])
def test_a_put_whose_response_was_lost_is_not_stored_twice(address: TableAddress, fails_at: int) -> None:
    batch = events(6, per_ms=3)
    failing = FailingTable(SharedTable(address), failing_at(fails_at, "after"))
    try:
        DynamoJournal(failing, address, clock=FakeClock(NOW)).append(batch)
    except JournalUnavailable:
        pass

    opened(address).append(batch[::-1])

    assert sorted(event.event_id for event in opened(address).read("wf-1").events) == sorted(
        event.event_id for event in batch
    )


def test_a_writer_that_fails_often_stores_everything_once(address: TableAddress) -> None:
    batch = events(60, per_ms=7)
    journal = DynamoJournal(
        FailingTable(SharedTable(address), failing_by_chance(7, share=0.05)), address, clock=FakeClock(NOW)
    )

    for _ in range(100):
        try:
            journal.append(batch)
        except JournalUnavailable:
            continue
        break

    assert sorted(event.event_id for event in opened(address).read("wf-1", limit=100).events) == sorted(
        event.event_id for event in batch
    )


def test_items_of_other_producers_are_read_listed_and_distinguished_from_ours(address: TableAddress) -> None:
    client = client_of(str(address.endpoint))
    if address.layout == "workflow":
        theirs = [
            {
                "workflow_id": {"S": "wf-1"},
                "timestamp": {"N": str(NOW)},
                "event_type": {"S": "workflow_start"},
            },
            {
                "workflow_id": {"S": "wf-1"},
                "timestamp": {"N": f"{NOW}.5"},
                "type": {"S": "workflow_complete"},
            },
        ]
    else:
        theirs = [
            {
                "PK": {"S": "SESSION#wf-1"},
                "SK": {"S": f"EVENT#2026-11-15T10:00:00{form}"},
                "Status": {"S": status},
            }
            for form, status in (
                ("+00:00", "SESSION_INITIATED"),
                (".000500Z", "AGENT_BACKGROUND_TASK_COMPLETED"),
            )
        ]
    for item in theirs:
        client.put_item(TableName=address.table, Item=item)
    journal = opened(address)
    journal.append([Event(run_id="wf-1", event_id="own", type="tool_call", occurred_at=NOW)])

    page = journal.read("wf-1")
    (scanned,) = journal.scan_runs()

    assert len(page.events) == 3
    assert [event.event_id.partition(":")[0] for event in page.events].count("key") == 2
    assert (scanned.run_id, scanned.status, scanned.events) == ("wf-1", Status.SUCCEEDED, 3)
    assert list(journal.read("wf-1", after=page.cursor, thorough=True).events) == []


def test_a_missing_table_is_a_problem_with_a_message(address: TableAddress) -> None:
    with open_dynamodb(
        TableAddress(
            table="no-such-table", region=address.region, layout=address.layout, endpoint=address.endpoint
        )
    ) as journal:
        with pytest.raises(TableProblem, match="no-such-table") as caught:
            journal.append(events(1))
        assert caught.value.kind == "not-found"
        with pytest.raises(TableProblem):
            journal.read("wf-1", after=START)


def test_a_table_of_the_other_layout_is_a_problem_that_names_the_keys(address: TableAddress) -> None:
    other = {"workflow": "session", "session": "workflow"}[address.layout]
    with open_dynamodb(
        TableAddress(table=address.table, region=address.region, layout=other, endpoint=address.endpoint)
    ) as journal:
        with pytest.raises(TableProblem, match="Layout") as caught:
            journal.append(events(1))
        assert caught.value.kind == "refused"


def test_a_heartbeat_is_one_item_that_is_overwritten_and_expires(address: TableAddress) -> None:
    journal = opened(address)

    for later in (0, 60_000, 120_000):
        journal.beat("0123456789abcdef", NOW + later)

    [item] = client_of(str(address.endpoint)).scan(TableName=address.table)["Items"]
    assert item["alive_at"] == {"N": str(NOW + 120_000)}
    assert item["ttl"] == {"N": str((NOW + 120_000) // 1000 + 7 * 24 * 3600)}
    assert journal.heartbeats(["0123456789abcdef", "f" * 16]) == {"0123456789abcdef": NOW + 120_000}


def test_a_role_without_permission_to_put_heartbeats_is_denied_once(caplog: pytest.LogCaptureFixture) -> None:
    denied = {
        "__type": "com.amazon.coral.service#AccessDeniedException",
        "Message": "not authorized to perform: dynamodb:PutItem",
    }
    clock = FakeClock(NOW)
    with serving(lambda _: (400, denied, {"Content-Type": "application/x-amz-json-1.0"})) as server:
        at = TableAddress(table="events", region=REGION, endpoint=server.url)
        journal = DynamoJournal(SharedTable(at), at, clock=clock)
        heartbeat = Heartbeat(lambda: "0123456789abcdef", seconds=None, clock=clock)
        for _ in range(5):
            heartbeat.update(journal, runs_are_open=True)
            clock.advance(60)

    assert len(server.requests) == 1
    [line] = [record.message for record in caplog.records if record.name == "longwatch"]
    assert line.startswith("longwatch: the journal accepts no heartbeats, so none are sent: ")

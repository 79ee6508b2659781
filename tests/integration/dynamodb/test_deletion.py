"""Deletions from a table can be interrupted at every call, and late events are removed by the next one."""

from __future__ import annotations

import itertools

import pytest

from longwatch.errors import LongwatchError, RunDeleted
from longwatch.journal.deletions import Tombstone
from longwatch.journal.dynamodb.deletions import BATCH
from longwatch.journal.dynamodb.journal import DynamoJournal
from longwatch.model.event import Event
from longwatch.storage.urls import TableAddress
from longwatch.testing.clock import FakeClock
from longwatch.testing.tables import FailingTable, SimulatedTable, failing_at
from tests.contract.events import event

RUN, SECRET = "wf-gone", "heliotrope"
EVENTS = 2 * BATCH + 10


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["workflow", "session"])
def table(request: pytest.FixtureRequest) -> SimulatedTable:
    return SimulatedTable(request.param)


def journal_of(table: SimulatedTable, clock: FakeClock, **plans: object) -> DynamoJournal:
    address = TableAddress(table="simulated", layout=table.layout)
    through = FailingTable(table, **plans) if plans else table  # type: ignore[arg-type]
    return DynamoJournal(through, address, clock=clock)


def record(table: SimulatedTable, clock: FakeClock) -> list[Event]:
    now = clock.now_ms()
    types = ["workflow_start", *["tool_call"] * (EVENTS - 2), "workflow_complete"]
    events = [event(RUN, now + at, type_, payload={"text": SECRET}) for at, type_ in enumerate(types)]
    with journal_of(table, clock) as journal:
        journal.append(events)
    return events


@pytest.mark.parametrize("failure", ["before", "after"])
def test_a_deletion_that_fails_at_any_call_is_resumed_with_the_same_result(
    table: SimulatedTable, clock: FakeClock, failure: str
) -> None:
    events = record(table, clock)
    wanted = Tombstone(run_id="", deleted_at=0, by="").with_removed(events)
    layout, whole = table.layout, table.items
    for number in itertools.count(1):
        table = SimulatedTable(layout)
        for item in whole:
            table.overwrite(item)
        failed = False
        with journal_of(table, clock, plan=failing_at(number, failure)) as journal:
            try:
                journal.delete_run(RUN, by="ann")
            except LongwatchError:
                failed = True
        with journal_of(table, clock) as again:
            try:
                again.delete_run(RUN, by="bob")
            except RunDeleted:
                pass
            stone = again.tombstone(RUN)

            assert stone is not None
            assert (stone.events, stone.digest) == (wanted.events, wanted.digest)
            assert again.find_runs().runs == []
            assert SECRET not in str(table.items)
        if not failed:
            assert number > 8
            return


def test_late_events_are_hidden_and_removed_by_the_next_deletion(
    table: SimulatedTable, clock: FakeClock
) -> None:
    record(table, clock)
    with journal_of(table, clock) as late, journal_of(table, clock) as journal:
        late.append([event(RUN, clock.now_ms() + EVENTS)])
        stone = journal.delete_run(RUN, by="ann")
        late.append([event(RUN, clock.now_ms() + EVENTS + 1, payload={"text": SECRET})])
        assert SECRET in str(table.items)
        assert list(journal.scan_runs()) == []
        assert list(journal.scan_unlisted(max_pages=9).runs) == []

        with pytest.raises(RunDeleted):
            journal.delete_run(RUN, by="bob")

        assert SECRET not in str(table.items)
        assert journal.tombstone(RUN) == stone


def test_a_recorder_notices_the_deletion_with_puts_alone_once_a_minute(
    table: SimulatedTable, clock: FakeClock
) -> None:
    record(table, clock)
    recorder = journal_of(table, clock)
    recorder.append([event(RUN, clock.now_ms() + EVENTS)])
    table.calls.clear()

    for at in range(100):
        clock.advance(1)
        recorder.append([event(RUN, clock.now_ms() + EVENTS + at)])

    assert table.calls == ["put"] * 101


def test_the_list_keeps_a_run_that_started_in_the_millisecond_of_a_deleted_one(
    table: SimulatedTable, clock: FakeClock
) -> None:
    record(table, clock)
    with journal_of(table, clock) as journal:
        journal.append([event("wf-beside", clock.now_ms(), "workflow_start")])

        journal.delete_run(RUN, by="ann")
        with journal_of(table, clock) as other:
            other.append([event("wf-beside", clock.now_ms() + 5, "workflow_complete")])

        assert [run.run_id for run in journal.find_runs().runs] == ["wf-beside"]

"""Appending: PutItem alone, few requests, and nothing stored twice whichever put fails."""

from __future__ import annotations

import subprocess
import sys
import threading
from itertools import count

import pytest

from longwatch.errors import InvalidEvent, JournalUnavailable, TableProblem, Throttled
from longwatch.journal.dynamodb.journal import DynamoJournal
from longwatch.journal.dynamodb.table import PutCondition
from longwatch.model.event import Event, new_event_id
from longwatch.model.run import Status
from longwatch.recording.producers import Producer
from longwatch.recording.scope import EventDraft
from longwatch.storage.dynamodb.values import AttributeMap
from longwatch.storage.urls import TableAddress
from longwatch.testing.clock import FakeClock
from longwatch.testing.tables import FailingTable, SimulatedTable, failing_at
from tests.patience import PATIENCE_SECONDS

NOW = 1_794_736_800_000


@pytest.fixture(params=["workflow", "session"])
def table(request: pytest.FixtureRequest) -> SimulatedTable:
    return SimulatedTable(request.param)


def opened(table: SimulatedTable | FailingTable, layout: str, *, in_flight: int = 4) -> DynamoJournal:
    return DynamoJournal(
        table, TableAddress(table="t", layout=layout), clock=FakeClock(NOW), in_flight=in_flight
    )


def burst(events: int = 6, *, per_ms: int = 3) -> list[Event]:
    return [
        Event(
            run_id="wf-1",
            event_id=new_event_id(NOW),
            type="workflow_start" if index == 0 else "tool_call",
            occurred_at=NOW + index // per_ms,
            producer="p",
            number=index + 1,
        )
        for index in range(events)
    ]


def stored_ids(table: SimulatedTable) -> list[str]:
    journal = opened(table, table.layout)
    return [event.event_id for event in journal.read("wf-1").events]


def test_a_recorder_needs_no_permission_but_to_put(table: SimulatedTable) -> None:
    journal, events = opened(table, table.layout), burst()

    journal.append(events)
    journal.append(events)

    assert set(table.calls) == {"put"}


def test_events_that_collide_with_none_cost_one_put_each(table: SimulatedTable) -> None:
    journal = opened(table, table.layout)
    journal.append(burst(1))
    table.calls.clear()

    journal.append(
        [
            Event(run_id="wf-1", event_id=f"e{at}", type="t", occurred_at=at, producer="q", number=at)
            for at in range(2, 50)
        ]
    )

    assert len(table.calls) == 48


def test_events_of_one_process_that_share_a_millisecond_cost_one_put_each(table: SimulatedTable) -> None:
    journal = opened(table, table.layout)
    journal.append(burst(1))
    table.calls.clear()

    journal.append(burst(20, per_ms=10)[1:])

    assert len(table.calls) == 19


def test_a_recorder_s_events_that_share_a_millisecond_are_put_in_parallel(table: SimulatedTable) -> None:
    class Slow(FailingTable):
        """Responds to no put before four are on their way."""

        def put(self, item: AttributeMap, condition: PutCondition) -> AttributeMap | None:
            on_their_way.append(item)
            if len(on_their_way) == 4:
                four.set()
            four.wait(PATIENCE_SECONDS)
            return super().put(item, condition)

    on_their_way: list[AttributeMap] = []
    four = threading.Event()
    producer = Producer("wf-1", max_payload_bytes=10_000)
    events = [producer.event(EventDraft("wf-1", "t", NOW, {}), ttl_seconds=None) for _ in range(21)]
    opened(table, table.layout).append(events[:1])
    table.calls.clear()

    opened(Slow(table, lambda: ""), table.layout).append(events[1:])

    assert four.is_set()
    assert len(table.calls) == 21  # the last one learns from the claim whether the run was deleted
    assert stored_ids(table) == [event.event_id for event in events]


@pytest.mark.parametrize("failure", ["before", "after"])
@pytest.mark.parametrize("fails_at", range(1, 10))
@pytest.mark.parametrize("in_flight", [1, 4])
def test_whichever_put_fails_a_retry_by_the_same_process_stores_each_event_once(
    table: SimulatedTable, failure: str, fails_at: int, in_flight: int
) -> None:
    journal = opened(FailingTable(table, failing_at(fails_at, failure)), table.layout, in_flight=in_flight)
    events = burst()

    for _ in range(2):
        try:
            journal.append(events)
        except JournalUnavailable:
            journal.append(events)

    assert sorted(stored_ids(table)) == sorted(event.event_id for event in events)


@pytest.mark.parametrize("failure", ["before", "after"])
@pytest.mark.parametrize("fails_at", range(1, 10))
def test_whichever_put_fails_another_process_can_ship_the_same_events_in_any_order(
    table: SimulatedTable, failure: str, fails_at: int
) -> None:
    events = burst()
    first = opened(FailingTable(table, failing_at(fails_at, failure)), table.layout)
    try:
        first.append(events)
    except JournalUnavailable:
        pass

    for event in reversed(events):
        opened(table, table.layout).append([event])

    assert sorted(stored_ids(table)) == sorted(event.event_id for event in events)
    assert [run.run_id for run in opened(table, table.layout).find_runs().runs] == ["wf-1"]


def test_a_failed_entry_in_the_run_list_is_an_error_and_a_retry_writes_it(table: SimulatedTable) -> None:
    start = burst(1)
    journal = opened(FailingTable(table, failing_at(2, "before")), table.layout)

    with pytest.raises(JournalUnavailable):
        journal.append(start)
    stored_before_the_retry = stored_ids(table)
    journal.append(start)

    assert stored_before_the_retry == [start[0].event_id]
    assert [run.run_id for run in journal.find_runs().runs] == ["wf-1"]


def test_an_end_whose_entry_failed_is_listed_after_a_retry_by_another_process(table: SimulatedTable) -> None:
    opened(table, table.layout).append(burst(1))
    end = Event(
        run_id="wf-1", event_id="end", type="workflow_complete", occurred_at=NOW + 9, producer="p", number=2
    )
    with pytest.raises(JournalUnavailable):
        opened(FailingTable(table, failing_at(4, "before")), table.layout).append([end])

    opened(table, table.layout).append([end])

    assert [run.status for run in opened(table, table.layout).find_runs().runs] == [Status.SUCCEEDED]


def test_after_a_failure_no_further_put_is_begun(table: SimulatedTable) -> None:
    class Refusing(FailingTable):
        def put(self, item: AttributeMap, condition: PutCondition) -> AttributeMap | None:
            table.calls.append("refused")
            raise Throttled("by the test")

    journal = opened(Refusing(table, lambda: ""), table.layout, in_flight=2)

    with pytest.raises(Throttled):
        journal.append(burst(50))

    assert len(table.calls) <= 2


def test_a_missing_table_is_distinguished_from_one_that_does_not_respond(table: SimulatedTable) -> None:
    class Missing(FailingTable):
        def put(self, item: AttributeMap, condition: PutCondition) -> AttributeMap | None:
            raise TableProblem("not-found", "no such table")

    with pytest.raises(TableProblem):
        opened(Missing(table, lambda: ""), table.layout).append(burst())


def test_events_are_still_stored_when_no_thread_can_be_started(
    table: SimulatedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    events = burst(12)

    opened(table, table.layout).append(events)

    assert stored_ids(table) == [event.event_id for event in events]


def test_an_event_beyond_the_size_of_an_item_is_refused_with_its_size(table: SimulatedTable) -> None:
    large = Event(run_id="wf-1", event_id="e", type="t", occurred_at=NOW, payload={"text": "ü" * 205_000})

    with pytest.raises(InvalidEvent, match=r"410,\d+ bytes"):
        opened(table, table.layout).append([large])

    assert table.calls == []


def test_a_run_without_a_free_key_is_an_error_that_names_it(table: SimulatedTable) -> None:
    class Full(FailingTable):
        def put(self, item: AttributeMap, condition: PutCondition) -> AttributeMap | None:
            number = next(numbers)
            foreign = {**item}
            foreign["event_id" if table.layout == "workflow" else "EventId"] = {"S": f"other-{number}"}
            return foreign

    numbers = count()

    with pytest.raises(InvalidEvent, match="1000 attempts"):
        opened(Full(table, lambda: ""), table.layout).append(burst(1))


class Held(FailingTable):
    """Responds to no put before `release` is set."""

    def __init__(self, table: SimulatedTable) -> None:
        super().__init__(table, lambda: "")
        self.reached, self.release = threading.Event(), threading.Event()

    def put(self, item: AttributeMap, condition: PutCondition) -> AttributeMap | None:
        self.reached.set()
        self.release.wait(PATIENCE_SECONDS)
        return super().put(item, condition)


def test_close_waits_for_a_batch_that_another_thread_appends(table: SimulatedTable) -> None:
    held, events = Held(table), burst(40)
    journal = opened(held, table.layout)
    appending = threading.Thread(target=journal.append, args=(events,), daemon=True)
    closing = threading.Thread(target=journal.close, daemon=True)
    appending.start()
    assert held.reached.wait(PATIENCE_SECONDS)

    closing.start()
    closing.join(0.05)  # it cannot end while the puts are held
    held.release.set()
    appending.join(PATIENCE_SECONDS)
    closing.join(PATIENCE_SECONDS)

    assert not appending.is_alive()
    assert not closing.is_alive()
    assert sorted(stored_ids(table)) == sorted(event.event_id for event in events)


def test_a_closed_journal_can_append_batches_again(table: SimulatedTable) -> None:
    journal, events = opened(table, table.layout), burst(12)
    journal.append(events[:6])

    journal.close()
    journal.append(events[6:])
    journal.close()

    assert len(stored_ids(table)) == 12


AT_TEARDOWN = """
import sys
from longwatch.clock import SYSTEM_CLOCK
from longwatch.model.event import Event
from longwatch.storage.urls import TableAddress
from longwatch.journal.dynamodb.journal import DynamoJournal
from longwatch.testing.tables import SimulatedTable

def batch(at):
    return [Event(run_id="wf-1", event_id=f"e{n}", type="t", occurred_at=n) for n in range(at, at + 3)]

class Last:
    def __init__(self, journal):
        self.journal, self.batch, self.print = journal, batch(10), print
    def __del__(self):
        self.journal.append(self.batch)
        self.journal.close()
        self.print(len(self.journal.read("wf-1").events), flush=True)

journal = DynamoJournal(
    SimulatedTable("workflow"), TableAddress(table="t", layout="workflow"), clock=SYSTEM_CLOCK
)
"""


@pytest.mark.parametrize(
    ("before", "stored"), [("", "3"), ("journal.append(batch(0))", "6")], ids=["first use", "threads exist"]
)
def test_a_batch_is_stored_while_the_interpreter_finalizes(before: str, stored: str) -> None:
    script = f"{AT_TEARDOWN}\n{before}\nsys.modules['held by the test'] = Last(journal)"

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )

    assert (done.returncode, done.stdout.strip()) == (0, stored), done.stderr

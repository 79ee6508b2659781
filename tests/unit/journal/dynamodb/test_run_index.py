"""The list of runs: one entry for each, whichever process writes it, with as few puts as that takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.clock import iso_from_ms
from longwatch.journal.dynamodb.journal import DynamoJournal
from longwatch.journal.dynamodb.run_index import Listing, from_attributes, listings, to_attributes
from longwatch.journal.dynamodb.table import PutCondition
from longwatch.model.event import Event
from longwatch.model.run import Status
from longwatch.model.run_query import RunQuery
from longwatch.storage.dynamodb.values import AttributeMap, AttributeValue
from longwatch.storage.urls import TableAddress
from longwatch.testing.clock import FakeClock
from longwatch.testing.tables import SimulatedTable

NOW = 1_794_736_800_000
DAY = 24 * 3600


@pytest.fixture(params=["workflow", "session"])
def table(request: pytest.FixtureRequest) -> SimulatedTable:
    return SimulatedTable(request.param)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


def opened(table: SimulatedTable, clock: FakeClock) -> DynamoJournal:
    return DynamoJournal(table, TableAddress(table="t", layout=table.layout), clock=clock)


def event(type_: str, at: int = NOW, run_id: str = "wf-1", **fields: object) -> Event:
    return Event(run_id=run_id, event_id=f"{run_id}{type_}{at}", type=type_, occurred_at=at, **fields)  # type: ignore[arg-type]


def entries(table: SimulatedTable) -> list[str]:
    """The partitions of all entries of the list."""
    names = {"workflow": ("workflow_id", "longwatch#runs#"), "session": ("PK", "RUNS#")}
    name, prefix = names[table.layout]
    found = [item[name]["S"] for item in table.items]
    return [partition.removeprefix(prefix) for partition in found if partition.startswith(prefix)]


def test_an_entry_lies_in_the_partition_of_the_day_on_which_the_run_began(
    table: SimulatedTable, clock: FakeClock
) -> None:
    journal = opened(table, clock)

    journal.append([event("workflow_start", NOW - 11 * 3600_000)])
    journal.append([event("workflow_complete", NOW)])

    assert entries(table) == [iso_from_ms(NOW - 11 * 3600_000)[:10]]


def test_the_totals_of_every_process_are_added_once(table: SimulatedTable, clock: FakeClock) -> None:
    used = {"status": "completed", "model": "m", "input_tokens": 10, "output_tokens": 1}
    one, two = opened(table, clock), opened(table, clock)
    one.append([event("workflow_start", producer="p", number=1)])
    for number in range(2, 5):
        one.append([event("model_call", NOW + number, producer="p", number=number, payload=used)])
    two.append([event("model_call", NOW + 9, producer="q", number=1, payload=used)])
    one.append([event("workflow_complete", NOW + 20, producer="p", number=5)])
    two.append([event("process_joined", NOW + 21, producer="q", number=2)])

    (listed,) = one.find_runs(RunQuery(), after=None, limit=5).runs

    [counts] = listed.totals.usage.tokens.values()
    assert (counts.calls, counts.input_tokens) == (4, 40)


def test_an_event_that_changes_nothing_in_the_list_costs_no_further_put(
    table: SimulatedTable, clock: FakeClock
) -> None:
    journal = opened(table, clock)
    journal.append([event("workflow_start", producer="p", number=1)])
    table.calls.clear()

    journal.append([event("tool_call", NOW + 1, producer="p", number=2)])
    journal.append([event("agent_end", NOW + 2, producer="p", number=3)])

    assert len(table.calls) == 2


def test_starting_a_run_takes_two_further_puts_and_ending_it_one(
    table: SimulatedTable, clock: FakeClock
) -> None:
    journal = opened(table, clock)

    journal.append([event("workflow_start")])
    started = len(table.calls)
    journal.append([event("workflow_complete", NOW + 5)])

    assert (started, len(table.calls) - started) == (3, 2)


def test_runs_that_begin_in_the_same_millisecond_are_all_listed(
    table: SimulatedTable, clock: FakeClock
) -> None:
    journal = opened(table, clock)
    names = [f"wf-{index}" for index in range(70)]

    journal.append([event("workflow_start", run_id=name) for name in names])
    for name in names:
        opened(table, clock).append([event("workflow_complete", NOW + 1, run_id=name)])

    listed = journal.find_runs(limit=100).runs
    assert sorted(run.run_id for run in listed) == sorted(names)
    assert {run.status for run in listed} == {Status.SUCCEEDED}


def test_many_processes_write_one_entry(table: SimulatedTable, clock: FakeClock) -> None:
    opened(table, clock).append([event("workflow_start", producer="p", number=1)])
    for index in range(10):
        opened(table, clock).append(
            [event("tool_call", NOW + index, producer=f"q{index}", number=1, payload={"status": "failed"})]
        )

    (run,) = opened(table, clock).find_runs().runs

    assert len(entries(table)) == 1
    assert (run.events, run.failed_calls) == (11, 10)


def test_a_start_that_comes_after_a_worker_s_first_event_sets_the_true_start(
    table: SimulatedTable, clock: FakeClock
) -> None:
    opened(table, clock).append([event("agent_start", NOW + 3_000, producer="q", number=1)])
    opened(table, clock).append([event("workflow_start", NOW, payload={"name": "n"}, producer="p", number=1)])

    (run,) = opened(table, clock).find_runs().runs

    assert (run.started_at, run.name) == (NOW, "n")
    assert [each.run_id for each in opened(table, clock).find_runs(RunQuery(until=NOW + 1)).runs] == ["wf-1"]


def test_an_entry_expires_with_the_last_event_that_it_covers(table: SimulatedTable, clock: FakeClock) -> None:
    seconds = NOW // 1000
    journal = opened(table, clock)
    journal.append([event("workflow_start", ttl=seconds + DAY)])
    clock.advance(DAY - 10)
    journal.append([event("workflow_complete", clock.now_ms(), ttl=seconds + 2 * DAY)])
    clock.advance(20)

    listed = [run.status for run in journal.find_runs().runs]
    clock.advance(DAY)

    assert listed == [Status.SUCCEEDED]
    assert list(journal.find_runs().runs) == []


def test_a_run_that_continues_stays_listed(table: SimulatedTable, clock: FakeClock) -> None:
    journal = opened(table, clock)
    journal.append([event("workflow_start", ttl=NOW // 1000 + DAY, producer="p", number=1)])
    for number in range(2, 14):
        clock.advance(4 * 3600)
        now = clock.now_ms()
        journal.append([event("tool_call", now, ttl=now // 1000 + DAY, producer="p", number=number)])

    assert [run.run_id for run in journal.find_runs().runs] == ["wf-1"]


def test_a_late_batch_keeps_no_run_listed(table: SimulatedTable, clock: FakeClock) -> None:
    journal = opened(table, clock)
    journal.append([event("workflow_start", ttl=NOW // 1000 + 60)])
    opened(table, clock).append([event("late_batch", NOW + 1, payload={"from": NOW, "to": NOW, "count": 1})])
    clock.advance(61)

    assert list(journal.find_runs().runs) == []


def test_the_start_of_a_run_is_listed_after_its_first_events_have_expired(
    table: SimulatedTable, clock: FakeClock
) -> None:
    journal = opened(table, clock)
    journal.append([event("workflow_start", ttl=NOW // 1000 + 60), event("tool_call", NOW + 9_000)])
    clock.advance(61)

    run = journal.find_run("wf-1")

    assert run is not None
    assert (run.started_at, run.events) == (NOW, 1)


def test_runs_older_than_thirty_days_are_listed_on_request(table: SimulatedTable, clock: FakeClock) -> None:
    journal = opened(table, clock)
    old = NOW - 40 * DAY * 1000
    journal.append([event("workflow_start", old)])

    assert list(journal.find_runs().runs) == []
    assert [run.run_id for run in journal.find_runs(RunQuery(since=old)).runs] == ["wf-1"]
    assert list(journal.find_runs(RunQuery(since=0)).runs) != []


def machine_entry(session_id: str, at: int) -> list[AttributeMap]:
    """The claim and the entry of a session, as the state machine of session-journal.asl.json writes them."""
    time = iso_from_ms(at)
    ours: AttributeMap = {"Longwatch": {"N": "1"}, "RunId": {"S": session_id}}
    claim: AttributeMap = {
        "PK": {"S": f"RUN#{session_id}"},
        "SK": {"S": "LISTED"},
        "StartedAt": {"N": str(at)},
    }
    entry: AttributeMap = {"PK": {"S": f"RUNS#{time[:10]}"}, "SK": {"S": f"RUN#{time}#{session_id}"}}
    return [{**claim, **ours}, {**entry, **ours, "Revision": {"N": "0"}}]


def machine_event(session_id: str, status: str, at: int) -> AttributeMap:
    time = iso_from_ms(at)
    return {
        "PK": {"S": f"SESSION#{session_id}"},
        "SK": {"S": f"EVENT#{time}"},
        "Status": {"S": status},
        "Timestamp": {"S": time},
    }


FREE = PutCondition(expression="attribute_not_exists(PK)")


class TestASession:
    @pytest.fixture
    def table(self) -> SimulatedTable:
        return SimulatedTable("session")

    def test_that_only_its_state_machine_wrote_is_listed(
        self, table: SimulatedTable, clock: FakeClock
    ) -> None:
        for item in (
            *machine_entry("s-1", NOW),
            machine_event("s-1", "SESSION_INITIATED", NOW + 2),
            machine_event("s-1", "SESSION_FAILED", NOW + 9_000),
        ):
            table.put(item, FREE)

        (listed,) = opened(table, clock).find_runs().runs
        found = opened(table, clock).find_run("s-1")

        assert (listed.run_id, listed.kind, listed.status) == ("s-1", "session", Status.FAILED)
        assert (listed.events, listed.started_at) == (2, NOW + 2)
        assert found is not None
        assert found.started_at == listed.started_at

    def test_is_listed_once_when_others_write_it_too(self, table: SimulatedTable, clock: FakeClock) -> None:
        for item in (*machine_entry("s-1", NOW), machine_event("s-1", "SESSION_INITIATED", NOW + 2)):
            table.put(item, FREE)
        invoker, agent = opened(table, clock), opened(table, clock)
        invoker.append([event("AGENT_INVOCATION_STARTED", NOW + 50, "s-1")])
        agent.append([event("AGENT_ENTRYPOINT_STARTED", NOW + 60, "s-1")])
        invoker.append([event("AGENT_INVOCATION_SUCCEEDED", NOW + 70, "s-1")])

        (listed,) = opened(table, clock).find_runs().runs

        assert (listed.run_id, listed.status, listed.events) == ("s-1", Status.RUNNING, 4)
        assert len(entries(table)) == 1

    def test_counts_the_events_of_every_writer(self, table: SimulatedTable, clock: FakeClock) -> None:
        warm = opened(table, clock)  # a Lambda function that stays for several statuses
        for index, status in enumerate(("AGENT_INVOCATION_STARTED", "AGENT_BACKGROUND_TASK_STARTED")):
            warm.append([event(status, NOW + index, "s-1")])
        warm.append([event("AGENT_BACKGROUND_TASK_COMPLETED", NOW + 10, "s-1")])
        warm.append([event("TASK_cleaning_COMPLETED", NOW + 11, "s-1")])
        table.put(machine_event("s-1", "SESSION_SUCCEEDED", NOW + 20), FREE)

        (listed,) = warm.find_runs().runs
        found = warm.find_run("s-1")

        assert found is not None
        assert (listed.events, listed.status) == (found.events, Status.SUCCEEDED) == (5, Status.SUCCEEDED)

    def test_that_has_settled_is_not_read_again_for_a_minute(
        self, table: SimulatedTable, clock: FakeClock
    ) -> None:
        journal = opened(table, clock)
        for item in (*machine_entry("s-1", NOW), machine_event("s-1", "SESSION_SUCCEEDED", NOW + 2)):
            table.put(item, FREE)
        journal.find_runs(RunQuery(since=NOW))
        table.calls.clear()

        journal.find_runs(RunQuery(since=NOW))
        settled = len(table.calls)
        clock.advance(61)
        journal.find_runs(RunQuery(since=NOW))

        assert len(table.calls) - settled > settled

    def test_of_another_kind_of_query_is_not_read(self, table: SimulatedTable, clock: FakeClock) -> None:
        journal = opened(table, clock)
        for item in (*machine_entry("s-1", NOW), machine_event("s-1", "SESSION_INITIATED", NOW + 2)):
            table.put(item, FREE)

        assert list(journal.find_runs(RunQuery(kind="workflow")).runs) == []


def test_a_scan_finds_unlisted_runs(table: SimulatedTable, clock: FakeClock) -> None:
    table.page_items = 2
    journal = opened(table, clock)
    journal.append([event("workflow_start"), event("workflow_complete", NOW + 5)])
    foreign = {
        "workflow": {
            "workflow_id": {"S": "theirs"},
            "timestamp": {"N": str(NOW - 5)},
            "event_type": {"S": "workflow_error"},
        },
        "session": {
            "PK": {"S": "SESSION#theirs"},
            "SK": {"S": "EVENT#2026-11-15T09:59:59.995Z"},
            "Status": {"S": "SESSION_FAILED"},
        },
    }[table.layout]
    partition = next(iter(foreign))
    table.put(foreign, PutCondition(expression=f"attribute_not_exists({partition})"))

    found = list(journal.scan_runs())

    assert [(run.run_id, run.status) for run in found] == [
        ("wf-1", Status.SUCCEEDED),
        ("theirs", Status.FAILED),
    ]


def foreign_item(layout: str, run_id: str, at: int, type_: str, **fields: AttributeValue) -> AttributeMap:
    if layout == "workflow":
        key: AttributeMap = {"workflow_id": {"S": run_id}, "timestamp": {"N": str(at)}}
        return {**key, "event_type": {"S": type_}, **fields}
    return {**machine_event(run_id, type_, at), **fields}


def put_foreign(table: SimulatedTable, run_id: str, at: int, type_: str, **fields: AttributeValue) -> None:
    partition = {"workflow": "workflow_id", "session": "PK"}[table.layout]
    free = PutCondition(expression=f"attribute_not_exists({partition})")
    table.put(foreign_item(table.layout, run_id, at, type_, **fields), free)


class TestAScanForUnlistedRuns:
    def test_leaves_out_what_the_list_has(self, table: SimulatedTable, clock: FakeClock) -> None:
        journal = opened(table, clock)
        journal.append([event("workflow_start"), event("workflow_complete", NOW + 5)])
        put_foreign(table, "wf-1", NOW + 9, "note")  # in a run of ours
        put_foreign(table, "theirs", NOW, "workflow_start")
        put_foreign(table, "theirs", NOW + 1, "workflow_error")

        found = journal.scan_unlisted(max_pages=4)

        assert [(run.run_id, run.status, run.events) for run in found.runs] == [("theirs", Status.FAILED, 2)]
        assert found.is_whole

    def test_reads_no_more_pages_than_it_may_and_reports_it(
        self, table: SimulatedTable, clock: FakeClock
    ) -> None:
        table.page_items = 3
        for number in range(10):
            for step in range(2):
                put_foreign(table, f"theirs-{number}", NOW + number * 10 + step, "note")

        found = opened(table, clock).scan_unlisted(max_pages=4)

        assert table.calls.count("scan") == 4
        assert not found.is_whole
        assert [run.run_id for run in found.runs] == [f"theirs-{number}" for number in range(5, -1, -1)]

    def test_finds_all_of_a_run_whose_events_continue_behind_the_limit(
        self, table: SimulatedTable, clock: FakeClock
    ) -> None:
        table.page_items = 2
        for step, type_ in enumerate(("workflow_start", "note", "workflow_complete")):
            put_foreign(table, "theirs", NOW + step, type_)

        (run,) = opened(table, clock).scan_unlisted(max_pages=1).runs

        assert (run.status, run.events) == (Status.SUCCEEDED, 3)

    def test_counts_no_expired_events(self, table: SimulatedTable, clock: FakeClock) -> None:
        put_foreign(table, "old", NOW - 99_000, "note", ttl={"N": str(NOW // 1000 - 1)})
        put_foreign(table, "new", NOW, "note", ttl={"N": str(NOW // 1000 + 60)})

        found = opened(table, clock).scan_unlisted(max_pages=4)

        assert [run.run_id for run in found.runs] == ["new"]

    def test_recognises_sessions_that_their_state_machine_listed(self, clock: FakeClock) -> None:
        table = SimulatedTable("session")
        for item in (*machine_entry("s-1", NOW), machine_event("s-1", "SESSION_INITIATED", NOW + 2)):
            table.put(item, FREE)
        table.put(machine_event("s-2", "SESSION_INITIATED", NOW), FREE)

        found = opened(table, clock).scan_unlisted(max_pages=4)

        assert [run.run_id for run in found.runs] == ["s-2"]


_events = st.lists(
    st.builds(
        lambda index, type_, at, numbered, status: Event(
            run_id="r",
            event_id=f"{index} {type_} {at} {numbered} {status}",
            type=type_,
            occurred_at=at,
            agent_name=f"agent-{index % 3}",
            call_id=f"c{index % 4}",
            payload={
                "status": status,
                "name": f"n{index}",
                "error": "x" * index,
                "reason": f"r{index % 3}",
                "duration_ms": index,
                "model": f"m{index % 2}",
                "input_tokens": index,
                "output_tokens": 1,
            },
            producer=f"p{index % 2}" if numbered else None,
            number=index if numbered else None,
            ttl=at if index % 2 else None,
        ),
        st.integers(1, 30),
        st.sampled_from(
            [
                *("workflow_start", "workflow_complete", "workflow_error", "tool_call", "late_batch"),
                *("model_call", "waiting_started", "waiting_ended", "turn_result"),
            ]
        ),
        st.integers(1, 50),
        st.booleans(),
        st.sampled_from(["completed", "failed", "partial"]),
    ),
    min_size=1,
    max_size=6,
)


def listing(events: list[Event], process: str) -> Listing:
    return listings(events, process=process)["r"]


@given(_events, _events, _events)
def test_parts_of_a_run_merge_in_any_order_and_as_often_as_wanted(
    a: list[Event], b: list[Event], c: list[Event]
) -> None:
    one, two, three = listing(a, "a"), listing(b, "b"), listing(c, "c")

    merged = one.merged(two).merged(three)

    assert three.merged(two.merged(one)) == merged
    assert merged.merged(two) == merged


@given(_events)
def test_a_listing_comes_back_from_its_entry(events: list[Event]) -> None:
    stored = listing(events, "a")

    assert from_attributes("r", to_attributes(stored)) == stored

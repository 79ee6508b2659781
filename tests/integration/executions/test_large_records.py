"""A recovery of 300 servers with 6 launch actions each, on real stores and journals, to its end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from longwatch.executions.explain import explain_execution
from longwatch.executions.model import Execution, ItemState, Job, Mode, Stage, StepState, WorkItem
from longwatch.executions.poller import Poller, Result
from longwatch.executions.stores.base import ExecutionStore
from longwatch.executions.stores.dynamodb import DynamoExecutionStore
from longwatch.executions.stores.sqlite import SqliteExecutionStore
from longwatch.journal.base import Journal
from longwatch.journal.dynamodb.journal import DynamoJournal
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.run import Status
from longwatch.testing import FakeClock
from tests.contract.tables import SharedTable, new_table
from tests.contract.test_executions_dynamodb import new_execution_table
from tests.unit.executions.samples import LAUNCHED, action, finished, job
from tests.unit.executions.scripted_source import ScriptedSource
from tests.unit.executions.stores.test_packing import noisy

SERVERS, ACTIONS = 300, 6
REASON = "the SSM agent on the recovery instance did not report back within the configured time; see the log"


@pytest.fixture(params=["sqlite", pytest.param("dynamodb", marks=pytest.mark.needs_java)])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[ExecutionStore, Journal]]:
    clock = FakeClock()
    if request.param == "sqlite":
        store, journal = (
            SqliteExecutionStore(tmp_path / "x.db"),
            SqliteJournal(tmp_path / "x.db", clock=clock),
        )
        yield store, journal
        journal.close()
        store.close()
        return
    url = request.getfixturevalue("dynamodb_local_url")
    with new_execution_table(url) as executions, new_table(url, "workflow") as events:
        table = DynamoExecutionStore(executions)
        yield table, DynamoJournal(SharedTable(events), events, clock=clock)
        table.close()


def recovery(state: StepState, reason: str | None = None) -> Job:
    servers = tuple(
        WorkItem(
            f"s-{number:017x}",
            LAUNCHED,
            f"i-{number:017x}",
            tuple(action(state, f"run-{number:03}-{each}", reason=reason) for each in range(ACTIONS)),
            "LAUNCHED",
        )
        for number in range(SERVERS)
    )
    return Job("j-1", job().state, servers, source_status="STARTED")


def test_a_large_recovery_is_polled_to_its_end(stores: tuple[ExecutionStore, Journal]) -> None:
    store, journal = stores
    clock = FakeClock()
    running, ended = recovery(StepState.IN_PROGRESS), recovery(StepState.FAILED, REASON)
    source = ScriptedSource(clock, running)
    store.add(
        Execution(
            execution_id="x-1",
            plan_id="p-1",
            mode=Mode.RECOVERY,
            started_at=clock.now_ms(),
            stages=(Stage("one", (Job("j-1"),)),),
            total_stages=1,
        )
    )
    poller = Poller(store, journal, {"drs": source}, clock=clock)

    first = poller.poll("x-1", "p-1")
    clock.advance(60)
    source.set_jobs(Job("j-1", finished().state, ended.items, source_status="COMPLETED"))
    last = poller.poll("x-1", "p-1")

    assert (first.result, last.result) == (Result.POLLED, Result.ENDED)
    found = store.get("x-1", "p-1")
    assert found is not None
    assert (found.status, found.closed) == (Status.SUCCEEDED, True)
    actions = [each for _, server in found.items() for each in server.steps]
    assert {each.reason for each in actions} == {REASON}
    assert len(actions) == SERVERS * ACTIONS
    assert found.verdict is not None
    assert len(found.verdict.warnings) == SERVERS * ACTIONS
    assert [each.execution_id for each in store.find()] == ["x-1"]
    run = journal.find_run(found.run_id)
    assert run is not None
    assert run.status is Status.SUCCEEDED


@pytest.mark.needs_java
def test_a_wave_that_another_program_adds_to_a_compressed_record_is_polled(dynamodb_local_url: str) -> None:
    clock = FakeClock()
    with new_execution_table(dynamodb_local_url) as at:
        store = DynamoExecutionStore(at)
        added = store.add(large(clock.now_ms()))
        client = store.connect()
        client.update_item(
            TableName=at.table,
            Key={"ExecutionId": {"S": "x-1"}, "PlanId": {"S": "p-1"}},
            UpdateExpression="SET Waves = list_append(Waves, :wave), TotalWaves = :two",
            ExpressionAttributeValues={
                ":wave": {"L": [{"M": {"WaveName": {"S": "two"}, "JobId": {"S": "j-2"}}}]},
                ":two": {"N": "2"},
            },
        )

        found = store.get("x-1", "p-1")
        assert found is not None
        stored = store.update(replace(found, failures=1))
        facts = {fact.about: fact.text for fact in explain_execution(stored, clock.now_ms())}
        store.close()

    assert [wave.name for wave in stored.stages] == ["one", "two"]
    assert stored.stages[0] == added.stages[0]
    assert stored.job_ids() == ("j-1", "j-2")
    assert "compressed in Packed" in facts["record"]


@pytest.mark.needs_java
@pytest.mark.parametrize(("servers", "actions"), [(4_000, 6), (8_000, 0), (20_000, 0)])
def test_a_record_of_any_size_is_stored_updated_and_found(
    dynamodb_local_url: str, servers: int, actions: int
) -> None:
    whole = noisy(servers, actions, seed=servers)
    with new_execution_table(dynamodb_local_url) as at:
        store = DynamoExecutionStore(at)
        store.add(replace(whole, closed=False, verdict=None))
        (found,) = store.open_executions()
        stored = store.update(replace(found, failures=1))
        closed = store.update(replace(stored, closed=True, verdict=whole.verdict))
        (listed,) = store.find()
        store.close()

    assert (found.job_ids(), stored.failures) == (("j-1",), 1)
    assert listed.status is closed.status is whole.status
    assert "compressed in Packed" in str((listed.stored or {})["PackedNote"])
    failed = {each.item_id for _, each in whole.items() if each.state is ItemState.FAILED}
    assert failed <= {each.item_id for _, each in listed.items()}


def large(started_at: int) -> Execution:
    wave = Stage("one", (replace(recovery(StepState.FAILED, REASON * 2), since=started_at),))
    return Execution(
        execution_id="x-1",
        plan_id="p-1",
        mode=Mode.RECOVERY,
        started_at=started_at,
        stages=(_seen(wave, started_at),),
        total_stages=1,
    )


def _seen(wave: Stage, at: int) -> Stage:
    """The wave as a poll stores it: each state with the time at which it was first seen."""
    (only,) = wave.jobs
    servers = tuple(
        replace(each, since=at, steps=tuple(replace(one, since=at) for one in each.steps))
        for each in only.items
    )
    return replace(wave, jobs=(replace(only, items=servers),))

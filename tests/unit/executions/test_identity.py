"""What identifies an execution: its plan and its id, in every response and in every name of it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from longwatch.executions.model import ExecutionKey, Job, Stage
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.executions.stores.records import parse_record, to_record
from longwatch.model.event import Event
from longwatch.model.run import Status
from longwatch.testing import FakeClock, MemoryJournal
from tests.unit.executions.samples import FAILED, LAUNCHED, execution, finished
from tests.unit.executions.scripted_source import ScriptedSource, watching

AWKWARD = ("p", "p/", "/p", "p%2F", "p%25", "%", "a/b", "p q", "é", "https://host/a?b=1")


@pytest.mark.parametrize(
    ("plan_id", "execution_id", "text"),
    [
        ("shop", "x-1", "shop/x-1"),
        ("shop/eu", "x-1", "shop%2Feu/x-1"),
        ("50%", "x-1", "50%25/x-1"),
        ("shop", "a/b", "shop/a/b"),
        ("shop", "a%2Fb", "shop/a%2Fb"),
        ("", "x-1", "/x-1"),
    ],
)
def test_a_key_as_text_is_the_plan_and_the_execution(plan_id: str, execution_id: str, text: str) -> None:
    key = ExecutionKey(plan_id, execution_id)

    assert str(key) == text
    assert ExecutionKey.parse(text) == key


def test_no_two_keys_have_one_text() -> None:
    keys = [ExecutionKey(plan_id, execution_id) for plan_id, execution_id in product(AWKWARD, AWKWARD)]

    texts = [str(key) for key in keys]

    assert len(set(texts)) == len(keys)
    assert [ExecutionKey.parse(text) for text in texts] == keys


@pytest.mark.parametrize("text", ["x-1", "", "shop/"])
def test_text_without_a_plan_and_an_id_is_not_a_key(text: str) -> None:
    assert ExecutionKey.parse(text) is None


def test_two_plans_with_one_execution_id_get_their_own_responses_from_one_request() -> None:
    clock, store = FakeClock(), MemoryExecutionStore()
    source = ScriptedSource(clock, finished(LAUNCHED, job_id="j-shop"), finished(FAILED, job_id="j-web"))
    for plan_id in ("shop", "web"):
        fresh = execution(Stage("one", (Job(f"j-{plan_id}"),)), started_at=clock.now_ms())
        store.add(replace(fresh, plan_id=plan_id))
    journal = MemoryJournal(clock=clock)

    watching(store, journal, source, clock).watcher().run(until_idle=True)

    statuses = {each.plan_id: each.status for each in store.find()}
    assert statuses == {"shop": Status.SUCCEEDED, "web": Status.FAILED}
    assert source.requests == [["x-1", "x-1"]]


@pytest.mark.parametrize(
    ("plan_id", "execution_id"), [("p" * 900, "x" * 900), ("é" * 600, "x-1"), ("longwatch#runs", "x-1")]
)
def test_a_key_that_no_run_id_may_be_gets_a_run_id_of_its_own(plan_id: str, execution_id: str) -> None:
    key, other = ExecutionKey(plan_id, execution_id), ExecutionKey(plan_id, f"{execution_id}2")

    event = Event(run_id=key.run_id, event_id="e", type="note", occurred_at=0)

    assert event.run_id != other.run_id
    assert key.run_id == ExecutionKey(plan_id, execution_id).run_id


@pytest.mark.parametrize(
    ("record", "run_id"),
    [
        ({}, "shop/x-1"),  # never written by longwatch
        ({"Version": 1, "Failures": 0}, "x-1"),  # written by longwatch before run ids were stored
        ({"Version": 4}, "shop/x-1"),  # a version of another writer
        ({"Version": 1, "RunId": "shop/x-1"}, "shop/x-1"),
        ({"Version": 7, "RunId": "x-1"}, "x-1"),
    ],
)
def test_a_run_id_stays_what_it_was_when_the_run_began(record: dict[str, object], run_id: str) -> None:
    found = parse_record({"ExecutionId": "x-1", "PlanId": "shop", "Status": "POLLING", **record})

    assert found.run_id == run_id
    assert to_record(found)["RunId"] == run_id

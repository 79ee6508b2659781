"""What identifies an execution in every store: its plan and its id, and the run that holds its events."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

import pytest

from longwatch.errors import AmbiguousExecution
from longwatch.executions.model import Execution, Job, Stage
from longwatch.executions.stores.base import ExecutionStore, resolve
from longwatch.model.summary import Status
from longwatch.testing import FakeClock, MemoryJournal
from tests.contract.executions import Reads, Writes, foreign
from tests.unit.executions.samples import FAILED, LAUNCHED, START, finished
from tests.unit.executions.scripted_source import ScriptedSource, types_of, watching


class IdentityContract:
    """The promises about executions whose ids are equal in two plans, and about their runs."""

    def test_an_id_that_two_plans_have_is_ambiguous_without_a_plan(self, store: ExecutionStore) -> None:
        execution_id = new_id()
        one = store.add(of_plan("p-1", execution_id))
        other = store.add(of_plan("p/2", execution_id))

        with pytest.raises(AmbiguousExecution) as caught:
            store.get(execution_id)

        assert caught.value.plan_ids == ("p-1", "p/2")
        assert f"p-1/{execution_id} or p%2F2/{execution_id}" in str(caught.value)
        assert store.get(execution_id, "p-1") == one
        assert store.get(execution_id, "p/2") == other

    def test_a_name_is_a_plan_and_an_id_or_an_id_that_only_one_plan_has(self, store: ExecutionStore) -> None:
        shared, own = new_id(), f"https://host/{new_id()}"
        one, other = store.add(of_plan("p-1", shared)), store.add(of_plan("p/2", shared))
        only = store.add(of_plan("p-1", own))

        assert resolve(store, f"p-1/{shared}") == one
        assert resolve(store, f"p%2F2/{shared}") == other
        assert resolve(store, own) == only
        assert resolve(store, f"p-3/{shared}") is None
        assert resolve(store, f"/{shared}") is None
        assert resolve(store, f"{'p' * 2_000}/{shared}") is None
        with pytest.raises(AmbiguousExecution):
            resolve(store, shared)

    def test_two_plans_with_one_id_have_their_own_verdicts_and_runs(
        self, store: ExecutionStore, write: Writes
    ) -> None:
        execution_id, clock = new_id(), FakeClock(START)
        good, bad = of_other_writer(execution_id), of_other_writer(execution_id, "p/2", "j-2")
        write(good)
        write(bad)
        source = ScriptedSource(clock, finished(LAUNCHED, job_id="j-1"), finished(FAILED, job_id="j-2"))
        journal = MemoryJournal(clock=clock)

        watching(store, journal, source, clock).watcher().run(until_idle=True)

        plans = ("p-1", "p/2")
        found = {plan: each.status for plan in plans if (each := store.get(execution_id, plan))}
        assert found == {"p-1": Status.SUCCEEDED, "p/2": Status.FAILED}
        runs = {run.run_id: run.status for run in journal.find_runs().runs}
        assert runs == {
            f"p-1/{execution_id}": Status.SUCCEEDED,
            f"p%2F2/{execution_id}": Status.FAILED,
        }

    def test_the_run_id_is_stored_when_longwatch_first_writes(
        self, store: ExecutionStore, write: Writes, read: Reads
    ) -> None:
        added, theirs = store.add(of_plan("p-1", new_id())), new_id()
        write(foreign(theirs))
        seen = store.get(theirs)
        assert seen is not None

        store.update(replace(seen, lease_holder="poller-1", lease_until=START))

        assert read(added.execution_id, "p-1")["RunId"] == added.run_id == f"p-1/{added.execution_id}"
        assert read(theirs, "p-1")["RunId"] == f"p-1/{theirs}"

    def test_one_that_was_polled_before_run_ids_were_stored_keeps_its_run(
        self, store: ExecutionStore, write: Writes, read: Reads
    ) -> None:
        execution_id, clock = new_id(), FakeClock(START)
        write({**foreign(execution_id), "Version": 3, "Source": "drs", "Failures": 0})
        source, journal = ScriptedSource(clock, finished(LAUNCHED)), MemoryJournal(clock=clock)

        watching(store, journal, source, clock).watcher().run(until_idle=True)

        found = store.get(execution_id)
        assert found is not None
        assert (found.run_id, read(execution_id, "p-1")["RunId"]) == (execution_id, execution_id)
        assert types_of(journal, execution_id)[-1] == "execution_ended"
        assert [run.run_id for run in journal.find_runs().runs] == [execution_id]

    def test_old_executions_of_two_plans_that_shared_a_run_continue_in_their_own(
        self, store: ExecutionStore, write: Writes
    ) -> None:
        execution_id, clock = new_id(), FakeClock(START)
        old = {"Version": 3, "Source": "drs", "Failures": 0, "LastAnswerTime": START // 1000}
        write({**of_other_writer(execution_id), **old})
        write({**of_other_writer(execution_id, "p-2", "j-2"), **old})
        source = ScriptedSource(clock, finished(LAUNCHED, job_id="j-1"), finished(FAILED, job_id="j-2"))
        journal = MemoryJournal(clock=clock)

        watching(store, journal, source, clock).watcher().run(until_idle=True)

        runs = {run.run_id: (run.status, run.name) for run in journal.find_runs().runs}
        assert runs == {
            f"p-1/{execution_id}": (Status.SUCCEEDED, "p-1"),
            f"p-2/{execution_id}": (Status.FAILED, "p-2"),
            execution_id: (Status.UNKNOWN, None),
        }

    def test_an_old_run_that_two_closed_executions_share_is_shown_for_neither(
        self, store: ExecutionStore, write: Writes
    ) -> None:
        execution_id = new_id()
        old = {"Version": 3, "Failures": 0, "Status": "COMPLETED"}
        for plan in ("p-1", "p-2"):
            write({**of_other_writer(execution_id, plan), **old})

        found = [store.get(execution_id, plan) for plan in ("p-1", "p-2")]

        assert [each and each.run_id for each in found] == [f"p-1/{execution_id}", f"p-2/{execution_id}"]


def of_plan(plan_id: str, execution_id: str) -> Execution:
    wave = Stage("one", (Job("j-1", region="eu-west-1"),))
    return Execution(
        execution_id=execution_id, plan_id=plan_id, started_at=START, stages=(wave,), total_stages=1
    )


def of_other_writer(execution_id: str, plan_id: str = "p-1", job_id: str = "j-1") -> dict[str, Any]:
    record = foreign(execution_id)
    return {**record, "PlanId": plan_id, "Waves": [{**record["Waves"][0], "JobId": job_id}]}


def new_id() -> str:
    return f"x-{secrets.token_hex(6)}"

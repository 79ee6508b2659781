"""What every execution store promises, as tests. An adapter's test class inherits them and opens it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from longwatch.errors import AlreadyThere, VersionConflict
from longwatch.executions.model import Execution, Job, JobState, Mode, Stage, StepState, Verdict, WorkItem
from longwatch.executions.operators import Operator, Statement
from longwatch.executions.responses import apply_response
from longwatch.executions.stores.base import ChangeLog, ExecutionStore, list_position
from longwatch.journal.memory import MemoryJournal
from longwatch.model.summary import Status
from tests.unit.executions.samples import (
    EVIDENCE,
    FAILED,
    IN_PROGRESS,
    LAUNCHED,
    PENDING,
    SECOND,
    START,
    action,
    finished,
    job,
    response,
)

Writes = Callable[[Mapping[str, Any]], None]
"""Puts a whole record into the store, as another program does that knows nothing of longwatch."""
Reads = Callable[[str, str], dict[str, Any]]
"""The record as it lies there."""


OTHER_STATUSES = ("CANCELLING", "PAUSED", "TIMEOUT", "COMPLETED_WITH_WARNINGS", "On hold")


class ExecutionsContract:
    """The promises of `longwatch.executions.stores.base.ExecutionStore`."""

    @pytest.fixture
    def store(self) -> ExecutionStore:
        raise NotImplementedError

    @pytest.fixture
    def write(self, store: Any) -> Writes:
        raise NotImplementedError

    @pytest.fixture
    def read(self, store: Any) -> Reads:
        raise NotImplementedError

    def test_an_added_execution_can_be_read(self, store: ExecutionStore) -> None:
        fresh = new_execution(name="east", deadline_ms=None, mode=Mode.RECOVERY)

        added = store.add(fresh)

        assert added == replace(fresh, version=1)
        assert store.get(fresh.execution_id, "p-1") == added
        assert store.get(fresh.execution_id) == added

    def test_an_unknown_execution_is_none(self, store: ExecutionStore) -> None:
        assert store.get("x-unknown", "p-1") is None
        assert store.get("x-unknown") is None

    def test_an_id_can_be_added_once(self, store: ExecutionStore) -> None:
        fresh = new_execution()
        store.add(fresh)

        with pytest.raises(AlreadyThere, match=fresh.execution_id):
            store.add(replace(fresh, name="another"))

    def test_every_field_of_an_execution_is_stored(self, store: ExecutionStore) -> None:
        added = store.add(new_execution(total_stages=None))
        complete = replace(
            apply_response(added, response(START + 1_234, *everything())),
            failures=2,
            last_error="throttled",
            next_poll_at=START + 99_001,
            lease_holder="poller-1",
            lease_until=START + 60_500,
        )

        updated = store.update(complete)

        assert updated == replace(complete, version=2)
        assert store.get(added.execution_id, "p-1") == updated

    def test_fields_that_are_reset_are_removed(self, store: ExecutionStore) -> None:
        added = store.add(new_execution())
        leased = store.update(replace(added, lease_holder="a", lease_until=START, last_error="no"))

        free = store.update(replace(leased, lease_holder=None, lease_until=None, last_error=None))

        again = store.get(added.execution_id)
        assert again == free
        assert again is not None
        assert (again.lease_holder, again.lease_until, again.last_error) == (None, None, None)

    def test_of_two_writers_that_read_the_same_version_one_succeeds(self, store: ExecutionStore) -> None:
        store.add(fresh := new_execution())
        one, other = store.get(fresh.execution_id), store.get(fresh.execution_id)
        assert one is not None
        assert other is not None

        store.update(replace(one, last_error="one"))
        with pytest.raises(VersionConflict):
            store.update(replace(other, last_error="other"))

        assert _get(store, fresh).last_error == "one"

    def test_an_update_of_a_missing_execution_is_refused(self, store: ExecutionStore) -> None:
        with pytest.raises(VersionConflict):
            store.update(new_execution())

        assert not list(store.find())

    def test_an_operator_wins_against_a_poller_that_read_the_record_before(
        self, store: ExecutionStore
    ) -> None:
        store.add(fresh := new_execution())
        seen = _get(store, fresh)
        operator, why = Operator(store, MemoryJournal()), Statement("ana", "it is done")

        waiting = operator.set_stage_count(seen, 2, why)
        closed = operator.close(seen, Status.FAILED, why)

        with pytest.raises(VersionConflict):
            store.update(replace(seen, verdict=Verdict(Status.SUCCEEDED, START, EVIDENCE), closed=True))
        now = _get(store, fresh)
        assert (waiting.total_stages, now.total_stages) == (2, 2)
        assert (now.closed, now.status, now.verdict) == (True, Status.FAILED, closed.verdict)
        assert not list(store.open_executions())

    def test_a_cancel_between_read_and_write_survives(
        self, store: ExecutionStore, write: Writes, read: Reads
    ) -> None:
        store.add(fresh := new_execution())
        seen = _get(store, fresh)
        write({**read(fresh.execution_id, "p-1"), "Status": "CANCELLED", "EndTime": START // 1000 + 7})

        with pytest.raises(VersionConflict):
            store.update(replace(seen, verdict=Verdict(Status.SUCCEEDED, START, EVIDENCE), closed=True))

        now = _get(store, fresh)
        assert (now.status, now.is_open) == (Status.CANCELLED, False)
        assert now.verdict is not None
        assert now.verdict.at == START + 7 * SECOND
        assert now.verdict.evidence[0].call == "record:Status"

    def test_a_wave_that_the_orchestrator_adds_between_read_and_write_survives(
        self, store: ExecutionStore, write: Writes, read: Reads
    ) -> None:
        store.add(fresh := new_execution(total_stages=2))
        seen = _get(store, fresh)
        record = read(fresh.execution_id, "p-1")
        write({**record, "Waves": [*record["Waves"], {"WaveName": "two", "JobId": "j-2"}]})

        with pytest.raises(VersionConflict):
            store.update(apply_response(seen, response(START, job(PENDING))))

        assert [wave.name for wave in _get(store, fresh).stages] == ["one", "two"]

    def test_a_record_of_an_earlier_phase_is_found_and_finished(
        self, store: ExecutionStore, write: Writes, read: Reads
    ) -> None:
        execution_id = _new_id()
        write(foreign(execution_id))

        (found,) = [each for each in store.open_executions() if each.execution_id == execution_id]
        polled = store.update(apply_response(_get(store, found), response(START + 9_000, finished(LAUNCHED))))
        ended = replace(polled, verdict=Verdict(Status.SUCCEEDED, START + 9_000, EVIDENCE), closed=True)
        store.update(ended)

        assert (found.mode, found.started_at, found.version) == (Mode.DRILL, START, 0)
        assert (found.total_stages, found.job_ids()) == (1, ("j-1",))
        assert found.stages[0].expected_items == ("s-1",)
        record = read(execution_id, "p-1")
        assert (record["Status"], record["EndTime"], record["Version"]) == (
            "COMPLETED",
            START // 1000 + 9,
            2,
        )
        assert record["Waves"][0]["Servers"][0]["Status"] == "LAUNCHED"
        assert record["Waves"][0]["Status"] == "COMPLETED"
        assert "PollState" not in record
        assert not [each for each in store.open_executions() if each.execution_id == execution_id]

    def test_attributes_that_longwatch_does_not_know_are_preserved(
        self, store: ExecutionStore, write: Writes, read: Reads
    ) -> None:
        execution_id = _new_id()
        write(foreign(execution_id))
        seen = store.get(execution_id)
        assert seen is not None
        write({**read(execution_id, "p-1"), "ApprovedBy": "somebody"})  # between read and write

        store.update(apply_response(seen, response(START, job(IN_PROGRESS))))

        record = read(execution_id, "p-1")
        assert (record["InitiatedBy"], record["ApprovedBy"]) == ("ops", "somebody")
        assert record["Waves"][0]["Tier"] == "database"
        assert record["Waves"][0]["Servers"][0]["HostName"] == "db-1"
        assert record["StartTime"] == START // 1000

    def test_a_wave_that_comes_later_counts_in_a_record_without_a_total(
        self, store: ExecutionStore, write: Writes, read: Reads
    ) -> None:
        execution_id = _new_id()
        write(foreign(execution_id))
        seen = store.get(execution_id)
        assert seen is not None
        store.update(apply_response(seen, response(START, job(IN_PROGRESS))))
        record = read(execution_id, "p-1")

        write({**record, "Waves": [*record["Waves"], {"WaveName": "two"}]})

        assert _get(store, seen).total_stages == 2

    def test_a_status_that_other_programs_use_before_the_first_poll_is_ignored(
        self, store: ExecutionStore, write: Writes
    ) -> None:
        execution_id = _new_id()
        write({**foreign(execution_id), "Status": "PENDING"})

        found = store.get(execution_id)

        assert found is not None
        assert (found.is_open, found.verdict) == (False, None)
        assert execution_id not in [each.execution_id for each in store.open_executions()]

    @pytest.mark.parametrize("word", OTHER_STATUSES)
    def test_a_status_of_another_writer_is_preserved_and_stays_open_and_listed(
        self, store: ExecutionStore, write: Writes, read: Reads, word: str
    ) -> None:
        seen = store.add(new_execution())
        write({**read(seen.execution_id, "p-1"), "Status": word})

        with pytest.raises(VersionConflict):
            store.update(replace(seen, verdict=Verdict(Status.SUCCEEDED, START, EVIDENCE), closed=True))
        now = _get(store, seen)
        polled = store.update(apply_response(now, response(START + 1_000, job(IN_PROGRESS))))

        assert (now.other_status, now.status, now.is_open) == (word, Status.RUNNING, True)
        assert [each.execution_id for each in store.open_executions()] == [seen.execution_id]
        assert list(store.find()) == list(store.find(status=Status.RUNNING)) == [polled]
        assert read(seen.execution_id, "p-1")["Status"] == word

    def test_an_end_under_a_status_of_another_writer_keeps_that_status_and_is_listed(
        self, store: ExecutionStore, write: Writes, read: Reads
    ) -> None:
        seen = store.add(new_execution())
        write({**read(seen.execution_id, "p-1"), "Status": "On hold"})
        verdict = Verdict(Status.FAILED, START + 9_000, EVIDENCE)

        closed = store.update(replace(_get(store, seen), verdict=verdict, closed=True))

        assert read(seen.execution_id, "p-1")["Status"] == "On hold"
        assert (closed.closed, closed.verdict, closed.other_status) == (True, verdict, "On hold")
        assert list(store.open_executions()) == list(store.unsettled(START)) == []
        assert list(store.find()) == list(store.find(status=Status.FAILED)) == [closed]
        assert list(store.find(status=Status.RUNNING)) == []

    @pytest.mark.parametrize("word", ["CANCELLED", "COMPLETED", "Failed"])
    def test_an_end_that_another_writer_sets_is_unsettled_until_it_is_acknowledged(
        self, store: ExecutionStore, write: Writes, read: Reads, word: str
    ) -> None:
        seen = store.add(new_execution())
        assert list(store.unsettled(START)) == []
        write({**read(seen.execution_id, "p-1"), "Status": word})

        (found,) = store.unsettled(START)
        store.update(_get(store, seen))

        assert (found.execution_id, found.closed) == (seen.execution_id, True)
        assert list(store.unsettled(START)) == []
        assert [each.execution_id for each in store.find()] == [seen.execution_id]
        assert read(seen.execution_id, "p-1")["Status"] == word

    @pytest.mark.parametrize("word", [None, "PAUSED"])
    def test_a_verdict_to_recheck_is_found_when_it_is_due_and_until_rechecks_end(
        self, store: ExecutionStore, write: Writes, read: Reads, word: str | None
    ) -> None:
        added = store.add(new_execution())
        write({**read(added.execution_id, "p-1"), **({"Status": word} if word else {})})
        verdict = Verdict(Status.FAILED, START, EVIDENCE, assumed=("s-1 has ended",))
        closed = replace(_get(store, added), verdict=verdict, closed=True, recheck_at=START + 120_500)

        waiting = store.update(closed)

        assert _get(store, added) == waiting
        assert (waiting.verdict, waiting.recheck_at) == (verdict, START + 120_500)
        assert list(store.open_executions()) == list(store.unsettled(START + 120_499)) == []
        assert list(store.unsettled(START + 120_500)) == [waiting]
        assert list(store.find()) == list(store.find(status=Status.FAILED)) == [waiting]
        certain = store.update(replace(waiting, verdict=replace(verdict, assumed=()), recheck_at=None))
        assert list(store.unsettled(START + 999_999)) == []
        assert list(store.find()) == [certain]

    def test_open_executions_are_listed_completely_and_oldest_first(self, store: ExecutionStore) -> None:
        ids = [
            store.add(new_execution(started_at=START + offset * SECOND)).execution_id for offset in (3, 1, 2)
        ]

        found = [each.execution_id for each in store.open_executions()]

        assert [each for each in found if each in ids] == [ids[1], ids[2], ids[0]]

    def test_a_verdict_that_is_not_reported_yet_leaves_the_execution_open(
        self, store: ExecutionStore
    ) -> None:
        added = store.add(new_execution())
        verdict = Verdict(
            Status.PARTIAL, START + 1, EVIDENCE, "s-2: launch failed", True, ("slow",), Status.FAILED
        )

        store.update(replace(added, verdict=verdict))

        assert _get(store, added).verdict == verdict
        assert added.execution_id in [each.execution_id for each in store.open_executions()]

    def test_executions_are_listed_newest_first_and_by_status(self, store: ExecutionStore) -> None:
        first, second, third = (store.add(new_execution(started_at=START + n * SECOND)) for n in range(3))
        verdict = Verdict(Status.FAILED, START, EVIDENCE)
        store.update(replace(second, verdict=verdict, closed=True))

        assert [each.execution_id for each in store.find(limit=2)] == [
            third.execution_id,
            second.execution_id,
        ]
        assert [each.execution_id for each in store.find(status=Status.FAILED)] == [second.execution_id]
        assert [each.execution_id for each in store.find(status=Status.RUNNING)] == [
            third.execution_id,
            first.execution_id,
        ]

    def test_pages_of_a_list_join_without_a_gap_also_where_many_began_at_once(
        self, store: ExecutionStore
    ) -> None:
        added = [store.add(new_execution(started_at=START + n // 4 * SECOND)) for n in range(9)]
        store.update(replace(added[5], verdict=Verdict(Status.FAILED, START, EVIDENCE), closed=True))

        pages = [store.find(limit=2)]
        while pages[-1]:
            pages.append(store.find(limit=2, after=list_position(pages[-1][-1])))

        listed = [list_position(each) for page in pages for each in page]
        assert listed == sorted(map(list_position, added), reverse=True)
        running = store.find(status=Status.RUNNING, limit=9, after=listed[0])
        assert [list_position(each) for each in running] == [
            p for p in listed[1:] if p != list_position(added[5])
        ]


class ChangesContract(ExecutionsContract):
    """What a store that numbers its writes promises beyond that."""

    def test_a_changed_execution_is_returned_once_in_its_present_state(
        self, store: ExecutionStore, write: Writes
    ) -> None:
        assert isinstance(store, ChangeLog)
        first, second = store.add(new_execution()), store.add(new_execution())
        seen = store.last_change()

        store.update(store.update(replace(first, failures=1)))
        write(foreign("x-other"))
        found = store.changes(seen, limit=10)

        assert [each.execution_id for _, each in found] == [first.execution_id, "x-other"]
        assert found[0][1] == _get(store, first)
        assert [number for number, _ in found] == sorted({number for number, _ in found})
        assert found[-1][0] == store.last_change()
        assert store.changes(store.last_change(), limit=10) == []
        assert second.execution_id in [each.execution_id for _, each in store.changes(0, limit=10)]

    def test_a_subscriber_is_notified_of_every_write_until_it_closes(self, store: ExecutionStore) -> None:
        assert isinstance(store, ChangeLog)
        calls: list[int] = []
        signal = store.subscribe(lambda: calls.append(store.last_change()))

        before = store.last_change()
        added = store.add(new_execution())
        updated = store.update(replace(added, failures=1))
        signal.close()
        store.update(replace(updated, failures=2))

        assert len(calls) == 2
        assert before < calls[0] < calls[1]  # after the commit: the write is readable


def new_execution(**more: Any) -> Execution:
    more = {"started_at": START, "total_stages": 1, **more}
    wave = Stage("one", (Job("j-1", region="eu-west-1", account="111122223333"),), ("s-1", "s-2"))
    return Execution(execution_id=_new_id(), plan_id="p-1", stages=(wave,), **more)


def everything() -> tuple[Job, ...]:
    """A job with every field set."""
    actions = (
        action(StepState.FAILED, "r-1", reason="no agent"),
        action(StepState.IN_PROGRESS, "r-2"),
    )
    servers = (
        WorkItem("s-1", LAUNCHED, "i-1", actions, "LAUNCHED"),
        WorkItem("s-9", FAILED, source_status="FAILED", reason="no capacity"),
    )
    return (Job("j-1", JobState.FINISHED, servers, cancelled=True, source_status="COMPLETED"),)


def foreign(execution_id: str) -> dict[str, Any]:
    """A record as an earlier phase writes it, with nothing of ours."""
    return {
        "ExecutionId": execution_id,
        "PlanId": "p-1",
        "Status": "POLLING",
        "StartTime": START // 1000,
        "ExecutionType": "DRILL",
        "InitiatedBy": "ops",
        "Waves": [
            {
                "WaveName": "one",
                "JobId": "j-1",
                "Region": "eu-west-1",
                "Tier": "database",
                "Status": "LAUNCHING",
                "Servers": [{"SourceServerId": "s-1", "Status": "LAUNCHING", "HostName": "db-1"}],
            }
        ],
    }


def _new_id() -> str:
    return f"x-{secrets.token_hex(6)}"


def _get(store: ExecutionStore, wanted: Execution) -> Execution:
    found = store.get(wanted.execution_id, wanted.plan_id)
    assert found is not None
    return found

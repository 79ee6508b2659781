"""What operators decide about executions, what is journaled, and that no poller overwrites it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from longwatch.errors import ExecutionNotFound, InvalidEvent, InvalidInput, VersionConflict
from longwatch.executions import operators
from longwatch.executions.model import Execution, Job, Stage, Verdict
from longwatch.executions.operators import LEASE_MS, OUTCOMES, Operator, Statement
from longwatch.executions.poller import Claim, Result
from longwatch.executions.stores.records import parse_record, to_record
from longwatch.model.event import Event
from longwatch.model.run import Status
from tests.unit.executions.poller_harness import DONE, PollerHarness
from tests.unit.executions.samples import EVIDENCE, LAUNCHED, START, drill, execution, finished
from tests.unit.executions.scripted_source import events_of, types_of

WHY = Statement("ana", "the vendor confirmed it")
SECOND_WAVE = Stage("two", (Job("j-2", region="eu-west-1", account="123456789012"),), ("s-9",))


def operator(harness: PollerHarness) -> Operator:
    return Operator(harness.store, harness.journal, clock=harness.clock)


@pytest.mark.parametrize("status", OUTCOMES)
def test_an_operator_states_how_an_execution_ended(harness: PollerHarness, status: Status) -> None:
    closed = operator(harness).close(harness.record, status, WHY)

    event = events_of(harness.journal, "p-1/x-1")[-1]
    assert (closed.closed, closed.status, harness.status, harness.record) == (True, status, status, closed)
    assert closed.lease_holder is None
    assert event.type == "execution_closed"
    assert (event.payload["operator"], event.payload["reason"]) == ("ana", "the vendor confirmed it")
    assert closed.verdict is not None
    assert closed.verdict.message == "closed by ana: the vendor confirmed it"


def test_closing_corrects_a_verdict_and_the_journal_has_both(harness: PollerHarness) -> None:
    harness.source.set_jobs(DONE)
    harness.poller().poll("x-1")

    operator(harness).close(harness.record, Status.FAILED, WHY)

    assert (harness.record.status, harness.status) == (Status.FAILED, Status.FAILED)
    assert types_of(harness.journal, "p-1/x-1")[-2:] == ["execution_ended", "execution_closed"]
    assert events_of(harness.journal, "p-1/x-1")[-1].payload["corrects"] == "succeeded"


def test_no_response_of_a_source_corrects_the_decision_of_an_operator(harness: PollerHarness) -> None:
    operator(harness).close(harness.record, Status.FAILED, WHY)
    harness.source.set_jobs(DONE)

    assert harness.poller().poll("x-1").result is Result.CLOSED
    assert harness.poller().review("x-1").result is Result.CLOSED
    assert (harness.record.status, harness.status) == (Status.FAILED, Status.FAILED)
    assert harness.source.requests == []


def test_stopping_to_watch_ends_the_polling_and_states_no_outcome(harness: PollerHarness) -> None:
    harness.poller().poll("x-1")
    before = len(harness.source.requests)

    stopped = operator(harness).stop_watching(harness.record, WHY)
    harness.clock.advance(3600)
    polled = harness.poller().poll("x-1")

    event = events_of(harness.journal, "p-1/x-1")[-1]
    assert (stopped.closed, stopped.status, harness.status) == (True, Status.UNKNOWN, Status.UNKNOWN)
    assert (event.type, event.payload["reason"]) == ("watch_stopped", WHY.reason)
    assert (polled.result, len(harness.source.requests)) == (Result.CLOSED, before)
    assert list(harness.store.open_executions()) == []


def test_an_execution_that_is_no_longer_watched_can_be_closed(harness: PollerHarness) -> None:
    operator(harness).stop_watching(harness.record, WHY)

    operator(harness).close(harness.record, Status.SUCCEEDED, WHY)

    assert (harness.record.status, harness.status) == (Status.SUCCEEDED, Status.SUCCEEDED)


@pytest.mark.parametrize("status", ["CANCELLED", "CANCELLING", "COMPLETED"])
def test_closing_changes_a_status_that_another_program_set(harness: PollerHarness, status: str) -> None:
    harness.poller().poll("x-1")
    harness.write(Status=status)
    harness.poller().poll("x-1")

    operator(harness).close(harness.record, Status.FAILED, WHY)

    assert (harness.record.status, harness.status) == (Status.FAILED, Status.FAILED)
    assert (harness.record.stored or {})["Status"] == "FAILED"
    assert list(harness.store.open_executions()) == []


def test_stopping_to_watch_leaves_a_status_that_another_program_set(harness: PollerHarness) -> None:
    harness.poller().poll("x-1")
    harness.write(Status="CANCELLING")

    operator(harness).stop_watching(harness.record, WHY)

    assert (harness.record.stored or {})["Status"] == "CANCELLING"
    assert (harness.record.status, harness.status) == (Status.UNKNOWN, Status.UNKNOWN)
    assert list(harness.store.open_executions()) == []


Deciding = Callable[[Operator, Execution], Execution]
DECISIONS: dict[str, Deciding] = {
    "close": lambda by, record: by.close(record, Status.FAILED, WHY),
    "stop watching": lambda by, record: by.stop_watching(record, WHY),
    "add a wave": lambda by, record: by.add_stage(record, SECOND_WAVE, WHY),
    "set the wave count": lambda by, record: by.set_stage_count(record, 3, WHY),
}
every_decision = pytest.mark.parametrize("decide", DECISIONS.values(), ids=DECISIONS)


@every_decision
def test_a_decision_wins_against_a_poller_that_has_the_last_response(
    harness: PollerHarness, decide: Deciding
) -> None:
    poller = harness.poller()
    claim = poller.claim("x-1")
    assert isinstance(claim, Claim)
    harness.source.set_jobs(DONE)
    result = poller.poll_sources([claim])[claim.execution.key]

    decided = decide(operator(harness), harness.record)
    polled = poller.settle(claim, result)

    assert harness.record == decided
    assert polled.result in (Result.BUSY, Result.CLOSED)
    assert "execution_ended" not in types_of(harness.journal, "p-1/x-1")


@every_decision
def test_a_decision_is_made_again_when_another_program_writes_in_between(
    harness: PollerHarness, decide: Deciding, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = harness.journal.append
    writes = iter([{"Version": 7, "Notes": "not ours"}])

    def interrupted(events: Sequence[Event]) -> None:
        append(events)
        harness.write(**next(writes, {}))

    monkeypatch.setattr(harness.journal, "append", interrupted)

    decided = decide(operator(harness), harness.record)

    assert (harness.record.stored or {})["Notes"] == "not ours"
    assert harness.record == decided
    assert harness.record.lease_holder is None


@every_decision
def test_a_decision_is_not_an_activity_of_the_execution(harness: PollerHarness, decide: Deciding) -> None:
    harness.poller().poll("x-1")
    before = harness.journal.find_run("p-1/x-1")
    harness.clock.advance(60)

    decide(operator(harness), harness.record)

    after = harness.journal.find_run("p-1/x-1")
    assert before is not None
    assert after is not None
    assert after.last_event_at == before.last_event_at


def test_a_poller_completes_the_correction_of_an_operator_that_died(harness: PollerHarness) -> None:
    harness.source.set_jobs(DONE)
    harness.poller().poll("x-1")
    harness.journal.refuse(lambda event: event.type == "execution_closed")
    with pytest.raises(InvalidEvent):
        operator(harness).close(harness.record, Status.FAILED, WHY)
    harness.journal.recover()
    harness.clock.advance(LEASE_MS / 1000)

    (found,) = harness.store.open_executions()
    polled = harness.poller().poll(found.execution_id)

    assert (polled.result, harness.record.status, harness.status) == (
        Result.ENDED,
        Status.FAILED,
        Status.FAILED,
    )


@pytest.mark.parametrize("kind", ["close", "stop watching"])
def test_a_poller_completes_what_an_operator_that_died_has_begun(harness: PollerHarness, kind: str) -> None:
    harness.journal.refuse(lambda event: event.type in ("execution_closed", "watch_stopped"))
    with pytest.raises(InvalidEvent):
        DECISIONS[kind](operator(harness), harness.record)
    harness.journal.recover()
    harness.source.set_jobs(DONE)
    assert harness.poller().poll("x-1").result is Result.BUSY
    harness.clock.advance(LEASE_MS / 1000)

    polled = harness.poller().poll("x-1")

    expected = Status.FAILED if kind == "close" else Status.UNKNOWN
    assert (polled.result, harness.record.status, harness.status) == (Result.ENDED, expected, expected)
    assert events_of(harness.journal, "p-1/x-1")[-1].payload["operator"] == "ana"
    assert harness.source.requests == []


@pytest.mark.parametrize(
    ("kind", "names", "total"),
    [("add a wave", ["one", "two"], 2), ("set the wave count", ["one"], 3)],
)
def test_a_poller_stores_what_an_operator_journaled_before_it_died(
    harness: PollerHarness, kind: str, names: list[str], total: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = harness.store.update

    def dies(execution: Execution) -> Execution:
        if execution.lease_holder is None:
            raise KeyboardInterrupt
        return update(execution)

    with monkeypatch.context() as patched:
        patched.setattr(harness.store, "update", dies)
        with pytest.raises(KeyboardInterrupt):
            DECISIONS[kind](operator(harness), harness.record)
    harness.clock.advance(LEASE_MS / 1000)

    harness.poller().poll("x-1")

    assert ([wave.name for wave in harness.record.stages], harness.record.total_stages) == (names, total)
    for wave in harness.record.stages[1:]:
        assert wave.expected_items == SECOND_WAVE.expected_items
        assert [(job.job_id, job.region) for job in wave.jobs] == [("j-2", "eu-west-1")]


def test_a_wave_that_was_added_is_polled_and_decides(harness: PollerHarness) -> None:
    harness.poller().poll("x-1")
    operator(harness).add_stage(harness.record, Stage("two", (Job("j-2"),)), WHY)
    harness.clock.advance(60)
    harness.source.set_jobs(DONE)
    assert harness.poller().poll("x-1").result is Result.POLLED
    harness.clock.advance(60)
    harness.source.set_jobs(DONE, finished(LAUNCHED, job_id="j-2"))

    assert harness.poller().poll("x-1").result is Result.ENDED
    added = next(event for event in events_of(harness.journal, "p-1/x-1") if event.type == "wave_added")
    assert (added.payload["wave"], added.payload["jobs"], added.payload["total_waves"]) == ("two", ["j-2"], 2)


def test_an_execution_that_waited_for_its_wave_count_ends_once_it_is_set() -> None:
    harness = PollerHarness(total_stages=None)
    harness.source.set_jobs(DONE)
    assert harness.poller().poll("x-1").result is Result.POLLED

    operator(harness).set_stage_count(harness.record, 1, WHY)
    harness.clock.advance(60)

    assert harness.poller().poll("x-1").result is Result.ENDED
    event = next(each for each in events_of(harness.journal, "p-1/x-1") if each.type == "wave_count_set")
    assert (event.payload["total_waves"], event.payload["reason"]) == (1, WHY.reason)


def test_a_wave_count_is_stored_in_a_record_that_had_none() -> None:
    harness = PollerHarness()
    stored = {name: value for name, value in (harness.record.stored or {}).items() if name != "TotalWaves"}
    harness.store.write(stored)

    operator(harness).set_stage_count(harness.record, 2, WHY)

    assert ((harness.record.stored or {})["TotalWaves"], harness.record.total_stages) == (2, 2)


@pytest.mark.parametrize("kind", ["stop watching", "add a wave", "set the wave count"])
def test_only_an_open_execution_is_changed(harness: PollerHarness, kind: str) -> None:
    harness.source.set_jobs(DONE)
    harness.poller().poll("x-1")

    with pytest.raises(InvalidInput, match=r"x-1 is not open \(succeeded\).*executions close"):
        DECISIONS[kind](operator(harness), harness.record)

    assert types_of(harness.journal, "p-1/x-1")[-1] == "execution_ended"


@pytest.mark.parametrize(
    ("wave", "why"),
    [
        (Stage("one", (Job("j-2"),)), "already has a wave 'one'"),
        (Stage("two", (Job("j-1"),)), "already has j-1 in another wave"),
    ],
)
def test_a_wave_is_added_once(wave: Stage, why: str) -> None:
    harness = PollerHarness()

    with pytest.raises(InvalidInput, match=why):
        operator(harness).add_stage(harness.record, wave, WHY)


@pytest.mark.parametrize("count", [0, -1])
def test_a_wave_count_below_the_stored_waves_is_rejected(harness: PollerHarness, count: int) -> None:
    with pytest.raises(InvalidInput, match="Use 1 or more"):
        operator(harness).set_stage_count(harness.record, count, WHY)


@pytest.mark.parametrize("count", [10_001, 10**21])
def test_a_wave_count_that_no_execution_has_is_rejected(harness: PollerHarness, count: int) -> None:
    with pytest.raises(InvalidInput, match="Use at most 10,000"):
        operator(harness).set_stage_count(harness.record, count, WHY)


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        (("ana", " "), "The reason is empty. State it with --reason"),
        (("", "because"), "The operator is empty"),
        (("ana", "x" * 1001), "The reason has 1001 characters. Use at most 1000"),
    ],
)
def test_a_decision_has_an_operator_and_a_reason(statement: tuple[str, str], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        Statement(*statement)


@pytest.mark.parametrize("status", [Status.RUNNING, Status.DIED, Status.PENDING])
def test_an_execution_is_not_closed_as_something_that_is_not_an_end(
    harness: PollerHarness, status: Status
) -> None:
    with pytest.raises(InvalidInput, match=f"cannot end as {status}"):
        operator(harness).close(harness.record, status, WHY)


def test_a_decision_is_later_than_a_verdict_of_a_clock_that_is_ahead() -> None:
    given = Verdict(Status.SUCCEEDED, START + 60_000, EVIDENCE)
    ahead = replace(drill(LAUNCHED), verdict=given, closed=True, version=3)

    decision = operators.close_decision(ahead, Status.FAILED, WHY, operators._after_everything(ahead, START))

    assert decision.events[-1].occurred_at == START + 60_001


def test_the_verdict_of_an_operator_survives_its_record() -> None:
    decision = operators.close_decision(drill(LAUNCHED), Status.PARTIAL, WHY, START + 1)
    closed = decision.settled(decision.claimed)

    assert parse_record(to_record(closed)).verdict == closed.verdict


def test_an_execution_that_is_gone_is_named(harness: PollerHarness) -> None:
    gone = replace(harness.record, execution_id="x-2")

    with pytest.raises(ExecutionNotFound, match="'x-2' of plan 'p-1' no longer exists"):
        operator(harness).stop_watching(gone, WHY)


def test_a_decision_that_never_gets_the_record_fails_and_journals_nothing(
    harness: PollerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(execution: Execution) -> Execution:
        raise VersionConflict("x-1", execution.version)

    monkeypatch.setattr(harness.store, "update", refuses)

    with pytest.raises(VersionConflict):
        operator(harness).close(harness.record, Status.FAILED, WHY)
    assert types_of(harness.journal, "p-1/x-1") == []


def test_the_first_event_of_an_execution_that_was_never_polled_is_its_start() -> None:
    harness = PollerHarness()

    operator(harness).close(harness.record, Status.CANCELLED, WHY)

    assert types_of(harness.journal, "p-1/x-1") == ["execution_started", "execution_closed"]
    assert execution().execution_id == "x-1"


def test_a_cancel_after_a_decision_of_the_same_second_counts(harness: PollerHarness) -> None:
    harness.poller().poll("x-1")
    harness.clock.advance(0.9)
    operator(harness).close(harness.record, Status.FAILED, WHY)
    harness.write(Status="CANCELLED", EndTime=harness.clock.now_ms() // 1000)

    harness.poller().poll("x-1")

    assert (harness.record.status, harness.status) == (Status.CANCELLED, Status.CANCELLED)


def test_an_execution_that_another_program_owns_is_not_called_running(harness: PollerHarness) -> None:
    theirs = {"ExecutionId": "x-2", "PlanId": "p-1", "Status": "CANCELLING", "StartTime": 1, "Waves": []}
    harness.store.write(theirs)
    found = harness.store.get("x-2")
    assert found is not None

    with pytest.raises(InvalidInput, match="another program keeps it under the status CANCELLING"):
        Operator(harness.store, harness.journal, clock=harness.clock).stop_watching(
            found, Statement("ana", "late")
        )

"""Verdicts that rest on an assumption are checked again, by every kind of poller, and corrected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longwatch.aws.poller import poll
from longwatch.executions.explain import explain_execution
from longwatch.executions.finder import Finder
from longwatch.executions.model import Execution, JobState, Stage, Verdict
from longwatch.executions.operators import Operator, Statement
from longwatch.executions.outcomes import GRACE_MS
from longwatch.executions.poller import Result
from longwatch.executions.responses import apply_recheck, is_recheck_due, next_recheck_at
from longwatch.executions.sources.base import SourceProblem
from longwatch.executions.watcher import Watcher
from longwatch.model.run import Status
from tests.unit.executions.poller_harness import DONE, PollerHarness
from tests.unit.executions.samples import (
    EVIDENCE,
    FAILED,
    IN_PROGRESS,
    LAUNCHED,
    MINUTE,
    PENDING,
    START,
    execution,
    finished,
    response,
)
from tests.unit.executions.scripted_source import events_of, types_of

DAY = 24 * 60 * MINUTE
ASSUMED = Verdict(Status.FAILED, START, EVIDENCE, assumed=("s-1 has ended, last reported as pending",))


@pytest.mark.parametrize(
    ("now", "next_at"),
    [
        (START, START + 2 * MINUTE),
        (START + 2 * MINUTE, START + 4 * MINUTE),
        (START + 4 * MINUTE, START + 8 * MINUTE),
        (START + 10 * MINUTE, START + 20 * MINUTE),  # no poller ran for a while
        (START + DAY, START + 2 * DAY),
        (START + 40 * DAY, START + 41 * DAY),
        (START - MINUTE, START + MINUTE),  # a clock that is behind
    ],
)
def test_a_recheck_comes_after_as_long_as_the_verdict_has_stood_and_at_least_once_a_day(
    now: int, next_at: int
) -> None:
    assert next_recheck_at(ASSUMED, now) == next_at
    assert next_recheck_at(replace(ASSUMED, assumed=()), now) is None


def test_only_a_closed_execution_with_a_time_is_due() -> None:
    closed = execution(closed=True, verdict=ASSUMED, recheck_at=START)

    assert is_recheck_due(closed, START)
    assert not is_recheck_due(closed, START - 1)
    assert not is_recheck_due(replace(closed, recheck_at=None), START)
    assert not is_recheck_due(replace(closed, closed=False), START)


LATER = START + GRACE_MS + 10 * MINUTE


@pytest.mark.parametrize(
    ("reported", "status", "is_corrected", "continues"),
    [
        ((finished(PENDING, LAUNCHED),), Status.PARTIAL, False, True),
        ((finished(IN_PROGRESS, LAUNCHED),), Status.PARTIAL, False, True),
        ((finished(LAUNCHED, LAUNCHED),), Status.SUCCEEDED, True, False),
        ((finished(FAILED, LAUNCHED),), Status.PARTIAL, True, False),  # the reason is known now
        ((finished(PENDING, FAILED),), Status.FAILED, True, True),
        ((), Status.PARTIAL, False, False),  # the source has dropped the job
    ],
)
def test_a_response_changes_an_assumed_verdict(
    reported: tuple[object, ...], status: Status, is_corrected: bool, continues: bool
) -> None:
    given = replace(ASSUMED, status=Status.PARTIAL, message="s-1 is still pending after its job has finished")
    closed = execution(
        Stage("one", (finished(PENDING, LAUNCHED),)), closed=True, verdict=given, recheck_at=LATER
    )
    missing = () if reported else ("j-1",)

    after = apply_recheck(closed, response(LATER, *reported, missing=missing))  # type: ignore[arg-type]

    assert after.verdict is not None
    assert (after.status, after.verdict.at != given.at) == (status, is_corrected)
    assert after.recheck_at == (LATER if continues else None)
    assert bool(after.verdict.assumed) is (continues or not reported)


def test_a_certain_verdict_stays_certain_when_it_is_reviewed() -> None:
    given = replace(ASSUMED, assumed=())
    closed = execution(Stage("one", (finished(FAILED),)), closed=True, verdict=given)

    after = apply_recheck(closed, response(LATER, finished(PENDING)))

    assert after.verdict == given


@pytest.fixture
def failed() -> PollerHarness:
    """One that was closed as failed because its server was still pending after the grace period."""
    harness = PollerHarness()
    harness.source.set_jobs(finished(PENDING))
    harness.poller().poll("x-1")
    harness.clock.advance(GRACE_MS / 1000 + 60)
    while harness.poller().poll("x-1").result is not Result.ENDED:
        harness.clock.advance(60)
    assert harness.record.verdict is not None
    assert harness.record.verdict.assumed
    assert events_of(harness.journal, harness.record.run_id)[-1].payload["assumed"]
    return harness


def embedded(harness: PollerHarness) -> None:
    Watcher(harness.store, harness.poller(), clock=harness.clock).poll_due()


def on_aws(harness: PollerHarness) -> None:
    def dispatch(found: Execution) -> None:
        event = {"execution_id": found.execution_id, "plan_id": found.plan_id}
        poll(event, harness.poller(), "test", clock=harness.clock)

    Finder(harness.store, dispatch, clock=harness.clock).run(0)


@pytest.mark.parametrize("poll_once", [embedded, on_aws])
def test_every_poller_corrects_it_once_the_source_reports_otherwise(
    failed: PollerHarness, poll_once: object
) -> None:
    assert callable(poll_once)
    poll_once(failed)
    before = len(failed.source.requests)
    failed.clock.advance(120)
    poll_once(failed)
    assert len(failed.source.requests) == before + 1
    failed.source.set_jobs(DONE)
    failed.clock.advance(300)

    poll_once(failed)

    assert (failed.record.status, failed.status) == (Status.SUCCEEDED, Status.SUCCEEDED)
    assert types_of(failed.journal, failed.record.run_id)[-1] == "execution_corrected"
    assert "PollState" not in (failed.record.stored or {})
    failed.clock.advance(100_000)
    before = len(failed.source.requests)
    poll_once(failed)
    assert len(failed.source.requests) == before


def test_rechecks_grow_apart_and_end_when_the_source_drops_the_job(failed: PollerHarness) -> None:
    began, polled_at = failed.record.verdict, []
    assert began is not None
    for _ in range(90):
        before = len(failed.source.requests)
        embedded(failed)
        if len(failed.source.requests) > before:
            polled_at.append((failed.clock.now_ms() - began.at) // MINUTE)
        failed.clock.advance(60)
    failed.source.set_jobs()
    failed.clock.advance(100_000)
    embedded(failed)

    assert polled_at == [2, 4, 8, 16, 32, 64]
    assert (failed.record.status, failed.record.recheck_at) == (Status.FAILED, None)
    assert [job.state for wave in failed.record.stages for job in wave.jobs] == [JobState.MISSING]


def test_a_source_that_does_not_respond_leaves_the_verdict_and_is_polled_later(failed: PollerHarness) -> None:
    failed.source.problem = SourceProblem("throttled")
    failed.clock.advance(120)

    polled = failed.poller().poll("x-1")

    assert polled.result is Result.NO_RESPONSE
    assert failed.record.status is Status.FAILED
    assert failed.poller().poll("x-1").result is Result.CLOSED
    assert (failed.record.recheck_at or 0) > failed.clock.now_ms()


def test_an_end_of_another_writer_ends_the_rechecks(failed: PollerHarness) -> None:
    failed.write(Status="CANCELLED")

    embedded(failed)

    assert (failed.record.status, failed.record.recheck_at) == (Status.CANCELLED, None)
    assert failed.status is Status.CANCELLED


def test_explain_names_what_is_assumed_and_when_it_is_checked_again(failed: PollerHarness) -> None:
    facts = {fact.about: fact for fact in explain_execution(failed.record, failed.clock.now_ms())}

    assert facts["assumed"].text == "s-1 has ended, last reported as pending"
    assert facts["next recheck"].at == failed.record.recheck_at


def test_a_recheck_that_changes_nothing_has_a_result_of_its_own(failed: PollerHarness) -> None:
    failed.clock.advance(120)

    assert failed.poller().poll("x-1").result is Result.RECHECKED


def test_an_operator_who_closes_it_ends_the_rechecks(failed: PollerHarness) -> None:
    operator = Operator(failed.store, failed.journal, clock=failed.clock)

    operator.close(failed.record, Status.SUCCEEDED, Statement("ops", "seen in the console"))
    failed.clock.advance(600)
    embedded(failed)

    assert (failed.record.status, failed.record.recheck_at) == (Status.SUCCEEDED, None)

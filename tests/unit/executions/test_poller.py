"""One poll: what it requests, writes and reports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longwatch.errors import ExecutionNotFound, InvalidEvent, Unreachable
from longwatch.executions.model import ItemState, JobState, Mode, Step, StepState, WorkItem
from longwatch.executions.outcomes import GRACE_POLLS
from longwatch.executions.poller import LEASE_MS, Result
from longwatch.executions.sources.base import SourceProblem
from longwatch.model.run import Status
from longwatch.recording.redaction import redact_text
from longwatch.testing import MemoryJournal
from tests.unit.executions.poller_harness import DONE, PollerHarness
from tests.unit.executions.samples import IN_PROGRESS, MINUTE, finished, job
from tests.unit.executions.scripted_source import events_of, types_of


def test_the_first_poll_reports_the_start_and_the_present_state(harness: PollerHarness) -> None:
    polled = harness.poller().poll("x-1")

    assert (polled.result, polled.appended) == (Result.POLLED, 3)
    assert types_of(harness.journal, "p-1/x-1") == [
        "execution_started",
        "job_transition",
        "server_transition",
    ]
    assert (harness.record.lease_holder, harness.record.last_polled_at) == (None, harness.clock.now_ms())


def test_a_poll_without_news_reports_nothing(harness: PollerHarness) -> None:
    harness.poller().poll("x-1")
    harness.clock.advance(45)

    polled = harness.poller().poll("x-1")

    assert (polled.result, polled.appended) == (Result.POLLED, 0)


def test_the_end_is_reported_once_and_closes_the_execution(harness: PollerHarness) -> None:
    harness.source.set_jobs(DONE)

    polled = harness.poller().poll("x-1")

    assert (polled.result, harness.status) == (Result.ENDED, Status.SUCCEEDED)
    assert (harness.record.closed, harness.record.status) == (True, Status.SUCCEEDED)
    assert types_of(harness.journal, "p-1/x-1").count("execution_ended") == 1
    assert harness.poller().poll("x-1").result is Result.CLOSED
    assert len(harness.source.requests) == 1


def test_an_execution_that_is_not_due_is_not_polled(harness: PollerHarness) -> None:
    harness.poller().poll("x-1")
    harness.clock.advance(43)

    assert harness.poller().poll("x-1").result is Result.EARLY
    harness.clock.advance(1)  # the finder's clock may be a second ahead of ours
    assert harness.poller().poll("x-1").result is Result.POLLED


def test_an_unknown_execution_is_named(harness: PollerHarness) -> None:
    with pytest.raises(ExecutionNotFound, match="'x-2' of plan 'p-9'"):
        harness.poller().poll("x-2", "p-9")


def test_a_missing_response_leaves_it_open_and_is_remembered(harness: PollerHarness) -> None:
    harness.source.problem = SourceProblem("throttled", 7.0, True)

    polled = harness.poller().poll("x-1")

    assert polled.result is Result.NO_RESPONSE
    assert polled.problem == harness.source.problem
    assert (harness.record.failures, harness.record.last_error) == (1, "throttled")
    assert harness.record.next_poll_at == harness.clock.now_ms() + 7_000
    assert harness.record.is_open
    assert types_of(harness.journal, "p-1/x-1") == []


def test_an_unknown_source_is_a_problem_and_not_an_end() -> None:
    harness = PollerHarness(source="batch")

    polled = harness.poller().poll("x-1")

    assert polled.problem is not None
    assert polled.problem.message == "No source 'batch' here. There are: drs"


def test_past_its_deadline_the_source_is_polled_and_followed(harness: PollerHarness) -> None:
    harness.clock.advance(30 * 60)
    harness.source.set_jobs(job(IN_PROGRESS))

    for _ in range(2):
        assert harness.poller().poll("x-1").result is Result.POLLED
        harness.clock.advance(45)
    harness.source.set_jobs(DONE)
    harness.poller().poll("x-1")

    assert types_of(harness.journal, "p-1/x-1").count("execution_asked") == 1
    assert harness.record.verdict is not None
    assert (harness.record.status, harness.record.verdict.late) == (Status.SUCCEEDED, True)


def test_past_its_deadline_a_source_that_does_not_respond_decides_nothing(harness: PollerHarness) -> None:
    harness.clock.advance(60 * 60)
    harness.source.problem = SourceProblem("no connection")

    harness.poller().poll("x-1")

    assert harness.record.is_open
    assert types_of(harness.journal, "p-1/x-1") == []


def test_a_journal_that_does_not_respond_loses_no_change(harness: PollerHarness) -> None:
    harness.journal.fail(times=1)
    with pytest.raises(Unreachable):
        harness.poller().poll("x-1")

    harness.clock.advance(LEASE_MS / 1000)
    harness.poller().poll("x-1")

    assert len(types_of(harness.journal, "p-1/x-1")) == 3


def test_a_journal_whose_response_is_lost_reports_nothing_twice(harness: PollerHarness) -> None:
    harness.journal.time_out(times=1)
    with pytest.raises(Unreachable):
        harness.poller().poll("x-1")

    harness.clock.advance(LEASE_MS / 1000)
    polled = harness.poller().poll("x-1")

    assert (polled.result, polled.appended) == (Result.POLLED, 0)
    assert len(types_of(harness.journal, "p-1/x-1")) == 3


def test_an_unreported_verdict_is_reported_by_the_next_poller_without_a_request(
    harness: PollerHarness,
) -> None:
    harness.source.set_jobs(DONE)
    harness.journal.refuse(lambda event: event.type == "execution_ended")
    with pytest.raises(InvalidEvent):
        harness.poller("a").poll("x-1")
    verdict = harness.record.verdict
    harness.journal.recover()
    harness.clock.advance(LEASE_MS / 1000)

    polled = harness.poller("b").poll("x-1")

    assert polled.result is Result.ENDED
    assert harness.record.verdict == verdict
    assert len(harness.source.requests) == 1
    assert harness.status is Status.SUCCEEDED


def test_a_recovery_waits_for_its_launch_actions() -> None:
    harness = PollerHarness(mode=Mode.RECOVERY)
    harness.source.set_jobs(DONE)

    for _ in range(GRACE_POLLS - 1):
        assert harness.poller().poll("x-1").result is Result.POLLED
        harness.clock.advance(MINUTE / 1000)
    assert harness.poller().poll("x-1").result is Result.ENDED


def test_a_missing_job_leaves_the_execution_open(harness: PollerHarness) -> None:
    harness.source.set_jobs()

    polled = harness.poller().poll("x-1")

    assert polled.result is Result.POLLED
    assert harness.record.stages[0].jobs[0].state is JobState.MISSING


def test_every_poll_is_reported(harness: PollerHarness) -> None:
    harness.poller().poll("x-1")
    harness.poller().poll("x-1")

    assert [polled.result for polled in harness.polls] == [Result.POLLED, Result.EARLY]


def test_events_live_as_long_as_the_journal_requires(harness: PollerHarness) -> None:
    class Short(MemoryJournal):
        default_ttl_seconds = 3600

    harness.journal.journal = Short(clock=harness.clock)
    harness.poller().poll("x-1")

    assert {event.ttl for event in events_of(harness.journal, "p-1/x-1")} == {
        harness.clock.now_ms() // 1000 + 3600
    }


def test_secrets_in_texts_of_a_source_are_not_stored(harness: PollerHarness) -> None:
    secret = "login failed: password=hunter2"
    action = Step("script", "r-1", StepState.FAILED, reason=secret, source_status=secret)
    server = WorkItem("s-1", ItemState.FAILED, steps=(action,), source_status=secret, reason=secret)
    harness.source.set_jobs(replace(finished(), items=(server,), source_status=secret))

    harness.poller(redact=redact_text).poll("x-1")

    stored = [harness.record, *(event.payload for event in events_of(harness.journal, "p-1/x-1"))]
    assert "password=[redacted]" in repr(stored)
    assert "hunter2" not in repr(stored)


def test_secrets_in_a_problem_of_a_source_are_not_stored(harness: PollerHarness) -> None:
    harness.source.problem = SourceProblem("401 for https://ann:hunter2@host/")

    polled = harness.poller(redact=redact_text).poll("x-1")

    assert harness.record.last_error == "401 for https://[redacted]@host/"
    assert polled.problem is not None
    assert "hunter2" not in polled.problem.message

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
from tests.unit.executions.desk import DONE, Desk
from tests.unit.executions.samples import IN_PROGRESS, MINUTE, finished, job
from tests.unit.executions.scripted_source import events_of, types_of


def test_the_first_poll_reports_the_start_and_the_present_state(desk: Desk) -> None:
    polled = desk.poller().poll("x-1")

    assert (polled.result, polled.appended) == (Result.POLLED, 3)
    assert types_of(desk.journal, "p-1/x-1") == ["execution_started", "job_transition", "server_transition"]
    assert (desk.record.lease_holder, desk.record.last_polled_at) == (None, desk.clock.now_ms())


def test_a_poll_without_news_reports_nothing(desk: Desk) -> None:
    desk.poller().poll("x-1")
    desk.clock.advance(45)

    polled = desk.poller().poll("x-1")

    assert (polled.result, polled.appended) == (Result.POLLED, 0)


def test_the_end_is_reported_once_and_closes_the_execution(desk: Desk) -> None:
    desk.source.set_jobs(DONE)

    polled = desk.poller().poll("x-1")

    assert (polled.result, desk.status) == (Result.ENDED, Status.SUCCEEDED)
    assert (desk.record.closed, desk.record.status) == (True, Status.SUCCEEDED)
    assert types_of(desk.journal, "p-1/x-1").count("execution_ended") == 1
    assert desk.poller().poll("x-1").result is Result.CLOSED
    assert len(desk.source.requests) == 1


def test_an_execution_that_is_not_due_is_not_polled(desk: Desk) -> None:
    desk.poller().poll("x-1")
    desk.clock.advance(43)

    assert desk.poller().poll("x-1").result is Result.EARLY
    desk.clock.advance(1)  # the finder's clock may be a second ahead of ours
    assert desk.poller().poll("x-1").result is Result.POLLED


def test_an_unknown_execution_is_named(desk: Desk) -> None:
    with pytest.raises(ExecutionNotFound, match="'x-2' of plan 'p-9'"):
        desk.poller().poll("x-2", "p-9")


def test_a_missing_response_leaves_it_open_and_is_remembered(desk: Desk) -> None:
    desk.source.problem = SourceProblem("throttled", 7.0, True)

    polled = desk.poller().poll("x-1")

    assert polled.result is Result.NO_RESPONSE
    assert polled.problem == desk.source.problem
    assert (desk.record.failures, desk.record.last_error) == (1, "throttled")
    assert desk.record.next_poll_at == desk.clock.now_ms() + 7_000
    assert desk.record.is_open
    assert types_of(desk.journal, "p-1/x-1") == []


def test_an_unknown_source_is_a_problem_and_not_an_end() -> None:
    desk = Desk(source="batch")

    polled = desk.poller().poll("x-1")

    assert polled.problem is not None
    assert polled.problem.message == "No source 'batch' here. There are: drs"


def test_past_its_deadline_the_source_is_polled_and_followed(desk: Desk) -> None:
    desk.clock.advance(30 * 60)
    desk.source.set_jobs(job(IN_PROGRESS))

    for _ in range(2):
        assert desk.poller().poll("x-1").result is Result.POLLED
        desk.clock.advance(45)
    desk.source.set_jobs(DONE)
    desk.poller().poll("x-1")

    assert types_of(desk.journal, "p-1/x-1").count("execution_asked") == 1
    assert desk.record.verdict is not None
    assert (desk.record.status, desk.record.verdict.late) == (Status.SUCCEEDED, True)


def test_past_its_deadline_a_source_that_does_not_respond_decides_nothing(desk: Desk) -> None:
    desk.clock.advance(60 * 60)
    desk.source.problem = SourceProblem("no connection")

    desk.poller().poll("x-1")

    assert desk.record.is_open
    assert types_of(desk.journal, "p-1/x-1") == []


def test_a_journal_that_does_not_respond_loses_no_change(desk: Desk) -> None:
    desk.journal.fail(times=1)
    with pytest.raises(Unreachable):
        desk.poller().poll("x-1")

    desk.clock.advance(LEASE_MS / 1000)
    desk.poller().poll("x-1")

    assert len(types_of(desk.journal, "p-1/x-1")) == 3


def test_a_journal_whose_response_is_lost_reports_nothing_twice(desk: Desk) -> None:
    desk.journal.time_out(times=1)
    with pytest.raises(Unreachable):
        desk.poller().poll("x-1")

    desk.clock.advance(LEASE_MS / 1000)
    polled = desk.poller().poll("x-1")

    assert (polled.result, polled.appended) == (Result.POLLED, 0)
    assert len(types_of(desk.journal, "p-1/x-1")) == 3


def test_an_unreported_verdict_is_reported_by_the_next_poller_without_a_request(desk: Desk) -> None:
    desk.source.set_jobs(DONE)
    desk.journal.refuse(lambda event: event.type == "execution_ended")
    with pytest.raises(InvalidEvent):
        desk.poller("a").poll("x-1")
    verdict = desk.record.verdict
    desk.journal.recover()
    desk.clock.advance(LEASE_MS / 1000)

    polled = desk.poller("b").poll("x-1")

    assert polled.result is Result.ENDED
    assert desk.record.verdict == verdict
    assert len(desk.source.requests) == 1
    assert desk.status is Status.SUCCEEDED


def test_a_recovery_waits_for_its_launch_actions() -> None:
    desk = Desk(mode=Mode.RECOVERY)
    desk.source.set_jobs(DONE)

    for _ in range(GRACE_POLLS - 1):
        assert desk.poller().poll("x-1").result is Result.POLLED
        desk.clock.advance(MINUTE / 1000)
    assert desk.poller().poll("x-1").result is Result.ENDED


def test_a_missing_job_leaves_the_execution_open(desk: Desk) -> None:
    desk.source.set_jobs()

    polled = desk.poller().poll("x-1")

    assert polled.result is Result.POLLED
    assert desk.record.stages[0].jobs[0].state is JobState.MISSING


def test_every_poll_is_reported(desk: Desk) -> None:
    desk.poller().poll("x-1")
    desk.poller().poll("x-1")

    assert [polled.result for polled in desk.polls] == [Result.POLLED, Result.EARLY]


def test_events_live_as_long_as_the_journal_requires(desk: Desk) -> None:
    class Short(MemoryJournal):
        default_ttl_seconds = 3600

    desk.journal.journal = Short(clock=desk.clock)
    desk.poller().poll("x-1")

    assert {event.ttl for event in events_of(desk.journal, "p-1/x-1")} == {desk.clock.now_ms() // 1000 + 3600}


def test_secrets_in_texts_of_a_source_are_not_stored(desk: Desk) -> None:
    secret = "login failed: password=hunter2"
    action = Step("script", "r-1", StepState.FAILED, reason=secret, source_status=secret)
    server = WorkItem("s-1", ItemState.FAILED, steps=(action,), source_status=secret, reason=secret)
    desk.source.set_jobs(replace(finished(), items=(server,), source_status=secret))

    desk.poller(redact=redact_text).poll("x-1")

    stored = [desk.record, *(event.payload for event in events_of(desk.journal, "p-1/x-1"))]
    assert "password=[redacted]" in repr(stored)
    assert "hunter2" not in repr(stored)


def test_secrets_in_a_problem_of_a_source_are_not_stored(desk: Desk) -> None:
    desk.source.problem = SourceProblem("401 for https://ann:hunter2@host/")

    polled = desk.poller(redact=redact_text).poll("x-1")

    assert desk.record.last_error == "401 for https://[redacted]@host/"
    assert polled.problem is not None
    assert "hunter2" not in polled.problem.message

"""Several pollers at once, and other programs that write meanwhile: which one wins, and what is reported."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longwatch.errors import InvalidEvent
from longwatch.executions.poller import LEASE_MS, Claim, Result
from longwatch.executions.sources.base import SourceProblem
from longwatch.model.run import Status
from tests.unit.executions.poller_harness import DONE, PollerHarness
from tests.unit.executions.samples import CANCELLED, FAILED, LAUNCHED, finished
from tests.unit.executions.scripted_source import events_of, types_of


def test_only_one_poller_polls_at_a_time(harness: PollerHarness) -> None:
    assert isinstance(harness.poller("a").claim("x-1"), Claim)

    assert harness.poller("b").poll("x-1").result is Result.BUSY
    assert harness.source.requests == []


def test_the_work_of_a_poller_that_died_is_continued(harness: PollerHarness) -> None:
    harness.poller("a").claim("x-1")
    harness.clock.advance(LEASE_MS / 1000)

    assert harness.poller("b").poll("x-1").result is Result.POLLED


def test_of_two_pollers_at_work_the_second_to_write_gives_way(harness: PollerHarness) -> None:
    slow, quick = harness.poller("slow"), harness.poller("quick")
    claim = slow.claim("x-1")
    assert isinstance(claim, Claim)
    result = slow.poll_sources([claim])[claim.execution.key]
    harness.clock.advance(LEASE_MS / 1000)
    harness.source.set_jobs(DONE)
    assert quick.poll("x-1").result is Result.ENDED

    assert slow.settle(claim, result).result is Result.CLOSED

    assert harness.record.status is harness.status is Status.SUCCEEDED
    assert types_of(harness.journal, "p-1/x-1").count("execution_ended") == 1


def test_two_pollers_report_one_change_once(harness: PollerHarness) -> None:
    slow, quick = harness.poller("slow"), harness.poller("quick")
    claim = slow.claim("x-1")
    assert isinstance(claim, Claim)
    result = slow.poll_sources([claim])[claim.execution.key]
    harness.clock.advance(LEASE_MS / 1000)
    quick.poll("x-1")

    polled = slow.settle(claim, result)

    assert (polled.result, polled.appended) == (Result.BUSY, 0)
    assert len(types_of(harness.journal, "p-1/x-1")) == 3


def test_a_cancel_between_read_and_write_survives_and_is_reported(harness: PollerHarness) -> None:
    poller = harness.poller()
    claim = poller.claim("x-1")
    assert isinstance(claim, Claim)
    harness.source.set_jobs(DONE)
    result = poller.poll_sources([claim])[claim.execution.key]
    harness.write(Status="CANCELLED", EndTime=harness.clock.now_ms() // 1000)

    polled = poller.settle(claim, result)

    assert polled.result is Result.ENDED
    assert (harness.record.status, harness.status) == (Status.CANCELLED, Status.CANCELLED)
    assert poller.poll("x-1").result is Result.CLOSED


def test_a_cancel_after_the_end_was_reported_is_a_correction(harness: PollerHarness) -> None:
    harness.source.set_jobs(DONE)
    poller = harness.poller()
    claim = poller.claim("x-1")
    assert isinstance(claim, Claim)

    harness.journal.after_append = lambda: harness.write(Status="CANCELLED")
    poller.settle(claim, poller.poll_sources([claim])[claim.execution.key])

    assert (harness.record.status, harness.status) == (Status.CANCELLED, Status.CANCELLED)
    assert types_of(harness.journal, "p-1/x-1")[-2:] == ["execution_ended", "execution_corrected"]


def test_a_cancel_between_polls_is_reported_by_the_next_poll(harness: PollerHarness) -> None:
    harness.poller().poll("x-1")
    harness.write(Status="CANCELLED")

    assert harness.poller().poll("x-1").result is Result.ENDED
    assert harness.poller().poll("x-1").result is Result.CLOSED
    assert harness.status is Status.CANCELLED


def test_a_later_outcome_is_reported_as_a_correction(harness: PollerHarness) -> None:
    harness.source.set_jobs(finished(FAILED))
    harness.poller().poll("x-1")
    harness.clock.advance(60)
    harness.source.set_jobs(DONE)

    polled = harness.poller().review("x-1")

    assert polled.result is Result.CORRECTED
    assert (harness.record.status, harness.status) == (Status.SUCCEEDED, Status.SUCCEEDED)
    assert events_of(harness.journal, "p-1/x-1")[-1].payload["corrects"] == "failed"
    assert harness.poller().review("x-1").result is Result.CLOSED


def test_a_review_leaves_what_another_writer_decided(harness: PollerHarness) -> None:
    harness.poller().poll("x-1")
    harness.write(Status="CANCELLED")
    harness.poller().poll("x-1")
    harness.source.set_jobs(DONE)

    assert harness.poller().review("x-1").result is Result.CLOSED
    assert harness.status is Status.CANCELLED


def test_a_review_without_a_response_changes_nothing(harness: PollerHarness) -> None:
    harness.source.set_jobs(DONE)
    harness.poller().poll("x-1")
    harness.source.problem = SourceProblem("no connection")

    assert harness.poller().review("x-1").result is Result.NO_RESPONSE
    assert harness.record.status is Status.SUCCEEDED


def test_an_unreported_end_is_reported_before_the_cancel_that_corrects_it(harness: PollerHarness) -> None:
    harness.source.set_jobs(DONE)
    harness.journal.refuse(lambda event: event.type == "execution_ended")
    with pytest.raises(InvalidEvent):
        harness.poller().poll("x-1")
    harness.journal.recover()
    harness.write(Status="CANCELLED", EndTime=harness.clock.now_ms() // 1000)

    polled = harness.poller("b").poll("x-1")

    assert polled.result is Result.ENDED
    assert types_of(harness.journal, "p-1/x-1")[-2:] == ["execution_ended", "execution_corrected"]
    assert harness.status is Status.CANCELLED
    assert harness.poller("b").poll("x-1").result is Result.CLOSED


def test_an_end_that_another_writer_repeats_is_still_reported() -> None:
    harness = PollerHarness()
    harness.source.set_jobs(finished(CANCELLED))
    harness.journal.refuse(lambda event: event.type == "execution_ended")
    with pytest.raises(InvalidEvent):
        harness.poller().poll("x-1")
    harness.journal.recover()
    harness.write(Status="CANCELLED", EndTime=harness.clock.now_ms() // 1000)

    harness.poller("b").poll("x-1")

    assert types_of(harness.journal, "p-1/x-1").count("execution_ended") == 1
    assert harness.poller("b").poll("x-1").result is Result.CLOSED


def test_a_late_poller_that_was_not_replaced_renews_the_lease_and_reports(harness: PollerHarness) -> None:
    slow = harness.poller("a")
    claim = slow.claim("x-1")
    assert isinstance(claim, Claim)
    result = slow.poll_sources([claim])[claim.execution.key]
    harness.clock.advance(10 * LEASE_MS / 1000)

    polled = slow.settle(claim, result)

    assert polled.result is Result.POLLED
    assert "server_transition" in types_of(harness.journal, "p-1/x-1")
    assert harness.record.lease_holder is None


def test_a_late_poller_that_was_replaced_reports_nothing(harness: PollerHarness) -> None:
    slow, other = harness.poller("a"), harness.poller("b")
    claim = slow.claim("x-1")
    assert isinstance(claim, Claim)
    result = slow.poll_sources([claim])[claim.execution.key]
    harness.clock.advance(LEASE_MS / 1000)
    assert isinstance(other.claim("x-1"), Claim)

    polled = slow.settle(claim, result)

    assert polled.result is Result.BUSY
    assert types_of(harness.journal, "p-1/x-1") == []
    assert harness.record.lease_holder == "b"


def test_a_wave_that_the_orchestrator_adds_meanwhile_is_not_lost() -> None:
    harness = PollerHarness(total_stages=2)
    poller = harness.poller()
    claim = poller.claim("x-1")
    assert isinstance(claim, Claim)
    result = poller.poll_sources([claim])[claim.execution.key]
    waves = (harness.record.stored or {})["Waves"]
    assert isinstance(waves, list)
    harness.write(Waves=[*waves, {"WaveName": "two", "JobId": "j-2"}])

    assert poller.settle(claim, result).result is Result.POLLED
    assert [wave.name for wave in harness.record.stages] == ["one", "two"]
    harness.clock.advance(LEASE_MS / 1000)
    harness.source.set_jobs(DONE, finished(LAUNCHED, job_id="j-2"))
    assert poller.poll("x-1").result is Result.ENDED
    assert replace(harness.record, stages=()).total_stages == 2

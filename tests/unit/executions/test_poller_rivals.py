"""Several pollers at once, and other programs that write meanwhile: which one wins, and what is reported."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longwatch.errors import InvalidEvent
from longwatch.executions.poller import LEASE_MS, Claim, Result
from longwatch.executions.sources.base import SourceProblem
from longwatch.model.run import Status
from tests.unit.executions.desk import DONE, Desk
from tests.unit.executions.samples import CANCELLED, FAILED, LAUNCHED, finished
from tests.unit.executions.scripted_source import events_of, types_of


def test_only_one_poller_polls_at_a_time(desk: Desk) -> None:
    assert isinstance(desk.poller("a").claim("x-1"), Claim)

    assert desk.poller("b").poll("x-1").result is Result.BUSY
    assert desk.source.requests == []


def test_the_work_of_a_poller_that_died_is_continued(desk: Desk) -> None:
    desk.poller("a").claim("x-1")
    desk.clock.advance(LEASE_MS / 1000)

    assert desk.poller("b").poll("x-1").result is Result.POLLED


def test_of_two_pollers_at_work_the_second_to_write_gives_way(desk: Desk) -> None:
    slow, quick = desk.poller("slow"), desk.poller("quick")
    claim = slow.claim("x-1")
    assert isinstance(claim, Claim)
    result = slow.poll_sources([claim])[claim.execution.key]
    desk.clock.advance(LEASE_MS / 1000)
    desk.source.set_jobs(DONE)
    assert quick.poll("x-1").result is Result.ENDED

    assert slow.settle(claim, result).result is Result.CLOSED

    assert desk.record.status is desk.status is Status.SUCCEEDED
    assert types_of(desk.journal, "p-1/x-1").count("execution_ended") == 1


def test_two_pollers_report_one_change_once(desk: Desk) -> None:
    slow, quick = desk.poller("slow"), desk.poller("quick")
    claim = slow.claim("x-1")
    assert isinstance(claim, Claim)
    result = slow.poll_sources([claim])[claim.execution.key]
    desk.clock.advance(LEASE_MS / 1000)
    quick.poll("x-1")

    polled = slow.settle(claim, result)

    assert (polled.result, polled.appended) == (Result.BUSY, 0)
    assert len(types_of(desk.journal, "p-1/x-1")) == 3


def test_a_cancel_between_read_and_write_survives_and_is_reported(desk: Desk) -> None:
    poller = desk.poller()
    claim = poller.claim("x-1")
    assert isinstance(claim, Claim)
    desk.source.set_jobs(DONE)
    result = poller.poll_sources([claim])[claim.execution.key]
    desk.write(Status="CANCELLED", EndTime=desk.clock.now_ms() // 1000)

    polled = poller.settle(claim, result)

    assert polled.result is Result.ENDED
    assert (desk.record.status, desk.status) == (Status.CANCELLED, Status.CANCELLED)
    assert poller.poll("x-1").result is Result.CLOSED


def test_a_cancel_after_the_end_was_reported_is_a_correction(desk: Desk) -> None:
    desk.source.set_jobs(DONE)
    poller = desk.poller()
    claim = poller.claim("x-1")
    assert isinstance(claim, Claim)

    desk.journal.after_append = lambda: desk.write(Status="CANCELLED")
    poller.settle(claim, poller.poll_sources([claim])[claim.execution.key])

    assert (desk.record.status, desk.status) == (Status.CANCELLED, Status.CANCELLED)
    assert types_of(desk.journal, "p-1/x-1")[-2:] == ["execution_ended", "execution_corrected"]


def test_a_cancel_between_polls_is_reported_by_the_next_poll(desk: Desk) -> None:
    desk.poller().poll("x-1")
    desk.write(Status="CANCELLED")

    assert desk.poller().poll("x-1").result is Result.ENDED
    assert desk.poller().poll("x-1").result is Result.CLOSED
    assert desk.status is Status.CANCELLED


def test_a_later_outcome_is_reported_as_a_correction(desk: Desk) -> None:
    desk.source.set_jobs(finished(FAILED))
    desk.poller().poll("x-1")
    desk.clock.advance(60)
    desk.source.set_jobs(DONE)

    polled = desk.poller().review("x-1")

    assert polled.result is Result.CORRECTED
    assert (desk.record.status, desk.status) == (Status.SUCCEEDED, Status.SUCCEEDED)
    assert events_of(desk.journal, "p-1/x-1")[-1].payload["corrects"] == "failed"
    assert desk.poller().review("x-1").result is Result.CLOSED


def test_a_review_leaves_what_another_writer_decided(desk: Desk) -> None:
    desk.poller().poll("x-1")
    desk.write(Status="CANCELLED")
    desk.poller().poll("x-1")
    desk.source.set_jobs(DONE)

    assert desk.poller().review("x-1").result is Result.CLOSED
    assert desk.status is Status.CANCELLED


def test_a_review_without_a_response_changes_nothing(desk: Desk) -> None:
    desk.source.set_jobs(DONE)
    desk.poller().poll("x-1")
    desk.source.problem = SourceProblem("no connection")

    assert desk.poller().review("x-1").result is Result.NO_RESPONSE
    assert desk.record.status is Status.SUCCEEDED


def test_an_unreported_end_is_reported_before_the_cancel_that_corrects_it(desk: Desk) -> None:
    desk.source.set_jobs(DONE)
    desk.journal.refuse(lambda event: event.type == "execution_ended")
    with pytest.raises(InvalidEvent):
        desk.poller().poll("x-1")
    desk.journal.recover()
    desk.write(Status="CANCELLED", EndTime=desk.clock.now_ms() // 1000)

    polled = desk.poller("b").poll("x-1")

    assert polled.result is Result.ENDED
    assert types_of(desk.journal, "p-1/x-1")[-2:] == ["execution_ended", "execution_corrected"]
    assert desk.status is Status.CANCELLED
    assert desk.poller("b").poll("x-1").result is Result.CLOSED


def test_an_end_that_another_writer_repeats_is_still_reported() -> None:
    desk = Desk()
    desk.source.set_jobs(finished(CANCELLED))
    desk.journal.refuse(lambda event: event.type == "execution_ended")
    with pytest.raises(InvalidEvent):
        desk.poller().poll("x-1")
    desk.journal.recover()
    desk.write(Status="CANCELLED", EndTime=desk.clock.now_ms() // 1000)

    desk.poller("b").poll("x-1")

    assert types_of(desk.journal, "p-1/x-1").count("execution_ended") == 1
    assert desk.poller("b").poll("x-1").result is Result.CLOSED


def test_a_late_poller_that_was_not_replaced_renews_the_lease_and_reports(desk: Desk) -> None:
    slow = desk.poller("a")
    claim = slow.claim("x-1")
    assert isinstance(claim, Claim)
    result = slow.poll_sources([claim])[claim.execution.key]
    desk.clock.advance(10 * LEASE_MS / 1000)

    polled = slow.settle(claim, result)

    assert polled.result is Result.POLLED
    assert "server_transition" in types_of(desk.journal, "p-1/x-1")
    assert desk.record.lease_holder is None


def test_a_late_poller_that_was_replaced_reports_nothing(desk: Desk) -> None:
    slow, other = desk.poller("a"), desk.poller("b")
    claim = slow.claim("x-1")
    assert isinstance(claim, Claim)
    result = slow.poll_sources([claim])[claim.execution.key]
    desk.clock.advance(LEASE_MS / 1000)
    assert isinstance(other.claim("x-1"), Claim)

    polled = slow.settle(claim, result)

    assert polled.result is Result.BUSY
    assert types_of(desk.journal, "p-1/x-1") == []
    assert desk.record.lease_holder == "b"


def test_a_wave_that_the_orchestrator_adds_meanwhile_is_not_lost() -> None:
    desk = Desk(total_stages=2)
    poller = desk.poller()
    claim = poller.claim("x-1")
    assert isinstance(claim, Claim)
    result = poller.poll_sources([claim])[claim.execution.key]
    waves = (desk.record.stored or {})["Waves"]
    assert isinstance(waves, list)
    desk.write(Waves=[*waves, {"WaveName": "two", "JobId": "j-2"}])

    assert poller.settle(claim, result).result is Result.POLLED
    assert [wave.name for wave in desk.record.stages] == ["one", "two"]
    desk.clock.advance(LEASE_MS / 1000)
    desk.source.set_jobs(DONE, finished(LAUNCHED, job_id="j-2"))
    assert poller.poll("x-1").result is Result.ENDED
    assert replace(desk.record, stages=()).total_stages == 2

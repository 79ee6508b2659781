"""One poll: what is asked, written and told, and who wins when several write at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from longwatch.errors import ExecutionNotFound, InvalidEvent, Unreachable
from longwatch.events import Event
from longwatch.runs import Status
from longwatch.testing import FakeClock, FaultyJournal, MemoryJournal
from longwatch.watching.model import Execution, Job, JobState, Mode, Wave
from longwatch.watching.poller import LEASE_MS, Claim, Polled, Poller, Result
from longwatch.watching.sources.base import SourceProblem
from longwatch.watching.stores.memory import MemoryExecutionStore
from tests.unit.watching.making import (
    CANCELLED,
    FAILED,
    IN_PROGRESS,
    LAUNCHED,
    MINUTE,
    PENDING,
    execution,
    finished,
    job,
)
from tests.unit.watching.playing import PlayedSource, events_of, types_of

DONE = finished(LAUNCHED)


class Interrupted(FaultyJournal):
    """A journal that lets somebody in once the end of an execution is told."""

    after_append: Callable[[], None] | None = None

    def append(self, events: Sequence[Event]) -> None:
        super().append(events)
        if self.after_append is not None and events[-1].type == "execution_ended":
            self.after_append()


class Desk:
    """A store, a journal and a source with one execution of one job."""

    def __init__(self, **more: Any) -> None:
        self.clock = FakeClock()
        self.store = MemoryExecutionStore()
        self.journal = Interrupted(MemoryJournal(clock=self.clock))
        self.source = PlayedSource(self.clock, job(PENDING))
        self.polls: list[Polled] = []
        more.setdefault("started_at", self.clock.now_ms())
        self.store.add(execution(Wave("one", (Job("j-1"),)), **more))

    def poller(self, holder: str = "a", **more: Any) -> Poller:
        return Poller(
            self.store,
            self.journal,
            {"drs": self.source},
            clock=self.clock,
            holder=holder,
            report=self.polls.append,
            **more,
        )

    @property
    def record(self) -> Execution:
        found = self.store.get("x-1")
        assert found is not None
        return found

    def write(self, **attributes: object) -> None:
        """As another program does: it knows nothing of versions."""
        self.store.write({**(self.record.stored or {}), **attributes})

    @property
    def status(self) -> Status | None:
        run = self.journal.find_run("x-1")
        return run.status if run else None


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_the_first_poll_tells_the_start_and_what_is_there(desk: Desk) -> None:
    polled = desk.poller().poll("x-1")

    assert (polled.result, polled.told) == (Result.ASKED, 3)
    assert types_of(desk.journal, "x-1") == ["execution_started", "job_transition", "server_transition"]
    assert (desk.record.lease_holder, desk.record.last_polled_at) == (None, desk.clock.now_ms())


def test_a_poll_that_brings_nothing_new_tells_nothing(desk: Desk) -> None:
    desk.poller().poll("x-1")
    desk.clock.advance(45)

    polled = desk.poller().poll("x-1")

    assert (polled.result, polled.told) == (Result.ASKED, 0)


def test_the_end_is_told_once_and_closes_the_execution(desk: Desk) -> None:
    desk.source.say(DONE)

    polled = desk.poller().poll("x-1")

    assert (polled.result, desk.status) == (Result.ENDED, Status.SUCCEEDED)
    assert (desk.record.closed, desk.record.status) == (True, Status.SUCCEEDED)
    assert types_of(desk.journal, "x-1").count("execution_ended") == 1
    assert desk.poller().poll("x-1").result is Result.CLOSED
    assert len(desk.source.asked) == 1


def test_what_is_not_due_is_not_asked_about(desk: Desk) -> None:
    desk.poller().poll("x-1")
    desk.clock.advance(43)

    assert desk.poller().poll("x-1").result is Result.EARLY
    desk.clock.advance(1)  # the finder's clock may be a second ahead of ours
    assert desk.poller().poll("x-1").result is Result.ASKED


def test_an_unknown_execution_is_named(desk: Desk) -> None:
    with pytest.raises(ExecutionNotFound, match="'x-2' of plan 'p-9'"):
        desk.poller().poll("x-2", "p-9")


def test_while_somebody_polls_nobody_else_does(desk: Desk) -> None:
    assert isinstance(desk.poller("a").claim("x-1"), Claim)

    assert desk.poller("b").poll("x-1").result is Result.BUSY
    assert desk.source.asked == []


def test_the_work_of_a_poller_that_died_moves_on(desk: Desk) -> None:
    desk.poller("a").claim("x-1")
    desk.clock.advance(LEASE_MS / 1000)

    assert desk.poller("b").poll("x-1").result is Result.ASKED


def test_of_two_pollers_that_were_at_it_the_second_to_write_gives_way(desk: Desk) -> None:
    slow, quick = desk.poller("slow"), desk.poller("quick")
    claim = slow.claim("x-1")
    assert isinstance(claim, Claim)
    told = slow.ask([claim])["x-1"]
    desk.clock.advance(LEASE_MS / 1000)
    desk.source.say(DONE)
    assert quick.poll("x-1").result is Result.ENDED

    assert slow.settle(claim, told).result is Result.CLOSED

    assert desk.record.status is Status.SUCCEEDED
    assert types_of(desk.journal, "x-1").count("execution_ended") == 1


def test_two_pollers_tell_one_change_once(desk: Desk) -> None:
    slow, quick = desk.poller("slow"), desk.poller("quick")
    claim = slow.claim("x-1")
    assert isinstance(claim, Claim)
    told = slow.ask([claim])["x-1"]
    desk.clock.advance(LEASE_MS / 1000)
    quick.poll("x-1")

    polled = slow.settle(claim, told)

    assert (polled.result, polled.told) == (Result.BUSY, 0)
    assert len(types_of(desk.journal, "x-1")) == 3


def test_no_answer_keeps_it_open_and_is_remembered(desk: Desk) -> None:
    desk.source.problem = SourceProblem("throttled", 7.0, True)

    polled = desk.poller().poll("x-1")

    assert polled.result is Result.UNANSWERED
    assert polled.problem == desk.source.problem
    assert (desk.record.failures, desk.record.last_error) == (1, "throttled")
    assert desk.record.next_poll_at == desk.clock.now_ms() + 7_000
    assert desk.record.is_open
    assert types_of(desk.journal, "x-1") == []


def test_a_source_that_nobody_has_is_a_problem_and_no_end() -> None:
    desk = Desk(source="batch")

    polled = desk.poller().poll("x-1")

    assert polled.problem is not None
    assert polled.problem.message == "nobody here can ask 'batch'; known are: drs"


def test_past_its_deadline_the_source_is_asked_and_followed(desk: Desk) -> None:
    desk.clock.advance(30 * 60)
    desk.source.say(job(IN_PROGRESS))

    for _ in range(2):
        assert desk.poller().poll("x-1").result is Result.ASKED
        desk.clock.advance(45)
    desk.source.say(DONE)
    desk.poller().poll("x-1")

    assert types_of(desk.journal, "x-1").count("execution_asked") == 1
    assert desk.record.verdict is not None
    assert (desk.record.status, desk.record.verdict.late) == (Status.SUCCEEDED, True)


def test_past_its_deadline_a_source_that_does_not_answer_decides_nothing(desk: Desk) -> None:
    desk.clock.advance(60 * 60)
    desk.source.problem = SourceProblem("no connection")

    desk.poller().poll("x-1")

    assert desk.record.is_open
    assert types_of(desk.journal, "x-1") == []


def test_a_journal_that_does_not_answer_loses_no_change(desk: Desk) -> None:
    desk.journal.fail(times=1)
    with pytest.raises(Unreachable):
        desk.poller().poll("x-1")

    desk.clock.advance(LEASE_MS / 1000)
    desk.poller().poll("x-1")

    assert len(types_of(desk.journal, "x-1")) == 3


def test_a_journal_whose_answer_is_lost_tells_nothing_twice(desk: Desk) -> None:
    desk.journal.time_out(times=1)
    with pytest.raises(Unreachable):
        desk.poller().poll("x-1")

    desk.clock.advance(LEASE_MS / 1000)
    polled = desk.poller().poll("x-1")

    assert (polled.result, polled.told) == (Result.ASKED, 0)
    assert len(types_of(desk.journal, "x-1")) == 3


def test_a_verdict_that_was_not_told_is_told_by_the_next_poller_without_asking(desk: Desk) -> None:
    desk.source.say(DONE)
    desk.journal.refuse(lambda event: event.type == "execution_ended")
    with pytest.raises(InvalidEvent):
        desk.poller("a").poll("x-1")
    verdict = desk.record.verdict
    desk.journal.recover()
    desk.clock.advance(LEASE_MS / 1000)

    polled = desk.poller("b").poll("x-1")

    assert polled.result is Result.ENDED
    assert desk.record.verdict == verdict
    assert len(desk.source.asked) == 1
    assert desk.status is Status.SUCCEEDED


def test_a_cancel_between_read_and_write_survives_and_is_told(desk: Desk) -> None:
    poller = desk.poller()
    claim = poller.claim("x-1")
    assert isinstance(claim, Claim)
    desk.source.say(DONE)
    told = poller.ask([claim])["x-1"]
    desk.write(Status="CANCELLED", EndTime=desk.clock.now_ms() // 1000)

    polled = poller.settle(claim, told)

    assert polled.result is Result.ENDED
    assert (desk.record.status, desk.status) == (Status.CANCELLED, Status.CANCELLED)
    assert poller.poll("x-1").result is Result.CLOSED


def test_a_cancel_after_the_end_was_told_is_a_correction(desk: Desk) -> None:
    desk.source.say(DONE)
    poller = desk.poller()
    claim = poller.claim("x-1")
    assert isinstance(claim, Claim)

    desk.journal.after_append = lambda: desk.write(Status="CANCELLED")
    poller.settle(claim, poller.ask([claim])["x-1"])

    assert (desk.record.status, desk.status) == (Status.CANCELLED, Status.CANCELLED)
    assert types_of(desk.journal, "x-1")[-2:] == ["execution_ended", "execution_corrected"]


def test_a_cancel_between_polls_is_told_when_somebody_looks(desk: Desk) -> None:
    desk.poller().poll("x-1")
    desk.write(Status="CANCELLED")

    assert desk.poller().poll("x-1").result is Result.ENDED
    assert desk.poller().poll("x-1").result is Result.CLOSED
    assert desk.status is Status.CANCELLED


def test_later_truth_is_told_as_a_correction(desk: Desk) -> None:
    desk.source.say(finished(FAILED))
    desk.poller().poll("x-1")
    desk.clock.advance(60)
    desk.source.say(DONE)

    polled = desk.poller().review("x-1")

    assert polled.result is Result.CORRECTED
    assert (desk.record.status, desk.status) == (Status.SUCCEEDED, Status.SUCCEEDED)
    assert events_of(desk.journal, "x-1")[-1].payload["corrects"] == "failed"
    assert desk.poller().review("x-1").result is Result.CLOSED


def test_a_review_leaves_what_another_writer_decided(desk: Desk) -> None:
    desk.poller().poll("x-1")
    desk.write(Status="CANCELLED")
    desk.poller().poll("x-1")
    desk.source.say(DONE)

    assert desk.poller().review("x-1").result is Result.CLOSED
    assert desk.status is Status.CANCELLED


def test_a_review_without_an_answer_changes_nothing(desk: Desk) -> None:
    desk.source.say(DONE)
    desk.poller().poll("x-1")
    desk.source.problem = SourceProblem("no connection")

    assert desk.poller().review("x-1").result is Result.UNANSWERED
    assert desk.record.status is Status.SUCCEEDED


def test_a_recovery_waits_for_its_launch_actions() -> None:
    desk = Desk(mode=Mode.RECOVERY)
    desk.source.say(DONE)

    assert desk.poller().poll("x-1").result is Result.ASKED
    desk.clock.advance(2 * MINUTE / 1000)
    assert desk.poller().poll("x-1").result is Result.ENDED


def test_a_job_that_is_missing_keeps_it_open(desk: Desk) -> None:
    desk.source.say()

    polled = desk.poller().poll("x-1")

    assert polled.result is Result.ASKED
    assert desk.record.waves[0].jobs[0].state is JobState.MISSING


def test_an_end_that_nobody_told_is_told_before_the_cancel_that_corrects_it(desk: Desk) -> None:
    desk.source.say(DONE)
    desk.journal.refuse(lambda event: event.type == "execution_ended")
    with pytest.raises(InvalidEvent):
        desk.poller().poll("x-1")
    desk.journal.recover()
    desk.write(Status="CANCELLED", EndTime=desk.clock.now_ms() // 1000)

    polled = desk.poller("b").poll("x-1")

    assert polled.result is Result.ENDED
    assert types_of(desk.journal, "x-1")[-2:] == ["execution_ended", "execution_corrected"]
    assert desk.status is Status.CANCELLED
    assert desk.poller("b").poll("x-1").result is Result.CLOSED


def test_an_end_that_another_writer_repeats_is_told_all_the_same() -> None:
    desk = Desk()
    desk.source.say(finished(CANCELLED))
    desk.journal.refuse(lambda event: event.type == "execution_ended")
    with pytest.raises(InvalidEvent):
        desk.poller().poll("x-1")
    desk.journal.recover()
    desk.write(Status="CANCELLED", EndTime=desk.clock.now_ms() // 1000)

    desk.poller("b").poll("x-1")

    assert types_of(desk.journal, "x-1").count("execution_ended") == 1
    assert desk.poller("b").poll("x-1").result is Result.CLOSED


def test_who_comes_late_and_has_not_been_missed_renews_the_lease_and_tells(desk: Desk) -> None:
    slow = desk.poller("a")
    claim = slow.claim("x-1")
    assert isinstance(claim, Claim)
    told = slow.ask([claim])["x-1"]
    desk.clock.advance(10 * LEASE_MS / 1000)

    polled = slow.settle(claim, told)

    assert polled.result is Result.ASKED
    assert "server_transition" in types_of(desk.journal, "x-1")
    assert desk.record.lease_holder is None


def test_who_comes_late_and_was_replaced_tells_nothing(desk: Desk) -> None:
    slow, other = desk.poller("a"), desk.poller("b")
    claim = slow.claim("x-1")
    assert isinstance(claim, Claim)
    told = slow.ask([claim])["x-1"]
    desk.clock.advance(LEASE_MS / 1000)
    assert isinstance(other.claim("x-1"), Claim)

    polled = slow.settle(claim, told)

    assert polled.result is Result.BUSY
    assert types_of(desk.journal, "x-1") == []
    assert desk.record.lease_holder == "b"


def test_who_is_overtaken_by_a_newer_claim_leaves_its_answer(desk: Desk) -> None:
    slow, quick = desk.poller("a"), desk.poller("b")
    claim = slow.claim("x-1")
    assert isinstance(claim, Claim)
    told = slow.ask([claim])["x-1"]
    desk.clock.advance(LEASE_MS / 1000)
    desk.source.say(DONE)
    assert quick.poll("x-1").result is Result.ENDED

    polled = slow.settle(claim, told)

    assert polled.result is Result.CLOSED
    assert desk.status is Status.SUCCEEDED


def test_every_poll_is_reported(desk: Desk) -> None:
    desk.poller().poll("x-1")
    desk.poller().poll("x-1")

    assert [polled.result for polled in desk.polls] == [Result.ASKED, Result.EARLY]


def test_events_live_as_long_as_the_journal_says(desk: Desk) -> None:
    class Short(MemoryJournal):
        default_ttl_seconds = 3600

    desk.journal.journal = Short(clock=desk.clock)
    desk.poller().poll("x-1")

    assert {event.ttl for event in events_of(desk.journal, "x-1")} == {desk.clock.now_ms() // 1000 + 3600}


def test_a_wave_that_the_orchestrator_adds_meanwhile_is_not_lost() -> None:
    desk = Desk(total_waves=2)
    poller = desk.poller()
    claim = poller.claim("x-1")
    assert isinstance(claim, Claim)
    told = poller.ask([claim])["x-1"]
    waves = (desk.record.stored or {})["Waves"]
    assert isinstance(waves, list)
    desk.write(Waves=[*waves, {"WaveName": "two", "JobId": "j-2"}])

    assert poller.settle(claim, told).result is Result.ASKED
    assert [wave.name for wave in desk.record.waves] == ["one", "two"]
    desk.clock.advance(LEASE_MS / 1000)
    desk.source.say(DONE, finished(LAUNCHED, job_id="j-2"))
    assert poller.poll("x-1").result is Result.ENDED
    assert replace(desk.record, waves=()).total_waves == 2

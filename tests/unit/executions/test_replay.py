"""What a poller reported before it died is in the record of the next poller."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longwatch.executions.model import Execution, Job, JobState, Mode, Stage, StepState, WorkItem
from longwatch.executions.poller import LEASE_MS, Claim, Poller, Result
from longwatch.executions.responses import apply_response
from longwatch.executions.sources.base import SourceProblem
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.executions.transitions import append_new, replay_events, transition_events, unapplied_events
from longwatch.model.run import Status
from longwatch.testing import FakeClock, MemoryJournal
from tests.unit.executions.samples import (
    FAILED,
    IN_PROGRESS,
    LAUNCHED,
    PENDING,
    START,
    action,
    execution,
    finished,
    job,
    response,
)
from tests.unit.executions.scripted_source import ScriptedSource, events_of

FRESH = execution(Stage("one", (Job("j-1"),)))
AT = START + 60_000


def journaled(*steps: Job, base: Execution = FRESH) -> tuple[MemoryJournal, Execution]:
    """A journal with these responses, a minute apart, and the execution after them."""
    journal = MemoryJournal()
    for number, step in enumerate(steps, 1):
        at = START + number * 60_000
        after = apply_response(base, response(at, step))
        append_new(journal, list(transition_events(base, after, at)))
        base = after
    return journal, base


@pytest.mark.parametrize(
    "steps",
    [
        (job(PENDING),),
        (job(PENDING, PENDING), job(IN_PROGRESS, LAUNCHED)),
        (job(IN_PROGRESS), finished(FAILED)),
        (
            Job(
                "j-1",
                JobState.FINISHED,
                (WorkItem("s-1", LAUNCHED, "i-1", source_status="LAUNCHED"),),
                source_status="COMPLETED",
            ),
        ),
        (Job("j-1", JobState.FINISHED, (WorkItem("s-1", PENDING),), cancelled=True),),
        (
            Job(
                "j-1",
                JobState.STARTED,
                (WorkItem("s-1", LAUNCHED, steps=(action(StepState.IN_PROGRESS),)),),
            ),
            Job(
                "j-1",
                JobState.STARTED,
                (WorkItem("s-1", LAUNCHED, steps=(action(StepState.FAILED, reason="no agent"),)),),
            ),
        ),
    ],
)
def test_the_record_is_the_fold_of_its_events(steps: tuple[Job, ...]) -> None:
    journal, became = journaled(*steps)

    again = replay_events(FRESH, unapplied_events(FRESH, journal))

    assert replace(again.stages[0].jobs[0], items=()) == replace(became.stages[0].jobs[0], items=())
    assert set(again.stages[0].items()) == set(became.stages[0].items())


def test_only_events_that_the_record_lacks_are_applied() -> None:
    journal, became = journaled(job(PENDING), job(IN_PROGRESS))

    assert unapplied_events(became, journal) == []
    assert {event.occurred_at for event in unapplied_events(replace(FRESH, last_answer_at=AT), journal)} == {
        AT + 60_000
    }


def test_a_job_that_no_longer_exists_is_left_out() -> None:
    journal, _ = journaled(job(PENDING))
    other = execution(Stage("one", (Job("j-2"),)))

    assert replay_events(other, unapplied_events(other, journal)).stages == other.stages


class PollerHarness:
    """A store with one execution, and a journal in which a poller reported it and died."""

    def __init__(self, mode: Mode = Mode.DRILL) -> None:
        self.clock, self.store, self.journal = FakeClock(), MemoryExecutionStore(), MemoryJournal()
        self.source = ScriptedSource(self.clock, finished(LAUNCHED))
        self.store.add(execution(Stage("one", (Job("j-1"),)), started_at=self.clock.now_ms(), mode=mode))

    def poller(self, holder: str) -> Poller:
        return Poller(self.store, self.journal, {"drs": self.source}, clock=self.clock, holder=holder)

    def die_after_reporting(self) -> None:
        claim = self.poller("dead").claim("x-1")
        assert isinstance(claim, Claim)
        at = self.clock.now_ms()
        after = apply_response(claim.execution, response(at, *self.source.jobs.values()))
        append_new(self.journal, list(transition_events(claim.execution, after, at)))
        self.clock.advance(LEASE_MS / 1000)

    @property
    def record(self) -> Execution:
        found = self.store.get("x-1")
        assert found is not None
        return found


def test_a_job_that_is_forgotten_after_it_was_reported_still_ends() -> None:
    harness = PollerHarness()
    harness.die_after_reporting()
    harness.source.set_jobs()

    polled = harness.poller("next").poll("x-1")

    assert (polled.result, polled.execution.status) == (Result.ENDED, Status.SUCCEEDED)


def test_reported_events_are_applied_although_the_source_does_not_respond() -> None:
    harness = PollerHarness()
    harness.die_after_reporting()
    harness.source.problem = SourceProblem("throttled")

    harness.poller("next").poll("x-1")

    assert harness.record.stages[0].jobs[0].items[0].state is LAUNCHED


def test_a_response_older_than_the_reported_events_concludes_nothing() -> None:
    harness = PollerHarness()
    harness.die_after_reporting()
    late = harness.poller("late")
    claim = late.claim("x-1")
    assert isinstance(claim, Claim)
    older = response(harness.clock.now_ms() - LEASE_MS - 1, job(PENDING))

    polled = late.settle(claim, older)

    assert polled.result is Result.POLLED
    assert harness.record.stages[0].jobs[0].items[0].state is LAUNCHED
    states = [
        event.payload["to"]
        for event in events_of(harness.journal, "p-1/x-1")
        if event.type == "server_transition"
    ]
    assert states == ["pending", "launched"]

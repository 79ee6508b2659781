"""Pollers that learn from past executions, and what the history shows about one that is open."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from longwatch.executions.cadence.cadence import LearnedCadence
from longwatch.executions.cadence.history import DurationHistory, ExecutionKind, read_history
from longwatch.executions.cadence.learned import FEWEST
from longwatch.executions.due import is_due, next_poll_at
from longwatch.executions.explain import conditions, explain_execution
from longwatch.executions.model import Execution, ItemState, Job, JobState, Stage, WorkItem
from longwatch.executions.poller import OnPoll, Poller, PollReport, Result
from longwatch.executions.sources.base import SourceProblem
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.executions.views import ExecutionLine, ExecutionView
from longwatch.executions.watcher import Watcher
from longwatch.testing import FakeClock, MemoryJournal
from tests.unit.executions.cadence.samples import drills
from tests.unit.executions.samples import (
    IN_PROGRESS,
    LAUNCHED,
    MINUTE,
    PENDING,
    START,
    drill,
    execution,
    finished,
    job,
)
from tests.unit.executions.scripted_source import ScriptedSource

DRILLS = ExecutionKind("drs", "DRILL", "p-1")


def cadence(count: int = 100) -> LearnedCadence:
    history = DurationHistory()
    for each in drills(count):
        history.add(replace(each, kind=DRILLS))
    return LearnedCadence(history)


class World:
    """One open drill that a learning poller polls."""

    def __init__(self, taught: LearnedCadence, **more: Any) -> None:
        self.clock, self.journal, self.store = FakeClock(), MemoryJournal(), MemoryExecutionStore()
        self.source = ScriptedSource(self.clock, job(PENDING))
        self.taught = taught
        self.poller = self.learning()
        self.start = self.clock.now_ms()
        self.store.add(execution(Stage("one", (Job("j-1"),)), started_at=self.start, **more))

    def learning(self, report: OnPoll | None = None) -> Poller:
        sources = {"drs": self.source}
        return Poller(self.store, self.journal, sources, clock=self.clock, cadence=self.taught, report=report)

    @property
    def record(self) -> Execution:
        found = self.store.get("x-1")
        assert found is not None
        return found


def test_the_next_poll_that_the_history_suggests_is_stored_in_the_record() -> None:
    world = World(cadence())

    world.poller.poll("x-1")

    assert next_poll_at(world.record) == world.start + 90_000
    assert not is_due(world.record, world.start + 89_999)
    assert {fact.about: fact.text for fact in explain_execution(world.record, world.start)}["phase"] == (
        "pending, polled after 90 s instead of 45 s"
    )


def test_where_nothing_was_learned_the_plain_phases_hold() -> None:
    world = World(cadence(FEWEST - 1))

    world.poller.poll("x-1")

    assert world.record.next_poll_at is None
    assert next_poll_at(world.record) == world.start + 45_000


def test_a_deadline_comes_before_the_learned_time() -> None:
    world = World(cadence(), deadline_ms=50_000)

    world.poller.poll("x-1")

    assert next_poll_at(world.record) == world.start + 50_000


def test_a_missing_response_is_retried_as_usual() -> None:
    world = World(cadence())
    world.source.problem = SourceProblem("throttled", 7.0, True)

    world.poller.poll("x-1")

    assert next_poll_at(world.record) == world.start + 7_000


def test_an_execution_that_ends_is_learned_from_once() -> None:
    past = DurationHistory()
    world = World(LearnedCadence(past))
    world.poller.poll("x-1")
    world.clock.advance(600)
    world.source.set_jobs(finished(LAUNCHED))

    ended = world.poller.poll("x-1")
    world.clock.advance(600)
    again = world.poller.poll("x-1")

    assert (ended.result, again.result) == (Result.ENDED, Result.CLOSED)
    assert [each.whole for each in past.samples(DRILLS)] == [600.0]
    assert [each.whole for each in read_history(world.journal).samples(DRILLS)] == [600.0]


def test_a_watcher_polls_again_as_soon_as_the_history_suggests() -> None:
    world, polls, enough = World(cadence()), [], threading.Event()
    world.poller.poll("x-1")
    world.clock.advance(808)
    world.source.set_jobs(job(IN_PROGRESS))
    world.poller.poll("x-1")
    world.clock.advance(70)

    def note(polled: PollReport) -> None:
        polls.append(world.clock.now_ms())
        if len(polls) == 4:
            enough.set()

    Watcher(world.store, world.learning(report=note), clock=world.clock).run(stop=enough)

    gaps = [later - earlier for earlier, later in pairwise(polls)]
    assert max(gaps) < 10_000  # the plain phases poll every 15 s
    assert min(gaps) >= 2_500


def waiting(minutes: float, *states: ItemState, began: float = 0.0) -> Execution:
    """A drill that has been under way for so many minutes, and in its phase since `began`."""
    now = START + round(minutes * MINUTE)
    seen = tuple(
        WorkItem(f"s-{n}", state, since=START + round(began * MINUTE)) for n, state in enumerate(states)
    )
    return execution(
        Stage("one", (Job("j-1", JobState.STARTED, seen, since=START),)),
        last_polled_at=now,
        last_change_at=now,
        last_answer_at=now,
        deadline_ms=None,
    )


@pytest.mark.parametrize(
    ("open_", "minutes", "slow"),
    [
        (waiting(24, LAUNCHED, IN_PROGRESS, began=20), 24, None),
        (waiting(26, LAUNCHED, IN_PROGRESS, began=24), 26, "usually 15–25 min, now 26, 2–5 min to go"),
        (waiting(40, LAUNCHED, IN_PROGRESS, began=24), 40, "usually 15–25 min, now 40, longer than any of"),
        (waiting(18, IN_PROGRESS, began=17), 18, None),
        (waiting(18, IN_PROGRESS, began=13), 18, "started usually takes 30–90 s, now 300"),
    ],
)
def test_it_is_slow_beyond_the_usual_range_or_far_too_long_in_a_phase(
    open_: Execution, minutes: int, slow: str | None
) -> None:
    now = START + minutes * MINUTE

    found = {each.name: each.message for each in conditions(open_, now, cadence())}

    assert found.get("slow", "").startswith(slow or "")
    assert list(found) == (["slow"] if slow else [])
    assert conditions(open_, now) == []
    assert conditions(open_, now, cadence(9)) == []


def test_history_decides_when_an_execution_of_its_shape_is_silent() -> None:
    quiet = replace(waiting(0, PENDING), last_polled_at=START + 29 * MINUTE)
    now = START + 29 * MINUTE

    silent = [each for each in conditions(quiet, now, cadence()) if each.name == "silent"]

    assert [each.message for each in silent] == ["nothing new for 29 min"]  # nine of ten begin within 19
    assert conditions(quiet, now) == []  # without history 30 minutes in pending are normal


def test_a_view_has_the_eta_with_its_range() -> None:
    view = ExecutionView.of(waiting(7, PENDING), now_ms=START + 7 * MINUTE, cadence=cadence())

    eta = view.eta
    assert eta is not None
    assert eta.text == "usually 15–25 min, now 7, 9–18 min to go"
    assert START + 7 * MINUTE < (eta.earliest_at or 0) < (eta.expected_at or 0) < (eta.latest_at or 0)
    assert eta.usual_low_ms < eta.usual_middle_ms < eta.usual_high_ms <= eta.longest_ms
    assert (eta.elapsed_ms, eta.beyond_usual, eta.samples) == (7 * MINUTE, False, 100)


def test_without_a_history_or_after_the_end_there_is_no_eta() -> None:
    ended = drill(LAUNCHED, closed=True)

    assert ExecutionLine.of(waiting(7, PENDING), now_ms=START, cadence=cadence(9)).eta is None
    assert ExecutionLine.of(waiting(7, PENDING), now_ms=START).eta is None
    assert ExecutionLine.of(ended, now_ms=START, cadence=cadence()).eta is None


def test_an_explanation_has_the_expected_end() -> None:
    facts = {
        fact.about: fact for fact in explain_execution(waiting(7, PENDING), START + 7 * MINUTE, cadence())
    }

    assert facts["expected"].text == "usually 15–25 min, now 7, 9–18 min to go (100 before it)"
    assert facts["expected"].at is not None

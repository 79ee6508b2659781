"""The finder hands out what is due, and only while something is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from longwatch.executions.finder import Finder, Survey, Tick, next_tick_at, survey
from longwatch.executions.model import Execution, ItemState, Mode
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.model.summary import Status
from longwatch.testing import FakeClock
from tests.unit.executions.samples import IN_PROGRESS, MINUTE, PENDING, SECOND, START, drill

NOW = START + 10 * MINUTE


def named(name: str, state: ItemState = PENDING, **more: Any) -> Execution:
    return replace(drill(state, **more), execution_id=name)


def test_open_executions_are_sorted_by_what_is_to_be_done() -> None:
    found = survey(
        [
            named("late", last_polled_at=NOW - 45 * SECOND),
            named("later", last_polled_at=NOW - 90 * SECOND),
            named("waits", IN_PROGRESS, last_polled_at=NOW - 5 * SECOND, mode=Mode.RECOVERY),
            named("leased", lease_holder="a", lease_until=NOW + 20 * SECOND),
            named("closed", closed=True),
        ],
        NOW,
    )

    assert [each.execution_id for each in found.due] == ["later", "late"]
    assert (found.open, found.leased, found.waiting) == (4, 1, 1)
    assert found.modes == {Mode.DRILL: 3, Mode.RECOVERY: 1}
    assert found.oldest_ms == 10 * MINUTE
    assert found.next_at == NOW + 10 * SECOND


def test_an_execution_whose_poll_is_three_minutes_overdue_is_unwatched() -> None:
    found = survey(
        [
            named("in time", last_polled_at=NOW - (45 + 180) * SECOND),
            named("past it", last_polled_at=NOW - (45 + 180) * SECOND - 1),
            # Its poller takes the lease and dies, again and again.
            named("leased", last_polled_at=START, lease_holder="a", lease_until=NOW + 20 * SECOND),
            named("paused", last_polled_at=START, next_poll_at=NOW + SECOND),
        ],
        NOW,
    )

    assert found.unwatched == 2


def test_nothing_open_is_an_empty_survey() -> None:
    assert survey([], NOW) == Survey()


def test_the_next_poll_is_when_something_becomes_due() -> None:
    waiting = Survey(waiting=1, next_at=NOW + 7 * SECOND)
    handed = Survey(due=(named("x"),))

    assert next_tick_at(Tick(survey=Survey()), NOW) is None
    assert next_tick_at(Tick(survey=waiting), NOW) == NOW + 7 * SECOND
    assert next_tick_at(Tick(survey=handed), NOW) == NOW + 15 * SECOND
    assert next_tick_at(Tick(survey=replace(waiting, next_at=NOW + 99 * SECOND)), NOW) == NOW + 15 * SECOND


class Counter:
    """Dispatches nothing, but records it; fails for the chosen ids."""

    def __init__(self, clock: FakeClock, store: MemoryExecutionStore, *failing: str) -> None:
        self.handed: list[tuple[int, str]] = []
        self._clock, self._store, self._failing = clock, store, failing

    def __call__(self, execution: Execution) -> None:
        if execution.execution_id in self._failing:
            raise RuntimeError("no capacity")
        now = self._clock.now_ms()
        self.handed.append(((now - START) // SECOND, execution.execution_id))
        if not execution.closed:
            self._store.update(replace(execution, last_polled_at=now))


def harness(*executions: Execution) -> tuple[FakeClock, MemoryExecutionStore]:
    store = MemoryExecutionStore()
    for each in executions:
        store.add(each)
    return FakeClock(START), store


def test_an_idle_run_polls_once_and_ends() -> None:
    clock, store = harness()

    ticks = Finder(store, Counter(clock, store), clock=clock).run()

    assert len(ticks) == 1
    assert clock.slept == []


def test_fifteen_seconds_are_fifteen_seconds_within_the_minute() -> None:
    clock, store = harness(named("x", IN_PROGRESS))
    handed = Counter(clock, store)

    Finder(store, handed, clock=clock).run()

    assert handed.handed == [(0, "x"), (15, "x"), (30, "x"), (45, "x")]


def test_slow_executions_are_dispatched_every_forty_five_seconds() -> None:
    clock, store = harness(named("x", PENDING))
    handed = Counter(clock, store)

    for _ in range(3):
        begun = clock.now_ms()
        Finder(store, handed, clock=clock).run()
        clock.advance((begun + MINUTE - clock.now_ms()) / 1000)  # the schedule's floor

    assert handed.handed == [(0, "x"), (45, "x"), (90, "x"), (135, "x")]


def test_an_execution_that_can_not_be_dispatched_stops_none_of_the_others() -> None:
    clock, store = harness(named("a"), named("b"), named("c"))
    reported: list[Tick] = []
    handed = Counter(clock, store, "b")

    tick = Finder(store, handed, clock=clock, report=reported.append).tick()

    assert [name for _, name in handed.handed] == ["a", "c"]
    assert (tick.dispatched, tick.failed) == (2, 1)
    assert reported == [tick]


def test_an_execution_that_another_writer_cancelled_is_dispatched_to_be_reported() -> None:
    clock, store = harness(named("watched"))
    record = store.get("watched")
    assert record is not None
    store.write({**(record.stored or {}), "Status": "CANCELLED"})
    theirs = {"ExecutionId": "foreign", "PlanId": "p-1", "StartTime": START // 1000, "Status": "CANCELLED"}
    store.write(theirs)
    handed = Counter(clock, store)

    Finder(store, handed, clock=clock).run()

    assert handed.handed == [(0, "watched")]
    assert [each.status for each in store.find(status=Status.CANCELLED)] == [Status.CANCELLED] * 2


def test_pollers_that_learn_may_need_a_dispatched_execution_sooner() -> None:
    store, clock = MemoryExecutionStore(), FakeClock()
    store.add(named("x-1", started_at=clock.now_ms()))

    plain = Finder(store, lambda execution: None, clock=clock).run(seconds=10)
    dense = Finder(store, lambda execution: None, clock=clock, shortest_seconds=2.5).run(seconds=10)

    assert (len(plain), len(dense)) == (1, 5)

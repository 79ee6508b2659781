"""The embedded watcher: what a round polls, what it leaves for the next one, and how long it rests."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterator
from dataclasses import replace

import pytest

from longwatch.errors import Unreachable
from longwatch.executions.compose import WatchingParts
from longwatch.executions.model import Execution, Job, Stage
from longwatch.executions.poller import Result
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.executions.watcher import MAX_SLEEP_SECONDS, MOST_AT_ONCE, Watcher
from longwatch.testing import FakeClock, FaultyJournal, MemoryJournal
from tests.unit.executions.samples import LAUNCHED, PENDING, execution, finished, job
from tests.unit.executions.scripted_source import ScriptedSource, types_of, watching


class Moody(MemoryExecutionStore):
    """A store that stops responding on demand."""

    away: frozenset[str] = frozenset()  # which of its calls fail

    def get(self, execution_id: str, plan_id: str | None = None) -> Execution | None:
        if "get" in self.away:
            raise Unreachable("the store does not answer")
        return super().get(execution_id, plan_id)

    def open_executions(self) -> Iterator[Execution]:
        if "query" in self.away:
            raise Unreachable("the store does not answer")
        return super().open_executions()


class Harness:
    """A store with executions, and a watcher of it."""

    def __init__(self, *names: str) -> None:
        self.clock, self.store = FakeClock(), Moody()
        self.journal = FaultyJournal(MemoryJournal(clock=self.clock))
        self.source = ScriptedSource(self.clock, *(job(PENDING, job_id=f"j-{name}") for name in names))
        for name in names:
            self.add(name)
        self.watcher = self.another()

    def add(self, name: str) -> None:
        fresh = execution(Stage("one", (Job(f"j-{name}"),)), started_at=self.clock.now_ms())
        self.store.add(replace(fresh, execution_id=name))

    def another(self) -> Watcher:
        return self.parts().watcher()

    def parts(self) -> WatchingParts:
        return watching(self.store, self.journal, self.source, self.clock)

    def cancel(self, name: str) -> None:
        found = self.store.get(name)
        assert found is not None
        now = self.clock.now_ms() // 1000
        self.store.write({**(found.stored or {}), "Status": "CANCELLED", "EndTime": now})


def test_all_due_executions_are_polled_in_one_request() -> None:
    harness = Harness("a", "b", "c")

    round_ = harness.watcher.poll_due()

    assert [polled.result for polled in round_.polled] == [Result.POLLED] * 3
    assert harness.source.requests == [["a", "b", "c"]]


def test_more_executions_than_can_be_settled_in_time_are_polled_in_batches() -> None:
    names = [f"{number:03}" for number in range(MOST_AT_ONCE + 1)]
    harness = Harness(*names)

    round_ = harness.watcher.poll_due()

    assert [len(request) for request in harness.source.requests] == [MOST_AT_ONCE, 1]
    assert len(round_.polled) == MOST_AT_ONCE + 1


def test_the_watcher_ends_when_nothing_is_open_any_more() -> None:
    harness = Harness("a")
    harness.source.set_jobs(finished(LAUNCHED, job_id="j-a"))

    harness.watcher.run(until_idle=True)

    assert types_of(harness.journal, "p-1/a")[-1] == "execution_ended"


def test_a_store_that_does_not_respond_is_polled_again_after_a_pause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness, stop = Harness("a"), threading.Event()
    harness.store.away = frozenset({"query"})
    sleep = harness.clock.sleep

    def come_back(seconds: float) -> None:
        sleep(seconds)
        harness.store.away = frozenset()
        if harness.source.requests:
            stop.set()

    harness.clock.sleep = come_back  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING):
        harness.watcher.run(stop=stop)

    assert "executions cannot be read" in caplog.text
    assert harness.source.requests == [["a"]]


def test_an_execution_that_can_not_be_claimed_or_settled_is_retried(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness("a")
    harness.store.away = frozenset({"get"})
    unclaimed = harness.watcher.poll_due()
    harness.store.away = frozenset()
    harness.journal.fail(times=1)
    unsettled = harness.watcher.poll_due()
    harness.clock.advance(90)

    again = harness.watcher.poll_due()

    assert (unclaimed.failed, unsettled.failed, again.failed) == (1, 1, 0)
    assert [polled.result for polled in again.polled] == [Result.POLLED]
    assert "could not be claimed" in caplog.text
    assert "could not be settled" in caplog.text


def test_a_cancel_between_two_polls_is_reported_at_the_next() -> None:
    harness = Harness("a")
    harness.watcher.poll_due()
    harness.cancel("a")

    round_ = harness.watcher.poll_due()

    assert [polled.result for polled in round_.polled] == [Result.ENDED]
    assert types_of(harness.journal, "p-1/a")[-1] == "execution_ended"


def test_a_cancel_without_a_watcher_is_reported_by_the_next_watcher() -> None:
    harness = Harness("a")
    harness.watcher.poll_due()
    harness.cancel("a")

    round_ = harness.another().poll_due()

    assert [polled.result for polled in round_.polled] == [Result.ENDED]
    assert harness.another().poll_due().polled == ()


def test_with_nothing_to_do_it_rests_for_a_while() -> None:
    harness, stop = Harness(), threading.Event()
    sleep = harness.clock.sleep

    def once(seconds: float) -> None:
        sleep(seconds)
        if sum(harness.clock.slept) >= MAX_SLEEP_SECONDS:
            stop.set()

    harness.clock.sleep = once  # type: ignore[method-assign]
    harness.watcher.run(stop=stop)

    assert sum(harness.clock.slept) == MAX_SLEEP_SECONDS


def test_a_view_is_notified_of_time_while_the_watcher_rests() -> None:
    harness, ticks, stop = Harness("a"), [], threading.Event()

    def on_tick(found: Collection[Execution]) -> None:
        assert [each.execution_id for each in found] == ["a"]
        ticks.append(harness.clock.now_ms())
        if len(ticks) == 3:
            stop.set()

    harness.parts().watcher(on_tick=on_tick).run(stop=stop)

    assert [later - ticks[0] for later in ticks] == [0, 500, 1000]


def test_an_end_that_another_poller_found_is_reported_once() -> None:
    harness = Harness("a")
    harness.watcher.poll_due()
    harness.source.set_jobs(finished(LAUNCHED, job_id="j-a"))
    harness.clock.advance(60)
    other = harness.another()
    ended = other.poll_due().polled

    results = [
        [polled.result for polled in watcher.poll_due().polled] for watcher in (harness.watcher, other) * 2
    ]

    assert [polled.result for polled in ended] == [Result.ENDED]
    assert results == [[Result.CLOSED], [], [], []]

"""Executions from start to end, in virtual time: the real client, the wire, the store and the journal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from longwatch.executions.explain import conditions
from longwatch.executions.model import Execution, Job, Mode, Stage
from longwatch.executions.poller import Result
from longwatch.executions.sources.drs import DrsSource
from longwatch.executions.stores.sqlite import SqliteExecutionStore
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.run import Status
from longwatch.testing import FakeClock
from longwatch.testing.drs import ActionScript, DrsSimulator, JobScript, ServerScript, drill, recovery
from tests.unit.executions.scripted_source import events_of, watching

MINUTE = 60


class Harness:
    """A store, a journal in the same file, and a watcher, beside a simulated DRS."""

    def __init__(self, path: Path, source: DrsSource, clock: FakeClock) -> None:
        self.clock, self.source = clock, source
        self.store = SqliteExecutionStore(path, clock=clock)
        self.journal = SqliteJournal(path, clock=clock)
        parts = watching(self.store, self.journal, source, clock)
        self.poller, self.watcher = parts.poller, parts.watcher()

    def add(
        self, *jobs: str, mode: Mode = Mode.DRILL, total: int | None = None, name: str = "x-1"
    ) -> Execution:
        """A wave for each job."""
        waves = tuple(Stage(f"wave {n}", (Job(job, region="eu-west-1"),)) for n, job in enumerate(jobs, 1))
        now = self.clock.now_ms()
        return self.store.add(
            Execution(
                execution_id=name,
                plan_id="p-1",
                mode=mode,
                started_at=now,
                stages=waves,
                total_stages=total or len(waves),
            )
        )

    def pass_time(self, seconds: float) -> None:
        """Watch for so long."""
        end = self.clock.now_ms() + round(seconds * 1000)
        while self.clock.now_ms() < end:
            self.watcher.poll_due()
            self.clock.advance(1)

    def get(self, name: str = "x-1") -> Execution:
        found = self.store.get(name)
        assert found is not None
        return found

    def moves(self, name: str = "x-1") -> list[tuple[object, object]]:
        return [
            (event.payload["server_id"], event.payload["to"])
            for event in events_of(self.journal, self.get(name).run_id)
            if event.type == "server_transition"
        ]

    def status(self, name: str = "x-1") -> Status:
        run = self.journal.find_run(self.get(name).run_id)
        assert run is not None
        return run.status

    def close(self) -> None:
        self.journal.close()
        self.store.close()


@pytest.fixture
def harness(tmp_path: Path, source: DrsSource, clock: FakeClock) -> Iterator[Harness]:
    harness = Harness(tmp_path / "watching.db", source, clock)
    yield harness
    harness.close()


def test_a_drill_of_three_waves_is_watched_to_its_end(harness: Harness, drs: DrsSimulator) -> None:
    harness.add(*(drs.play(drill(f"s-{n}", f"s-{n}9", pending=60, active=60, spread=5)) for n in (1, 2, 3)))

    harness.pass_time(2 * MINUTE)
    assert harness.get().is_open
    harness.pass_time(MINUTE)

    assert (harness.get().status, harness.status()) == (Status.SUCCEEDED, Status.SUCCEEDED)
    assert [state for _, state in harness.moves()].count("launched") == 6
    verdict = harness.get().verdict
    assert verdict is not None
    assert (verdict.evidence[0].call, verdict.late, verdict.warnings) == ("drs:DescribeJobs", False, ())


def test_a_drill_as_it_was_observed_takes_few_calls(harness: Harness, drs: DrsSimulator) -> None:
    harness.add(drs.play(drill("s-1", "s-2", spread=30)))

    harness.pass_time(22 * MINUTE)

    assert harness.status() is Status.SUCCEEDED
    # 808 s at 45 s, 376 s at 15 s, then 30 s at 30 s: 18 + 26 + 2
    assert 40 <= drs.calls["DescribeJobs"] <= 50


def test_a_recovery_ends_with_its_launch_actions(harness: Harness, drs: DrsSimulator) -> None:
    job = drs.play(recovery("s-1", pending=30, active=30, actions={"install": 60, "check": 60}))
    harness.add(job, mode=Mode.RECOVERY)

    harness.pass_time(150)
    assert harness.get().is_open
    harness.pass_time(60)

    assert harness.status() is Status.SUCCEEDED


def test_a_launch_action_that_fails_is_a_warning(harness: Harness, drs: DrsSimulator) -> None:
    action = ActionScript(name="install", begins=10, ends=20, status="FAILED", reason="no agent")
    server = ServerScript(server_id="s-1", steps=[(0, "PENDING"), (10, "LAUNCHED")], actions=[action])
    harness.add(
        drs.play(JobScript(servers=[server], steps=[(0, "STARTED"), (15, "COMPLETED")])), mode=Mode.RECOVERY
    )

    harness.pass_time(2 * MINUTE)

    verdict = harness.get().verdict
    assert verdict is not None
    assert verdict.status is Status.SUCCEEDED
    assert verdict.warnings == ("s-00000000000000001: launch action install failed: no agent",)


PLAIN = drill("s-1", "s-2", pending=10, active=10)


@pytest.mark.parametrize(
    ("script", "status"),
    [
        (PLAIN.without("s-2", after=15), Status.PARTIAL),
        (PLAIN.without("s-2", after=15).without("s-1", after=12), Status.FAILED),
        (PLAIN.without("s-2", after=12, word="PENDING"), Status.PARTIAL),  # pending after its job
        (PLAIN.without("s-2", after=15, word="TERMINATED"), Status.SUCCEEDED),
        (JobScript(servers=[], steps=[(0, "COMPLETED")]), Status.FAILED),  # lists no server
    ],
)
def test_unusual_endings_have_the_right_verdict(
    harness: Harness, drs: DrsSimulator, script: JobScript, status: Status
) -> None:
    harness.add(drs.play(script))

    harness.pass_time(5 * MINUTE)

    assert (harness.get().status, harness.status()) == (status, status)


def test_a_job_that_vanishes_before_its_end_leaves_the_execution_open(
    harness: Harness, drs: DrsSimulator, clock: FakeClock
) -> None:
    job = drs.play(drill("s-1", pending=10, active=100))
    harness.add(job)
    harness.pass_time(MINUTE)
    drs.forget(job)

    harness.pass_time(MINUTE)

    assert harness.get().is_open
    assert [each.name for each in conditions(harness.get(), clock.now_ms())] == ["missing"]


def test_a_throttled_service_fails_nothing_and_is_left_alone_as_long_as_it_requests(
    harness: Harness, drs: DrsSimulator
) -> None:
    harness.add(drs.play(drill("s-1", pending=10, active=10)))
    drs.throttle(3, retry_after=40)

    harness.pass_time(115)
    assert drs.calls["DescribeJobs"] == 3
    harness.pass_time(2 * MINUTE)

    assert harness.status() is Status.SUCCEEDED


def test_lost_responses_and_errors_delay_the_end_and_change_nothing(
    harness: Harness, drs: DrsSimulator
) -> None:
    harness.add(drs.play(drill("s-1", pending=60, active=60)))
    harness.pass_time(50)
    drs.lose_answers(2)
    drs.fail("InternalServerException", 2)
    drs.fail("UninitializedAccountException", 1)

    harness.pass_time(10 * MINUTE)

    assert harness.status() is Status.SUCCEEDED


def test_an_execution_that_takes_longer_than_its_deadline_is_overdue_then_late(
    harness: Harness, drs: DrsSimulator, clock: FakeClock
) -> None:
    harness.add(drs.play(drill("s-1", pending=60, active=45 * MINUTE)))

    harness.pass_time(31 * MINUTE)
    assert [each.name for each in conditions(harness.get(), clock.now_ms())] == ["overdue", "silent"]
    harness.pass_time(20 * MINUTE)

    verdict = harness.get().verdict
    assert verdict is not None
    assert (verdict.status, verdict.late) == (Status.SUCCEEDED, True)
    deadlines = [event for event in events_of(harness.journal, "p-1/x-1") if event.type == "execution_asked"]
    assert len(deadlines) == 1


def test_a_wave_that_is_yet_to_come_keeps_the_execution_open(harness: Harness, drs: DrsSimulator) -> None:
    harness.add(drs.play(drill("s-1", pending=10, active=10)), total=2)

    harness.pass_time(5 * MINUTE)

    assert harness.get().is_open


def test_hundreds_of_executions_share_their_calls(harness: Harness, drs: DrsSimulator) -> None:
    for number in range(150):
        harness.add(drs.play(drill("s-1", pending=10, active=10)), name=f"x-{number}")

    first = harness.watcher.poll_due()
    harness.clock.advance(46)
    second = harness.watcher.poll_due()

    assert [len(round_.polled) for round_ in (first, second)] == [150, 150]
    assert {polled.result for polled in second.polled} == {Result.ENDED}
    assert drs.calls["DescribeJobs"] == 4  # two pages each time


def test_a_watcher_runs_until_nothing_is_open(harness: Harness, drs: DrsSimulator) -> None:
    harness.add(drs.play(drill("s-1", pending=60, active=60)))

    harness.watcher.run(until_idle=True)

    assert harness.status() is Status.SUCCEEDED


def test_a_watcher_that_is_stopped_stops(harness: Harness) -> None:
    stop = threading.Event()
    stop.set()

    harness.watcher.run(stop=stop)

    assert harness.source.calls == 0


def test_a_cancel_by_the_orchestrator_is_noticed_between_polls(
    harness: Harness, drs: DrsSimulator, tmp_path: Path, set_status: Callable[[Path, str], None]
) -> None:
    harness.add(drs.play(drill("s-1")))
    harness.pass_time(10)
    set_status(tmp_path / "watching.db", "CANCELLED")

    harness.pass_time(2)

    assert (harness.get().status, harness.status()) == (Status.CANCELLED, Status.CANCELLED)


@pytest.fixture
def set_status() -> Callable[[Path, str], None]:
    """Writes a status as another program would."""
    import json
    import sqlite3

    def write(path: Path, word: str) -> None:
        connection = sqlite3.connect(path)
        with connection:
            ((text,),) = connection.execute("SELECT record FROM executions").fetchall()
            record: dict[str, Any] = {**json.loads(text), "Status": word}
            connection.execute("UPDATE executions SET status = ?, record = ?", (word, json.dumps(record)))
        connection.close()

    return write

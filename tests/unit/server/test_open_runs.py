"""A server ends open runs whose processes are gone, without anyone following them."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from longwatch.errors import JournalUnavailable
from longwatch.following.observation import Observer
from longwatch.following.process_watch import GRACE_SECONDS
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.event import Event, Page
from longwatch.model.liveness import Liveness
from longwatch.model.process import process_of
from longwatch.model.run import RunSummary, Status
from longwatch.server.open_runs import CHECK_SECONDS, PAGE_RUNS, OpenRuns
from longwatch.testing import FakeClock, MemoryJournal
from longwatch.turns import Conversations
from tests.unit.following.test_observation import ALIVE, ELSEWHERE, GONE, HERE, journal_of, started


def open_runs(journal: MemoryJournal) -> OpenRuns:
    clock = FakeClock(now_ms=3_000_000)
    return OpenRuns(journal, Observer(journal, clock=clock, here=HERE), clock)


async def checked(runs: OpenRuns, *, sleeps: int, on_sleep: dict[int, Event] | None = None) -> list[float]:
    """Let it check until it has slept so often; returns for how long each time."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if on_sleep and len(slept) in on_sleep:
            runs._journal.append([on_sleep[len(slept)]])
        if len(slept) == sleeps:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await runs.run(sleep=sleep)
    return slept


async def test_a_run_that_died_is_ended_after_a_grace() -> None:
    journal = journal_of([GONE, ALIVE, ELSEWHERE, None])

    slept = await checked(open_runs(journal), sleeps=2)

    assert slept == [GRACE_SECONDS, CHECK_SECONDS]
    assert [run.status for run in journal.find_runs().runs] == [*[Status.RUNNING] * 3, Status.DIED]


async def test_a_run_that_reports_its_end_within_the_grace_is_left_alone() -> None:
    journal = journal_of([GONE])
    end = Event(run_id="wf-0", event_id="end", type="workflow_complete", occurred_at=1_000_001)

    await checked(open_runs(journal), sleeps=2, on_sleep={1: end})

    assert [event.event_id for event in journal.read("wf-0").events] == ["wf-0-1", "end"]


async def test_nothing_is_written_twice() -> None:
    journal = journal_of([GONE])

    await checked(open_runs(journal), sleeps=2)
    await checked(open_runs(journal), sleeps=2)

    assert len(journal.read("wf-0").events) == 2


def test_every_page_of_open_runs_is_checked() -> None:
    journal = journal_of([GONE, *[ALIVE] * (PAGE_RUNS + 1)])

    assert [run.run_id for run in open_runs(journal).find_dead()] == ["wf-0"]


def test_a_turn_whose_executor_died_gets_its_one_ending(tmp_path: Path) -> None:
    clock = FakeClock(now_ms=3_000_000)
    with SqliteJournal(tmp_path / "turns.db", clock=clock) as journal:
        conversations = Conversations(journal, clock)
        conversations.create_project("p1")
        conversations.create_conversation("p1", "s1")
        turn = conversations.create_turn("p1", "s1", "go")
        with subprocess.Popen(["sleep", "60"]) as child:
            conversations.start("p1", "s1", turn.turn_id, process=process_of(child.pid).fields)
            child.kill()
        runs = OpenRuns(journal, Observer(journal, clock=clock), clock)

        runs.end(runs.find_dead())
        runs.end(runs.find_dead())
        ended = conversations.turn("p1", "s1", turn.turn_id)
        found = journal.find_run(turn.turn_id)

    assert found is not None
    assert (ended.wire_status, found.status) == ("failed", Status.DIED)
    assert ended.error == f"Process {child.pid} on {process_of(1).host} exited without reporting an outcome."


async def test_a_run_that_only_claims_to_be_a_turn_is_ended_like_any_other() -> None:
    journal = journal_of([GONE])
    for run_id in ("my-turn", "turn-1"):
        event = started(run_id, 1_001_000, GONE)
        journal.append([replace(event, payload={**event.payload, "kind": "turn"})])

    await checked(open_runs(journal), sleeps=2)

    assert {run.run_id: run.status for run in journal.find_runs().runs} == dict.fromkeys(
        ("wf-0", "my-turn", "turn-1"), Status.DIED
    )


class Refusing(MemoryJournal):
    """Fails on one run with an unexpected error."""

    def read(self, run_id: str, *args: Any, **options: Any) -> Page:
        if run_id == "wf-2":
            raise RuntimeError("broken")
        return super().read(run_id, *args, **options)


async def test_a_run_that_can_not_be_ended_is_logged_once_and_keeps_no_other_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    journal = Refusing()
    journal.append([started(f"wf-{number}", 1_000_000 + number, GONE) for number in range(4)])

    await checked(open_runs(journal), sleeps=6)

    assert [run.run_id for run in journal.find_runs().runs if run.status is Status.RUNNING] == ["wf-2"]
    assert [record.message for record in caplog.records] == ["run wf-2 cannot be ended: broken"]


class Puzzled(Observer):
    """Can not probe the processes of one run."""

    def liveness(self, runs: Sequence[RunSummary]) -> list[Liveness]:
        if any(run.run_id == "wf-1" for run in runs):
            raise OSError("no probe")
        return super().liveness(runs)


def test_a_run_that_can_not_be_probed_is_logged_and_the_others_are_checked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    journal, clock = journal_of([GONE, GONE, GONE]), FakeClock(now_ms=3_000_000)
    runs = OpenRuns(journal, Puzzled(journal, clock=clock, here=HERE), clock)

    assert [run.run_id for run in runs.find_dead()] == ["wf-2", "wf-0"]
    assert [record.message for record in caplog.records] == ["run wf-1 cannot be checked: no probe"]


class Broken(MemoryJournal):
    """Has a fault of its own."""

    def find_runs(self, *args: object, **options: object) -> None:  # type: ignore[override]
        raise OSError("no descriptors left")


async def test_an_unexpected_error_does_not_end_the_checks(caplog: pytest.LogCaptureFixture) -> None:
    slept = await checked(open_runs(Broken()), sleeps=3)

    assert slept == [CHECK_SECONDS] * 3
    assert [record.message for record in caplog.records] == [
        "open runs cannot be checked, next try in 15 s: no descriptors left"
    ]


class Away(MemoryJournal):
    """Does not respond."""

    def find_runs(self, *args: object, **options: object) -> None:  # type: ignore[override]
        raise JournalUnavailable("no answer")


async def test_a_journal_that_does_not_respond_is_logged_once_and_polled_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    slept = await checked(open_runs(Away()), sleeps=3)

    assert slept == [CHECK_SECONDS] * 3
    assert [record.message for record in caplog.records] == [
        "open runs cannot be checked, next try in 15 s: no answer"
    ]

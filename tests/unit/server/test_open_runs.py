"""A server ends open runs whose processes are gone, without anyone following them."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from longwatch.errors import JournalUnavailable
from longwatch.events import Event
from longwatch.following.observation import Observer
from longwatch.following.process_watch import GRACE_SECONDS
from longwatch.journal.sqlite import SqliteJournal
from longwatch.model.process import process_of
from longwatch.runs import Status
from longwatch.server.open_runs import CHECK_SECONDS, PAGE_RUNS, OpenRuns
from longwatch.testing import FakeClock, MemoryJournal
from longwatch.turns import Conversations
from tests.unit.following.test_observation import ALIVE, ELSEWHERE, GONE, HERE, journal_of


def open_runs(journal: MemoryJournal) -> OpenRuns:
    clock = FakeClock(now_ms=3_000_000)
    return OpenRuns(
        journal, Observer(journal, clock=clock, here=HERE), clock, Conversations(journal, clock).end_died
    )


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

    assert [run.run_id for run in open_runs(journal).died()] == ["wf-0"]


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
        runs = OpenRuns(journal, Observer(journal, clock=clock), clock, conversations.end_died)

        runs.end(runs.died())
        runs.end(runs.died())
        ended = conversations.turn("p1", "s1", turn.turn_id)
        found = journal.find_run(turn.turn_id)

    assert found is not None
    assert (ended.wire_status, found.status) == ("failed", Status.DIED)
    assert ended.error == f"Process {child.pid} on {process_of(1).host} exited without reporting an outcome."


class Away(MemoryJournal):
    """Does not answer."""

    def find_runs(self, *args: object, **options: object) -> None:  # type: ignore[override]
        raise JournalUnavailable("no answer")


async def test_a_journal_that_does_not_answer_is_logged_once_and_asked_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    slept = await checked(open_runs(Away()), sleeps=3)

    assert slept == [CHECK_SECONDS] * 3
    assert [record.message for record in caplog.records] == [
        "open runs can not be checked, next try in 15 s: no answer"
    ]

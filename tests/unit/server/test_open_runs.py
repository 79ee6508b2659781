"""A server ends open runs whose processes are gone, without anyone following them."""

from __future__ import annotations

import asyncio

import pytest

from longwatch.errors import JournalUnavailable
from longwatch.events import Event
from longwatch.following.observation import Observer
from longwatch.following.process_watch import GRACE_SECONDS
from longwatch.runs import Status
from longwatch.server.open_runs import CHECK_SECONDS, PAGE_RUNS, OpenRuns
from longwatch.testing import FakeClock, MemoryJournal
from tests.unit.following.test_observation import ALIVE, ELSEWHERE, GONE, HERE, journal_of


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

    assert open_runs(journal).died() == ["wf-0"]


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

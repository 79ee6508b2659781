"""Runs that a journal lists and those beside its list, as one list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.errors import InvalidCursor
from longwatch.following.merged_runs import MergedRuns
from longwatch.model.event import Cursor, Event
from longwatch.model.run import RunSummary, Status, summarise
from longwatch.model.run_query import ALL_RUNS, RunQuery
from longwatch.testing import FakeClock, MemoryJournal


def event(run_id: str, at: int, type_: str = "workflow_start") -> Event:
    return Event(run_id=run_id, event_id=f"{run_id}{type_}", type=type_, occurred_at=at)


def journal_of(times: list[int]) -> MemoryJournal:
    journal = MemoryJournal()
    journal.append([event(f"listed-{number}", at) for number, at in enumerate(times)])
    return journal


def unlisted(times: list[int], type_: str = "workflow_complete") -> list[RunSummary]:
    events = [event(f"other-{number}", at, type_) for number, at in enumerate(times)]
    return sorted(summarise(events).values(), key=lambda run: (run.started_at, run.run_id), reverse=True)


def all_pages(runs: MergedRuns, query: RunQuery = ALL_RUNS, *, limit: int) -> list[list[RunSummary]]:
    pages: list[list[RunSummary]] = []
    cursor: Cursor | None = None
    while True:
        page = runs.find_runs(query, after=cursor, limit=limit)
        pages.append(list(page.runs))
        cursor = page.cursor
        if cursor is None:
            return pages


TIMES = st.lists(st.integers(1, 12), max_size=9)


@given(TIMES, TIMES, st.integers(1, 5))
def test_every_run_of_both_kinds_comes_once_newest_first(
    listed: list[int], others: list[int], limit: int
) -> None:
    beside = unlisted(others)

    pages = all_pages(MergedRuns(journal_of(listed), lambda: beside), limit=limit)

    found = [run for page in pages for run in page]
    assert all(len(page) <= limit for page in pages)
    assert len({run.run_id for run in found}) == len(found) == len(listed) + len(others)
    assert [run.started_at for run in found] == sorted((run.started_at for run in found), reverse=True)


def test_without_other_runs_the_cursor_is_the_journal_s_own() -> None:
    journal = journal_of([1, 2, 3])

    page = MergedRuns(journal, list).find_runs(limit=2)

    assert page == journal.find_runs(limit=2)


def test_a_run_that_is_listed_by_now_comes_once_as_the_list_has_it() -> None:
    journal = journal_of([5])
    stale = summarise([event("listed-0", 5, "note")])["listed-0"]

    (run,) = MergedRuns(journal, lambda: [stale]).find_runs().runs

    assert run.last_event_type == "workflow_start"


def test_filters_hold_for_both_kinds() -> None:
    beside = unlisted([7, 8])
    runs = MergedRuns(journal_of([5, 9]), lambda: beside)

    assert len(runs.find_runs(RunQuery(status=Status.SUCCEEDED)).runs) == 2
    assert [run.run_id for run in runs.find_runs(RunQuery(since=8)).runs] == ["listed-1", "other-1"]
    assert [run.run_id for run in runs.find_runs(RunQuery(text="OTHER-0")).runs] == ["other-0"]


def test_an_open_run_is_shown_as_its_events_are_now() -> None:
    journal, scanned = MemoryJournal(), unlisted([7], "note")
    summaries = {"other-0": summarise([event("other-0", 7, "note"), event("other-0", 9, "workflow_error")])}
    journal.find_run = lambda run_id: summaries[run_id][run_id]  # type: ignore[method-assign]

    (run,) = MergedRuns(journal, lambda: scanned).find_runs().runs

    assert run.status is Status.FAILED


@pytest.mark.parametrize("cursor", ["m1.", "m1.zzz", "m1.W10", "m1.W251bGwsMSxbIngiLDFdXQ"])
def test_an_invalid_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidCursor, match="List from the start"):
        MergedRuns(journal_of([1]), list).find_runs(after=Cursor(cursor))


class Counting(MemoryJournal):
    """A journal that counts how often a run beside its list is read whole."""

    def __init__(self) -> None:
        super().__init__()
        self.beside: dict[str, RunSummary] = {}
        self.reads = 0

    def find_run(self, run_id: str) -> RunSummary | None:
        self.reads += 1
        return self.beside.get(run_id)


def test_an_open_run_is_read_once_in_ten_seconds_however_often_it_is_listed() -> None:
    journal, clock, beside = Counting(), FakeClock(), unlisted([1, 2], "workflow_start")
    runs = MergedRuns(journal, lambda: beside, clock=clock)

    for _ in range(5):
        runs.find_runs(limit=10)
    assert journal.reads == 2
    journal.beside = {run.run_id: run for run in unlisted([1, 2])}
    clock.advance(10)

    assert [run.status for run in runs.find_runs(limit=10).runs] == [Status.SUCCEEDED] * 2
    assert journal.reads == 4


def test_a_run_that_is_listed_since_the_scan_comes_once_although_its_entry_begins_later() -> None:
    journal, beside = journal_of([5, 6, 7]), unlisted([1])
    journal.append([event("other-0", 9)])

    pages = all_pages(MergedRuns(journal, lambda: beside), limit=2)

    found = [run.run_id for page in pages for run in page]
    assert found == ["other-0", "listed-2", "listed-1", "listed-0"]

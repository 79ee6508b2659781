"""Scans for runs beside the list: how often, how far, and which notice a reader gets."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from longwatch.errors import LongwatchError, TableProblem, Throttled
from longwatch.following.unlisted_runs import (
    BACKGROUND_PAGES,
    FIRST_SCAN_SECONDS,
    SCAN_PAGES,
    BackgroundScan,
    scan_unlisted,
)
from longwatch.journal.base import UnlistedRuns
from longwatch.model.event import Event
from longwatch.model.run import RunSummary, summarise
from longwatch.testing import FakeClock, MemoryJournal

DENIED = TableProblem("access-denied", "profile 'x' is not authorized for table 't' (AccessDeniedException).")


def run(run_id: str) -> RunSummary:
    return summarise([Event(run_id=run_id, event_id=run_id, type="note", occurred_at=1)])[run_id]


class Scanned(MemoryJournal):
    """A journal with runs beside its list."""

    def __init__(self, *runs: str, is_whole: bool = True) -> None:
        super().__init__()
        self.found = UnlistedRuns([run(each) for each in runs], is_whole=is_whole)
        self.problem: LongwatchError | None = None
        self.pages: list[int] = []

    def scan_unlisted(self, *, max_pages: int) -> UnlistedRuns:
        self.pages.append(max_pages)
        if self.problem is not None:
            raise self.problem
        return self.found


def at_once(scan: Callable[[], None]) -> None:
    scan()


def test_a_command_scans_four_pages_and_reports_that_there_may_be_more() -> None:
    journal = Scanned("theirs", is_whole=False)

    found = scan_unlisted(journal)

    assert [each.run_id for each in found.runs] == ["theirs"]
    assert journal.pages == [SCAN_PAGES] == [4]
    assert "Only the first 4 pages" in str(found.notice)
    assert "longwatch runs --scan" in str(found.notice)


def test_a_whole_scan_and_a_journal_that_lists_everything_need_no_notice() -> None:
    assert scan_unlisted(Scanned("theirs")).notice is None
    assert scan_unlisted(MemoryJournal()).runs == ()


@pytest.mark.parametrize(
    ("problem", "words"), [(DENIED, "the right dynamodb:Scan is missing"), (Throttled("slow"), "slow")]
)
def test_a_scan_that_fails_is_a_notice_and_not_an_error(problem: LongwatchError, words: str) -> None:
    journal = Scanned()
    journal.problem = problem

    found = scan_unlisted(journal)

    assert words in str(found.notice)
    assert "Runs of other producers are not listed" in str(found.notice)


def test_a_server_scans_once_in_five_minutes_however_often_its_list_is_read() -> None:
    journal, clock = Scanned("theirs"), FakeClock()
    scan = BackgroundScan(journal, clock=clock, start=at_once)

    for _ in range(100):
        assert [each.run_id for each in scan.runs()] == ["theirs"]
        clock.advance(2.9)
    assert journal.pages == [BACKGROUND_PAGES]
    clock.advance(10)
    scan.runs()

    assert journal.pages == [BACKGROUND_PAGES] * 2


def test_without_readers_nothing_is_scanned() -> None:
    journal = Scanned("theirs")

    BackgroundScan(journal, clock=FakeClock(), start=at_once)

    assert journal.pages == []


def test_a_scan_that_fails_keeps_what_the_one_before_found(caplog: pytest.LogCaptureFixture) -> None:
    journal, clock = Scanned("theirs"), FakeClock()
    scan = BackgroundScan(journal, clock=clock, start=at_once)
    scan.runs()
    journal.problem = DENIED
    clock.advance(301)

    found = scan.runs()

    assert [each.run_id for each in found] == ["theirs"]
    assert "dynamodb:Scan" in str(scan.notice)
    assert "dynamodb:Scan" in caplog.text


def test_the_first_reader_waits_for_the_first_scan() -> None:
    scan = BackgroundScan(Scanned("theirs"), clock=FakeClock())  # in a thread

    assert [each.run_id for each in scan.runs()] == ["theirs"]


def test_readers_wait_for_a_slow_first_scan_together_and_not_each() -> None:
    clock = FakeClock()
    scan = BackgroundScan(Scanned("theirs"), clock=clock, start=lambda _: clock.advance(3))  # never ends

    begun = time.monotonic()
    assert list(scan.runs()) == []
    assert list(scan.runs()) == []

    assert time.monotonic() - begun < FIRST_SCAN_SECONDS

"""Promises about reading: every event exactly once, page by page, from any cursor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longwatch.errors import InvalidCursor
from longwatch.journal.base import PAGE_BYTES, Journal
from longwatch.journal.codec import payload_size
from longwatch.model.event import Cursor, Page
from longwatch.testing.clock import FakeClock
from tests.contract.basis import Contract
from tests.contract.events import OpenAgain, event, new_run, read_all, run_ids


class ReadContract(Contract):
    """What `Journal.read` promises."""

    def test_an_unknown_run_reads_as_empty(self, journal: Journal) -> None:
        page = journal.read("wf-nobody-knows")

        assert list(page.events) == []
        assert not page.more

    def test_a_run_can_be_waited_for_from_before_its_first_event(self, journal: Journal, now: int) -> None:
        run = new_run()
        cursor = journal.read(run).cursor
        first = event(run, now)
        journal.append([first])

        page = journal.read(run, after=cursor)

        assert list(page.events) == [first]

    @pytest.mark.parametrize("limit", [1, 2, 7])
    def test_pages_hold_every_event_exactly_once(self, journal: Journal, now: int, limit: int) -> None:
        run = new_run()
        events = [event(run, now + index // 3, producer="p", number=index + 1) for index in range(23)]
        journal.append(events)

        found, cursor = read_all(journal, run, limit=limit, thorough=False)

        assert found == events
        assert list(journal.read(run, after=cursor, thorough=True).events) == []

    @pytest.mark.parametrize("limit", [1, 2, 7])
    def test_pages_hold_every_unnumbered_event_exactly_once(
        self, journal: Journal, now: int, limit: int
    ) -> None:
        run = new_run()
        events = [event(run, now + 3_000 * index) for index in range(23)]
        journal.append(events)

        found, cursor = read_all(journal, run, limit=limit, thorough=False)

        assert found == events
        assert list(journal.read(run, after=cursor, thorough=True).events) == []

    def test_a_full_page_has_a_next_one_and_the_last_one_does_not(self, journal: Journal, now: int) -> None:
        run = new_run()
        journal.append([event(run, now + index) for index in range(4)])

        first = journal.read(run, limit=2)
        second = journal.read(run, after=first.cursor, limit=2)

        assert (len(first.events), first.more) == (2, True)
        assert (len(second.events), second.more) == (2, False)

    def test_a_page_of_large_events_is_bounded_in_bytes_and_none_is_missed(
        self, journal: Journal, now: int
    ) -> None:
        run = new_run()
        sizes = (300_000, 10, 200_000, 200_000, 10, 300_000, 300_000)
        events = [
            replace(event(run, now + index), payload={"text": "x" * size, "list": ["y"]})
            for index, size in enumerate(sizes)
        ]
        for each in events:
            journal.append([each])

        pages: list[Page] = [journal.read(run)]
        while pages[-1].more:
            pages.append(journal.read(run, after=pages[-1].cursor))

        assert [found for page in pages for found in page.events] == events
        for page in pages:
            assert sum(payload_size(each) for each in page.events[:-1]) < PAGE_BYTES

    def test_reading_again_without_new_events_returns_nothing(
        self, journal: Journal, clock: FakeClock, now: int
    ) -> None:
        run = new_run()
        journal.append([event(run, now), event(run, now + 1, producer="p", number=1)])
        _, cursor = read_all(journal, run)

        for seconds in (0, 1, 16, 3600):
            clock.advance(seconds)
            page = journal.read(run, after=cursor)
            cursor = page.cursor
            assert list(page.events) == []

    def test_reading_resumes_from_the_text_of_a_cursor_in_another_process(
        self, open_again: OpenAgain, now: int
    ) -> None:
        run = new_run()
        events = [event(run, now + index, producer="p", number=index + 1) for index in range(10)]
        open_again().append(events)
        page = open_again().read(run, limit=4)

        found, _ = read_all(open_again(), run, after=Cursor(str(page.cursor)), limit=4)

        assert [*page.events, *found] == events

    def test_a_reader_that_resumes_after_an_hour_misses_nothing(
        self, journal: Journal, clock: FakeClock, now: int
    ) -> None:
        run = new_run()
        journal.append([event(run, now)])
        _, cursor = read_all(journal, run)
        late = event(run, now - 25_000)
        journal.append([late])
        clock.advance(3600)
        later = [event(run, clock.now_ms() - 1_800_000), event(run, clock.now_ms())]
        journal.append(later)

        found, _ = read_all(journal, run, after=cursor, limit=1, thorough=False)

        assert found == [late, *later]

    def test_events_of_a_page_are_in_their_order(self, journal: Journal, now: int) -> None:
        run = new_run()
        events = [
            event(run, now, producer="b", number=1),
            event(run, now, producer="a", number=2),
            event(run, now - 5, producer="c", number=9),
            event(run, now, producer="a", number=1),
        ]
        journal.append(events)

        page = journal.read(run)

        assert list(page.events) == sorted(events, key=lambda each: each.order)

    def test_nothing_of_another_run_leaks(self, journal: Journal, now: int) -> None:
        run = new_run()
        names = [run, f"{run}0", f"{run}#x", run.upper(), f"{run} ", f"ü{run}"]
        journal.append([event(name, now, payload={"of": name}) for name in names])

        for name in names:
            assert [each.payload["of"] for each in journal.read(name).events] == [name]

    def test_a_long_and_unusual_run_id_is_accepted(self, journal: Journal, now: int) -> None:
        run = f"{new_run()}/é?#%&=🚀 \t" + "ü" * 480
        journal.append([event(run, now, "workflow_start")])

        assert len(journal.read(run).events) == 1
        assert run_ids(journal.find_runs().runs) == [run]

    def test_expired_events_are_not_returned(self, journal: Journal, clock: FakeClock, now: int) -> None:
        run = new_run()
        seconds = now // 1000
        short = event(run, now, producer="p", number=1, ttl=seconds + 10)
        long = event(run, now + 1, producer="p", number=2, ttl=seconds + 1_000)
        forever = event(run, now + 2, producer="p", number=3)
        journal.append([short, long, forever])
        clock.advance(10)

        found, cursor = read_all(journal, run)

        assert found == [long, forever]
        assert list(journal.read(run, after=cursor, thorough=True).events) == []

    @pytest.mark.parametrize(
        "text", ["nonsense", "-1", "d1.", "d1.AAAA", "1e3", "d1.eJyLBQAAXgBe", "d2.eJyLBQAAXgBe", "{}"]
    )
    def test_a_cursor_that_no_journal_handed_out_is_refused(self, journal: Journal, text: str) -> None:
        with pytest.raises(InvalidCursor, match="start"):
            journal.read("wf-1", after=Cursor(text))

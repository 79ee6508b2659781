"""Promises about times: same-millisecond, skewed and late events are all stored and all delivered."""

from __future__ import annotations

from hypothesis import given

from longwatch.journal.base import Journal
from longwatch.testing.clock import FakeClock
from tests.contract.basis import Contract
from tests.contract.events import OpenAgain, event, ids, new_run, read_all
from tests.contract.stories import FollowedRun, Story, stories


class TimesContract(Contract):
    """What holds however the times of events come about."""

    def test_two_events_in_one_millisecond_are_both_stored(self, journal: Journal, now: int) -> None:
        run = new_run()
        first = event(run, now, producer="p", number=1)
        second = event(run, now, producer="p", number=2)

        journal.append([first])
        journal.append([second])

        assert list(journal.read(run).events) == [first, second]

    def test_every_event_of_a_burst_in_one_millisecond_is_stored(
        self, open_again: OpenAgain, now: int
    ) -> None:
        run = new_run()
        events = [event(run, now, producer="p", number=number) for number in range(1, 151)]

        open_again().append(events)
        open_again().append(events)  # shipped again by another process

        assert list(read_all(open_again(), run)[0]) == events

    def test_two_writers_share_a_millisecond(self, open_again: OpenAgain, now: int) -> None:
        run = new_run()
        one, other = open_again(), open_again()
        events = [event(run, now, producer=f"p{index % 2}", number=index // 2 + 1) for index in range(20)]

        for each in events:
            (one, other)[each.producer == "p1"].append([each])

        assert sorted(ids(read_all(one, run)[0])) == sorted(ids(events))

    def test_an_event_stamped_earlier_than_what_was_read_is_still_delivered(
        self, journal: Journal, now: int
    ) -> None:
        run = new_run()
        journal.append([event(run, now)])
        _, cursor = read_all(journal, run)
        late = event(run, now - 20_000)
        journal.append([late])

        found, _ = read_all(journal, run, after=cursor)

        assert found == [late]

    def test_a_slightly_late_event_comes_with_the_next_read(self, journal: Journal, now: int) -> None:
        run = new_run()
        journal.append([event(run, now)])
        _, cursor = read_all(journal, run)
        late = event(run, now - 1_500)
        journal.append([late])

        page = journal.read(run, after=cursor)

        assert list(page.events) == [late]

    def test_a_late_event_is_read_by_the_next_look_back(
        self, journal: Journal, clock: FakeClock, now: int
    ) -> None:
        run = new_run()
        journal.append([event(run, now)])
        _, cursor = read_all(journal, run)
        late = event(run, now - 20_000)
        journal.append([late])
        clock.advance(15)

        page = journal.read(run, after=cursor)

        assert list(page.events) == [late]

    def test_a_missing_number_is_read_again_soon(self, journal: Journal, clock: FakeClock, now: int) -> None:
        run = new_run()
        first, missing, third = (
            event(run, now + at, producer="p", number=n) for n, at in ((1, 0), (2, -9_000), (3, 1))
        )
        journal.append([first, third])
        _, cursor = read_all(journal, run)
        journal.append([missing])
        clock.advance(2)

        page = journal.read(run, after=cursor)

        assert list(page.events) == [missing]

    def test_events_shipped_hours_later_are_delivered_once_they_are_announced(
        self, journal: Journal, clock: FakeClock, now: int
    ) -> None:
        run = new_run()
        journal.append([event(run, now, producer="p", number=1)])
        _, cursor = read_all(journal, run)
        clock.advance(4 * 3600)
        journal.append([event(run, clock.now_ms(), producer="q", number=1)])
        _, cursor = read_all(journal, run, after=cursor)
        shipped = [event(run, now + 100 * number, producer="p", number=number) for number in (2, 3, 4)]
        announcement = event(
            run, clock.now_ms(), "late_batch", payload={"from": now + 200, "to": now + 400, "count": 3}
        )
        journal.append(shipped)
        journal.append([announcement])

        found, _ = read_all(journal, run, after=cursor, limit=2, thorough=False)

        assert sorted(ids(found)) == sorted(ids([*shipped, announcement]))

    def test_an_event_written_behind_a_reader_that_is_still_catching_up_is_delivered(
        self, journal: Journal, clock: FakeClock, now: int
    ) -> None:
        run = new_run()
        events = [event(run, now + index) for index in range(5)]
        journal.append(events)
        page = journal.read(run, limit=2)
        late = event(run, now - 20_000)
        journal.append([late])
        clock.advance(60)
        later = [event(run, clock.now_ms() + index) for index in range(3)]
        journal.append(later)

        rest, cursor = read_all(journal, run, after=page.cursor, limit=2, thorough=False)
        clock.advance(15)
        after_a_while, _ = read_all(journal, run, after=cursor, thorough=False)

        assert sorted(ids([*page.events, *rest, *after_a_while])) == sorted(ids([*events, late, *later]))

    def test_a_thorough_reader_that_was_still_catching_up_finds_what_was_written_behind_it(
        self, journal: Journal, now: int
    ) -> None:
        run = new_run()
        events = [event(run, now + index) for index in range(5)]
        journal.append(events)
        page = journal.read(run, limit=2)
        late = event(run, now - 20_000)
        journal.append([late])

        rest, _ = read_all(journal, run, after=page.cursor, limit=2, thorough=True)

        assert sorted(ids([*page.events, *rest])) == sorted(ids([*events, late]))

    def test_every_event_comes_exactly_once_whatever_happens(
        self, open_again: OpenAgain, clock: FakeClock
    ) -> None:
        @self.hypothesis()
        @given(story=stories())
        def check(story: Story) -> None:
            followed = FollowedRun(open_again, clock, story)

            followed.play()

            assert sorted(followed.seen) == sorted(followed.written)

        check()

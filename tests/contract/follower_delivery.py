"""Promises about what a follower gets: every event once, in order, whichever followers come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest

from longwatch.errors import JournalUnavailable, TableProblem
from longwatch.following import Followed, Hub, Missed, Reason
from longwatch.journal.base import Journal, Prunes
from longwatch.model.event import Cursor
from longwatch.model.run import Status
from tests.contract.events import OpenAgain, event, ids, new_run
from tests.contract.faults import Fails
from tests.contract.follower_basis import FollowerBasis, completed, numbered, started
from tests.contract.watches import Watch


class DeliveryContract(FollowerBasis):
    """What following delivers."""

    async def test_history_then_caught_up_then_live_then_the_end(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run = new_run()
        past, live, last = started(run, now), event(run, now + 1), completed(run, now + 2)
        journal.append([past])

        async with make_hub() as hub:
            watch = Watch(hub.follow(run))
            await watch.caught_up()
            journal.append([live])
            await watch.has(2)
            journal.append([last])
            ended = await watch.end()

        assert watch.shape == "FCFFE"
        assert watch.events == [past, live, last]
        assert not any(item.late for item in watch.followed)
        assert (ended.reason, ended.status) == (Reason.ENDED, Status.SUCCEEDED)

    async def test_a_run_can_be_followed_before_it_begins(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run = new_run()

        async with make_hub() as hub:
            watch = Watch(hub.follow(run))
            await watch.caught_up()
            assert watch.follower.state.status is Status.PENDING
            journal.append(numbered(run, now, 3))
            await watch.end()

        assert watch.shape == "CFFFFFE"

    async def test_a_run_that_has_ended_is_delivered_and_ends_at_once(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run = new_run()
        journal.append(numbered(run, now, 5))

        async with make_hub(page_events=2) as hub:
            watch = Watch(hub.follow(run))
            ended = await watch.end()

        assert watch.shape == "FFFFFFFCE"
        assert ended.reason is Reason.ENDED
        assert asyncio.get_running_loop().time() < 1.0

    async def test_an_event_that_is_stamped_earlier_is_delivered_and_marked_late(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run = new_run()
        first, late, next_ = event(run, now + 100), event(run, now), event(run, now + 200)

        async with make_hub() as hub:
            watch = Watch(hub.follow(run))
            await watch.caught_up()
            for number, each in enumerate([first, late, next_], 1):
                journal.append([each])
                await watch.has(number)

        assert [(item.event, item.late) for item in watch.followed] == [
            (first, False),
            (late, True),
            (next_, False),
        ]

    async def test_nothing_of_another_run_leaks(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        runs = [new_run(), new_run()]

        async with make_hub() as hub:
            watches = [Watch(hub.follow(run)) for run in runs]
            for watch in watches:
                await watch.caught_up()
            for index in range(5):
                journal.append([event(run, now + index) for run in runs])
            journal.append([each for run in runs for each in numbered(run, now + 9, 1)])
            for watch in watches:
                await watch.end()

        for run, watch in zip(runs, watches, strict=True):
            assert {each.run_id for each in watch.events} == {run}
            assert len(watch.events) == len(set(watch.ids)) == 8

    async def test_resuming_from_the_cursor_of_any_item_repeats_nothing_and_loses_nothing(
        self, journal: Journal, make_hub: Callable[..., Hub], open_again: OpenAgain, now: int
    ) -> None:
        run, random = new_run(), Random(7)
        story = [
            *(event(run, now + 40 * index, producer="p", number=index + 1) for index in range(12)),
            *(event(run, now + 40 * index + 20) for index in range(12)),
            completed(run, now + 500),
        ]
        random.shuffle(story)  # arrival is not the order of the events
        for begin in range(0, len(story), 5):
            journal.append([*story[begin : begin + 5], event(new_run(), now)])
        async with make_hub(page_events=7) as hub:
            whole = Watch(hub.follow(run))
            await whole.end()
        assert sorted(whole.ids) == sorted(ids(story))

        for index, item in enumerate(whole.items):
            cursor = Cursor(str(item.cursor))
            async with make_hub(open_again(), page_events=5) as hub:
                rest = Watch(hub.follow(run, after=cursor))
                ended = await rest.end()
            yielded = [each.event.event_id for each in whole.items[: index + 1] if isinstance(each, Followed)]
            assert sorted(yielded + rest.ids) == sorted(ids(story)), f"after item {index}: {cursor}"
            assert (ended.reason, ended.status) == (Reason.ENDED, Status.SUCCEEDED)

    async def test_resuming_from_a_cursor_that_was_saved_in_the_middle_of_live_events(
        self, journal: Journal, make_hub: Callable[..., Hub], open_again: OpenAgain, now: int
    ) -> None:
        run = new_run()
        journal.append([event(run, now)])
        batch = [event(run, now + 10), event(run, now + 5), event(run, now + 20)]
        async with make_hub() as hub:
            watch = Watch(hub.follow(run))
            await watch.caught_up()
            journal.append(batch)
            await watch.has(4)
            cursors = [item.cursor for item in watch.followed]
        last = completed(run, now + 30)
        journal.append([last])

        for seen, cursor in enumerate(cursors, 1):
            async with make_hub(open_again()) as hub:
                rest = Watch(hub.follow(run, after=cursor))
                await rest.end()
            assert rest.ids == [*watch.ids[seen:], last.event_id]

    async def test_followers_that_join_at_different_times_each_get_everything_once(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run = new_run()
        events = [event(run, now + index, producer="p", number=index + 1) for index in range(30)]
        watches: list[Watch] = []

        async with make_hub(page_events=4) as hub:
            for index, each in enumerate(events):
                if index % 5 == 0:
                    watches.append(Watch(hub.follow(run)))
                journal.append([each])
                await asyncio.sleep(0.07 * (index % 4))
            journal.append([completed(run, now + 100, producer="p", number=31)])
            for watch in watches:
                await watch.end()

        for watch in watches:
            assert watch.ids[:30] == ids(events)
            assert len(watch.ids) == 31
            assert watch.shape.count("C") == 1

    async def test_a_follower_that_leaves_does_not_disturb_the_others_and_can_come_back(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run = new_run()
        journal.append([event(run, now)])

        async with make_hub() as hub:
            stays, goes = Watch(hub.follow(run)), Watch(hub.follow(run))
            await stays.caught_up()
            await goes.caught_up()
            saved = goes.items[-1].cursor
            await goes.leave()
            journal.append([event(run, now + 1), event(run, now + 2)])
            await stays.has(3)
            back = Watch(hub.follow(run, after=saved))
            await back.has(2)
            journal.append([completed(run, now + 3)])
            await stays.end()
            await back.end()

        assert back.ids == stays.ids[1:]

    async def test_a_slow_follower_is_notified_and_gets_everything_and_the_others_do_not_wait(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run = new_run()
        journal.append([event(run, now)])

        async with make_hub(buffer_events=10, page_events=5) as hub:
            quick, slow = Watch(hub.follow(run)), Watch(hub.follow(run))
            await quick.caught_up()
            await slow.caught_up()
            slow.pause()
            for index in range(1, 60):
                journal.append([event(run, now + index)])
                await quick.has(index + 1)
            assert len(slow.events) <= 2
            slow.go_on()
            await slow.has(60)
            journal.append([completed(run, now + 100)])
            await quick.end()
            await slow.end()

        assert quick.ids == slow.ids
        missed = [item for item in slow.items if isinstance(item, Missed)]
        assert missed
        assert missed[0].count > 0
        assert not any(isinstance(item, Missed) for item in quick.items)
        assert slow.shape.count("C") == 1

    async def test_a_journal_that_does_not_respond_is_polled_less_often_each_time(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run, loop = new_run(), asyncio.get_running_loop()
        journal.append([event(run, now)])
        failing = Fails(journal)
        failing.fail(JournalUnavailable("away"), times=4)

        async with make_hub(failing) as hub:
            watch = Watch(hub.follow(run))
            await asyncio.sleep(3.5)
            state = watch.follower.state
            await watch.has(1)
            assert watch.follower.state.failures == 0

        assert failing.polled_at[:5] == pytest.approx([0.0, 1.0, 3.0, 7.0, 15.0], abs=0.06)
        assert (state.failures, state.error, state.caught_up) == (3, "away", False)
        assert state.next_poll_seconds == pytest.approx(3.5, abs=0.06)
        assert loop.time() < 16

    @pytest.mark.parametrize("kind", ["expired-token", "not-found", "access-denied", "no-credentials"])
    async def test_an_error_for_an_operator_is_reported_once_and_retried_at_the_maximum_interval(
        self,
        journal: Journal,
        make_hub: Callable[..., Hub],
        now: int,
        kind: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        run = new_run()
        journal.append([event(run, now)])
        failing = Fails(journal)

        async with make_hub(failing) as hub:
            watch = Watch(hub.follow(run))
            await watch.caught_up()
            failing.fail(TableProblem(kind, "fix me"))
            journal.append([event(run, now + 1)])
            await asyncio.sleep(5.0)
            begun, state = len(failing.polled_at), watch.follower.state
            await asyncio.sleep(100.0)
            polled = failing.polled_at[begun:]
            trouble = hub.trouble()
            failing.recover()
            await watch.has(2)

        assert (state.failures, state.error, trouble) == (1, "fix me", "fix me")
        assert [later - earlier for earlier, later in pairwise(polled)] == pytest.approx(
            [30.0, 30.0], abs=0.1
        )
        assert caplog.text.count("cannot be read") == 1
        assert caplog.text.count("can be read again") == 1

    async def test_a_reader_that_starts_in_an_outage_waits_for_its_end(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        runs = [new_run() for _ in range(3)]
        journal.append([event(run, now) for run in runs])
        failing = Fails(journal)
        failing.fail(TableProblem("not-found", "no table"))

        async with make_hub(failing) as hub:
            watches = [Watch(hub.follow(run)) for run in runs]
            await asyncio.sleep(70.0)
            errors = {watch.follower.state.error for watch in watches}
            failing.recover()
            for watch in watches:
                await watch.caught_up()

        assert errors == {"no table"}
        assert caplog.text.count("cannot be read") == 1

    async def test_an_outage_while_live_loses_nothing(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run = new_run()
        journal.append([event(run, now)])
        failing = Fails(journal)

        async with make_hub(failing) as hub:
            watch = Watch(hub.follow(run))
            await watch.caught_up()
            failing.fail(JournalUnavailable("away"))
            for index in range(1, 6):
                journal.append([event(run, now + index)])
                await asyncio.sleep(1.0)
            assert watch.follower.state.failures > 0
            assert watch.follower.state.error == "away"
            failing.recover()
            await watch.has(6)
            journal.append([completed(run, now + 9)])
            await watch.end()

        assert len(watch.ids) == len(set(watch.ids)) == 7
        assert watch.follower.state.failures == 0

    async def test_a_run_that_is_pruned_under_its_followers_does_not_disturb_them(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        if not isinstance(journal, Prunes):
            return
        run = new_run()
        journal.append([event(run, now + index) for index in range(5)])

        async with make_hub() as hub:
            watch = Watch(hub.follow(run))
            await watch.caught_up()
            journal.prune(now + 1_000)
            last = [event(run, now + 2_000), completed(run, now + 3_000)]
            journal.append(last)
            ended = await watch.end()

        assert watch.events[5:] == last
        assert ended.reason is Reason.ENDED

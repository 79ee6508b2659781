"""What following a run promises on every journal. In virtual time, without threads."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings

from longwatch.errors import JournalUnavailable, ReadOnlyJournal, TableProblem
from longwatch.events import START, Cursor, Event
from longwatch.following import CaughtUp, DrainLimits, Ended, Followed, Hub, Missed, Phase, Reason
from longwatch.journal.base import Journal, Prunes
from longwatch.runs import Status
from longwatch.testing.clock import START_MS
from tests.contract.failing import Fails
from tests.contract.followed_stories import FollowedPlay, FollowedStory, followed_stories
from tests.contract.making import OpenAgain, event, ids, new_run
from tests.contract.watches import AtOnce, Listen, LoopClock, Watch, in_virtual_time

pytestmark = pytest.mark.looptime


def started(run: str, at: int, **process: object) -> Event:
    payload = {"kind": "workflow", "process": process} if process else {}
    return event(run, at, "workflow_start", payload=payload)


def completed(run: str, at: int, **fields: object) -> Event:
    return event(run, at, "workflow_complete", payload={"status": "completed"}, **fields)


def numbered(run: str, at: int, count: int, producer: str = "p") -> list[Event]:
    """A whole run of one producer, which closes at its end."""
    events = [event(run, at + index, producer=producer, number=index + 1) for index in range(count)]
    return [
        *events,
        completed(run, at + count, producer=producer, number=count + 1),
        event(
            run,
            at + count + 1,
            "producer_closed",
            payload={"count": count + 2},
            producer=producer,
            number=count + 2,
        ),
    ]


def a_dead_process() -> dict[str, object]:
    """A process of this machine that has ended."""
    process = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True)
    return {"host": os.uname().nodename, "pid": int(process.stdout), "started": 1}


class FollowingContract:
    """An adapter's test class says how to open its journal."""

    @pytest.fixture
    def clock(self) -> LoopClock:
        return LoopClock()

    @pytest.fixture
    def open_again(self) -> Iterator[OpenAgain]:
        raise NotImplementedError

    def listen(self, journal: Journal) -> Listen | None:
        """How to hear of appends, if not in the journal's own way."""
        return None

    @pytest.fixture
    def journal(self, open_again: OpenAgain) -> Journal:
        return open_again()

    @pytest.fixture
    def make_hub(self, journal: Journal, clock: LoopClock) -> Callable[..., Hub]:
        def make(on: Journal | None = None, **options: object) -> Hub:
            given = journal if on is None else on
            options.setdefault("listen", self.listen(given))
            return Hub(given, clock=clock, executor=AtOnce(), **options)  # type: ignore[arg-type]

        return make

    @pytest.fixture
    def now(self) -> int:
        return START_MS

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

    async def test_a_run_that_is_over_is_told_and_ends_at_once(
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

    async def test_going_on_from_the_cursor_of_any_item_repeats_nothing_and_loses_nothing(
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

    async def test_going_on_from_a_cursor_that_was_saved_in_the_middle_of_live_events(
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

    async def test_a_straggler_restarts_the_quiet_time(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run, loop = new_run(), asyncio.get_running_loop()
        journal.append([started(run, now), completed(run, now + 100)])
        straggler = event(run, now + 50)

        async with make_hub() as hub:
            watch = Watch(hub.follow(run))
            await watch.caught_up()
            assert watch.follower.state.phase is Phase.DRAINING
            await asyncio.sleep(2.0)
            journal.append([straggler])
            await watch.has(3)
            came_at = loop.time()
            ended = await watch.end()

        assert watch.followed[-1].event == straggler
        assert watch.followed[-1].late
        assert ended.reason is Reason.ENDED
        assert 2.9 <= loop.time() - came_at <= 4.1

    async def test_a_drain_does_not_go_on_for_ever(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run, loop = new_run(), asyncio.get_running_loop()
        journal.append([completed(run, now)])

        async with make_hub() as hub:
            watch = Watch(hub.follow(run))
            for index in range(40):
                await asyncio.sleep(1.0)
                journal.append([event(run, now + 1 + index)])
                if watch.ended is not None:
                    break
            await watch.end()

        assert 15.0 <= loop.time() <= 17.1

    async def test_a_run_whose_counts_are_met_ends_at_once_and_one_with_a_gap_waits_for_it(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run, loop = new_run(), asyncio.get_running_loop()
        events = numbered(run, now, 6)
        missing = events.pop(3)
        journal.append(events)

        async with make_hub() as hub:
            watch = Watch(hub.follow(run))
            await watch.caught_up()
            await asyncio.sleep(1.5)
            assert watch.ended is None
            journal.append([missing])
            ended = await watch.end()

        assert loop.time() <= 2.6
        assert missing.event_id in watch.ids
        assert ended.reason is Reason.ENDED

    async def test_followers_that_join_at_different_times_each_get_everything_once(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run = new_run()
        told = [event(run, now + index, producer="p", number=index + 1) for index in range(30)]
        watches: list[Watch] = []

        async with make_hub(page_events=4) as hub:
            for index, each in enumerate(told):
                if index % 5 == 0:
                    watches.append(Watch(hub.follow(run)))
                journal.append([each])
                await asyncio.sleep(0.07 * (index % 4))
            journal.append([completed(run, now + 100, producer="p", number=31)])
            for watch in watches:
                await watch.end()

        for watch in watches:
            assert watch.ids[:30] == ids(told)
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

    async def test_a_slow_follower_is_told_and_gets_everything_and_the_others_do_not_wait(
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

    async def test_closing_the_hub_ends_every_follower(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        runs = [new_run() for _ in range(3)]
        journal.append([event(run, now) for run in runs])
        hub = make_hub()
        watches = [Watch(hub.follow(run)) for run in (*runs, runs[0])]
        for watch in watches:
            await watch.caught_up()

        await hub.aclose()
        endings = [await watch.end() for watch in watches]
        after = Watch(hub.follow(runs[0]))

        assert {ending.reason for ending in endings} == {Reason.STOPPED}
        assert {ending.status for ending in endings} == {Status.RUNNING}
        assert (await after.end()).reason is Reason.STOPPED
        assert len(asyncio.all_tasks()) == 1

    async def test_a_follower_can_be_stopped_with_a_reason(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run = new_run()
        journal.append([event(run, now)])

        async with make_hub() as hub:
            watch = Watch(hub.follow(run))
            await watch.caught_up()
            watch.follower.stop(Reason.NO_SUBSCRIBERS)
            ended = await watch.end()
            assert watch.follower.state.phase is Phase.ENDED

        assert ended == Ended(Reason.NO_SUBSCRIBERS, Status.RUNNING, None, watch.items[-2].cursor)

    async def test_a_silent_watch_gives_up_and_the_run_stays_open(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run, loop = new_run(), asyncio.get_running_loop()
        journal.append([started(run, now)])

        async with make_hub() as hub:
            watch = Watch(hub.follow(run, silent_after_seconds=20.0))
            other = Watch(hub.follow(run))
            await watch.caught_up()
            await asyncio.sleep(15.0)
            journal.append([event(run, now + 1)])
            await watch.has(2)
            ended = await watch.end()
            assert other.ended is None

        assert ended.reason is Reason.SILENT
        assert ended.status is Status.RUNNING
        assert ended.message is not None
        assert "stays open" in ended.message
        assert 34.9 <= loop.time() <= 36.0
        summary = journal.find_run(run)
        assert summary is not None
        assert summary.status is Status.RUNNING

    async def test_a_journal_that_does_not_answer_is_left_alone_longer_each_time(
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

        assert failing.asked_at[:5] == pytest.approx([0.0, 1.0, 3.0, 7.0, 15.0], abs=0.06)
        assert (state.failures, state.error, state.caught_up) == (3, "away", False)
        assert state.next_look_seconds == pytest.approx(3.5, abs=0.06)
        assert loop.time() < 16

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

    async def test_a_journal_that_can_not_be_used_ends_the_watch_with_its_message(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run = new_run()
        journal.append([event(run, now)])
        failing = Fails(journal)

        async with make_hub(failing) as hub:
            watch = Watch(hub.follow(run))
            await watch.caught_up()
            failing.fail(TableProblem("missing", "the table is gone"))
            journal.append([event(run, now + 1)])
            ended = await watch.end()

        assert (ended.reason, ended.message) == (Reason.UNUSABLE, "the table is gone")
        assert ended.status is Status.RUNNING

    async def test_a_cursor_that_no_journal_handed_out_ends_the_watch(
        self, make_hub: Callable[..., Hub]
    ) -> None:
        async with make_hub() as hub:
            watch = Watch(hub.follow("wf-1", after=Cursor("nonsense")))
            ended = await watch.end()

        assert watch.shape == "E"
        assert ended.reason is Reason.UNUSABLE
        assert "start" in str(ended.message)

    async def test_the_end_of_a_dead_process_is_written_once_by_two_watchers(
        self, journal: Journal, make_hub: Callable[..., Hub], open_again: OpenAgain, now: int
    ) -> None:
        run, process = new_run(), a_dead_process()
        journal.append([started(run, now, **process), event(run, now + 5, producer="p", number=1)])

        async with make_hub() as one, make_hub(open_again()) as other:
            watches = [Watch(one.follow(run)), Watch(one.follow(run)), Watch(other.follow(run))]
            endings = [await watch.end() for watch in watches]

        for watch, ended in zip(watches, endings, strict=True):
            assert (ended.reason, ended.status) == (Reason.PRODUCER_DEAD, Status.FAILED)
            assert f"process {process['pid']}" in str(ended.message)
            assert watch.shape.replace("C", "") == "FFFE"
            assert watch.events[-1].type == "workflow_error"
            assert watch.events[-1].payload["written_for"] is True
            assert not watch.followed[-1].late
        stored = [each for each in journal.read(run, thorough=True).events if each.type == "workflow_error"]
        assert len(stored) == 1
        assert journal.find_run(run).status is Status.FAILED  # type: ignore[union-attr]

    async def test_a_dead_process_is_noticed_by_one_who_goes_on_from_a_cursor(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run = new_run()
        journal.append([started(run, now, **a_dead_process()), event(run, now + 5)])
        cursor = journal.read(run).cursor

        async with make_hub() as hub:
            watch = Watch(hub.follow(run, after=cursor))
            ended = await watch.end()

        assert ended.reason is Reason.PRODUCER_DEAD
        assert watch.shape == "CFE"

    async def test_a_living_process_and_one_of_another_machine_are_left_alone(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        here, there = new_run(), new_run()
        journal.append([started(here, now, host=os.uname().nodename, pid=os.getpid())])
        journal.append([started(there, now, host="elsewhere.invalid", pid=2**22 - 1)])

        async with make_hub() as hub:
            watches = [Watch(hub.follow(run, silent_after_seconds=30.0)) for run in (here, there)]
            endings = [await watch.end() for watch in watches]

        assert {ended.reason for ended in endings} == {Reason.SILENT}

    async def test_who_started_the_process_may_still_say_how_it_ended(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run = new_run()
        journal.append([started(run, now, **a_dead_process())])
        said = event(
            run, now + 9, "workflow_error", payload={"status": "failed", "error_message": "exit code 3"}
        )

        async with make_hub() as hub:
            watch = Watch(hub.follow(run))
            await watch.caught_up()
            await asyncio.sleep(1.0)
            journal.append([said])
            ended = await watch.end()

        assert (ended.reason, ended.message) == (Reason.ENDED, "exit code 3")
        assert len(watch.events) == 2

    async def test_a_dead_process_in_a_journal_that_can_not_be_written_is_told(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run = new_run()
        journal.append([started(run, now, **a_dead_process())])
        failing = Fails(journal)
        failing.fail_appends(ReadOnlyJournal("no right to write"))

        async with make_hub(failing) as hub:
            watch = Watch(hub.follow(run))
            ended = await watch.end()

        assert (ended.reason, ended.status) == (Reason.PRODUCER_DEAD, Status.RUNNING)
        assert "no right to write" in str(ended.message)
        assert watch.shape == "FCE"

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

    async def test_the_limits_of_the_drain_can_be_chosen(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run = new_run()
        journal.append([completed(run, now)])

        async with make_hub(drain=DrainLimits(quiet_seconds=0.25)) as hub:
            watch = Watch(hub.follow(run))
            await watch.end()

        assert 0.2 <= asyncio.get_running_loop().time() <= 0.9

    async def test_a_follower_is_iterated_once(self, make_hub: Callable[..., Hub]) -> None:
        async with make_hub() as hub:
            follower = hub.follow("wf-1", after=START)
            items = aiter(follower)
            assert isinstance(await anext(items), CaughtUp)

            with pytest.raises(RuntimeError, match="another follower"):
                aiter(follower)

            await items.aclose()


class StoriesContract:
    """Everything at once, as hypothesis makes it up; each example in an event loop of its own."""

    examples = 100

    def open_store(self, clock: LoopClock, folder: Path) -> OpenAgain:
        """A new store, and how to open it."""
        raise NotImplementedError

    def listen(self, journal: Journal) -> Listen | None:
        return None

    def test_every_watcher_gets_every_event_exactly_once_whatever_happens(self, tmp_path: Path) -> None:
        clock, folders = LoopClock(), count()

        @settings(max_examples=self.examples, suppress_health_check=list(HealthCheck), deadline=None)
        @given(story=followed_stories())
        def check(story: FollowedStory) -> None:
            opened = self.open_store(clock, tmp_path / str(next(folders)))

            async def play() -> None:
                await FollowedPlay(opened, clock, story, self.listen).play()

            in_virtual_time(play)

        check()

"""Promises about how a watch ends: always, and with its reason."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from longwatch.errors import ReadOnlyJournal, TableProblem
from longwatch.following import CaughtUp, DrainLimits, Ended, Hub, Reason, WatchPhase
from longwatch.journal.base import Journal
from longwatch.journal.deletions import DeletesRuns
from longwatch.model.event import START, Cursor
from longwatch.model.process import this_process
from longwatch.model.run import Status
from tests.contract.events import OpenAgain, event, new_run
from tests.contract.faults import Fails
from tests.contract.follower_basis import FollowerBasis, a_dead_process, completed, numbered, started
from tests.contract.watches import Watch


class EndingsContract(FollowerBasis):
    """How following ends."""

    async def test_a_straggler_restarts_the_quiet_time(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run, loop = new_run(), asyncio.get_running_loop()
        journal.append([started(run, now), completed(run, now + 100)])
        straggler = event(run, now + 50)

        async with make_hub() as hub:
            watch = Watch(hub.follow(run))
            await watch.caught_up()
            assert watch.follower.state.phase is WatchPhase.DRAINING
            await asyncio.sleep(2.0)
            journal.append([straggler])
            await watch.has(3)
            came_at = loop.time()
            ended = await watch.end()

        assert watch.followed[-1].event == straggler
        assert watch.followed[-1].late
        assert ended.reason is Reason.ENDED
        assert 2.9 <= loop.time() - came_at <= 4.1

    async def test_a_drain_does_not_last_for_ever(
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
        never_used = make_hub()
        await never_used.aclose()
        assert (await Watch(never_used.follow(runs[0])).end()).reason is Reason.STOPPED
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
            assert watch.follower.state.phase is WatchPhase.ENDED

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

    async def test_a_run_that_waits_is_not_silent(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run, loop = new_run(), asyncio.get_running_loop()
        wait = {"call_id": "wait-1", "payload": {"reason": "approval"}}
        journal.append([started(run, now), event(run, now + 1, "waiting_started", **wait)])

        async with make_hub() as hub:
            watch = Watch(hub.follow(run, silent_after_seconds=20.0))
            await watch.caught_up()
            await asyncio.sleep(100.0)
            journal.append([event(run, now + 2, "waiting_ended", **wait)])
            ended = await watch.end()

        assert (ended.reason, ended.status) == (Reason.SILENT, Status.RUNNING)
        assert 119.9 <= loop.time() <= 121.0

    async def test_a_journal_that_can_not_be_used_ends_the_watch_with_its_message(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run = new_run()
        journal.append([event(run, now)])
        failing = Fails(journal)

        async with make_hub(failing) as hub:
            watch = Watch(hub.follow(run))
            await watch.caught_up()
            failing.fail(TableProblem("wrong-keys", "the table has other keys"))
            journal.append([event(run, now + 1)])
            ended = await watch.end()

        assert (ended.reason, ended.message) == (Reason.UNUSABLE, "the table has other keys")
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
            assert (ended.reason, ended.status) == (Reason.DIED, Status.DIED)
            assert f"Process {process['pid']}" in str(ended.message)
            assert watch.shape.replace("C", "") == "FFFE"
            assert watch.events[-1].type == "workflow_error"
            assert watch.events[-1].payload["written_for"] is True
            assert not watch.followed[-1].late
        stored = [each for each in journal.read(run, thorough=True).events if each.type == "workflow_error"]
        assert len(stored) == 1
        assert journal.find_run(run).status is Status.DIED  # type: ignore[union-attr]

    async def test_a_follower_that_resumes_from_a_cursor_notices_a_dead_process(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run = new_run()
        journal.append([started(run, now, **a_dead_process()), event(run, now + 5)])
        cursor = journal.read(run).cursor

        async with make_hub() as hub:
            watch = Watch(hub.follow(run, after=cursor))
            ended = await watch.end()

        assert ended.reason is Reason.DIED
        assert watch.shape == "CFE"

    async def test_a_living_process_and_one_of_another_machine_are_left_alone(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        here, there = new_run(), new_run()
        journal.append([started(here, now, **this_process().fields)])
        journal.append([started(there, now, host="elsewhere.invalid", pid=2**22 - 1)])

        async with make_hub() as hub:
            watches = [Watch(hub.follow(run, silent_after_seconds=30.0)) for run in (here, there)]
            endings = [await watch.end() for watch in watches]

        assert {ended.reason for ended in endings} == {Reason.SILENT}

    async def test_the_starter_of_the_process_may_still_report_its_ending(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run = new_run()
        journal.append([started(run, now, **a_dead_process())])
        reported = event(
            run, now + 9, "workflow_error", payload={"status": "failed", "error_message": "exit code 3"}
        )

        async with make_hub() as hub:
            watch = Watch(hub.follow(run))
            await watch.caught_up()
            await asyncio.sleep(1.0)
            journal.append([reported])
            ended = await watch.end()

        assert (ended.reason, ended.message) == (Reason.ENDED, "exit code 3")
        assert len(watch.events) == 2

    async def test_a_dead_process_in_a_journal_that_can_not_be_written_is_reported(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run = new_run()
        journal.append([started(run, now, **a_dead_process())])
        failing = Fails(journal)
        failing.fail_appends(ReadOnlyJournal("no right to write"))

        async with make_hub(failing) as hub:
            watch = Watch(hub.follow(run))
            ended = await watch.end()

        assert (ended.reason, ended.status) == (Reason.DIED, Status.DIED)
        assert "no right to write" in str(ended.message)
        assert watch.shape == "FCE"

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

            with pytest.raises(RuntimeError, match="already followed"):
                aiter(follower)

            await items.aclose()


class FollowedDeletionContract(FollowerBasis):
    """How following ends in a journal that deletes runs."""

    async def test_a_live_follower_ends_when_the_run_is_deleted(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run, other = new_run(), new_run()
        journal.append([started(run, now), started(other, now)])
        assert isinstance(journal, DeletesRuns)

        async with make_hub() as hub:
            watch, beside = Watch(hub.follow(run)), Watch(hub.follow(other))
            await watch.caught_up()
            await beside.caught_up()
            journal.delete_run(run, by="ann@host", force=True)
            ended = await watch.end()
            journal.append([event(other, now + 1)])
            await beside.has(2)

        assert (ended.reason, ended.status) == (Reason.DELETED, Status.RUNNING)
        assert "by ann@host" in (ended.message or "")
        assert [each.event.type for each in watch.followed] == ["workflow_start"]
        assert beside.ended is None or beside.ended.reason is Reason.STOPPED

    async def test_a_follower_of_a_deleted_run_ends_at_once(
        self, journal: Journal, make_hub: Callable[..., Hub], now: int
    ) -> None:
        run = new_run()
        journal.append([started(run, now), completed(run, now + 1)])
        assert isinstance(journal, DeletesRuns)
        journal.delete_run(run, by="ann@host")

        async with make_hub() as hub:
            watch = Watch(hub.follow(run))
            ended = await watch.end()

        assert (ended.reason, watch.followed) == (Reason.DELETED, [])

"""Followers of a journal file that is deleted or replaced: they report it, and never mix two files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from longwatch.following import Ended, Hub, Reason
from longwatch.journal.sqlite import SqliteJournal
from tests.contract.events import event, new_run
from tests.contract.watches import Watch
from tests.patience import PATIENCE_SECONDS


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110 - it happens in threads of the hub
            await asyncio.sleep(0.01)


def replacement(path: Path, run_id: str, count: int) -> Path:
    """Another journal, with more events of the same run."""
    other = path.with_name("other.db")
    with SqliteJournal(other) as journal:
        journal.append([event(run_id, n, event_id=f"other-{n}") for n in range(1, count + 1)])
    return other


async def test_a_follower_of_a_deleted_file_reports_it_and_waits(journal: SqliteJournal) -> None:
    run_id = new_run()
    journal.append([event(run_id, 1)])
    async with Hub(journal) as hub:
        watch = Watch(hub.follow(run_id))
        await watch.caught_up()

        journal.path.rename(journal.path.with_name("moved.db"))
        await until(lambda: watch.follower.state.failures > 0)

        assert "was deleted or moved while it was open" in (watch.follower.state.error or "")
        assert "was deleted or moved while it was open" in (hub.trouble() or "")
        assert not journal.path.exists()


async def test_a_follower_of_a_replaced_file_ends_and_the_next_one_reads_the_new_file(
    journal: SqliteJournal,
) -> None:
    run_id = new_run()
    journal.append([event(run_id, n) for n in range(1, 4)])
    async with Hub(journal) as hub:
        watch = Watch(hub.follow(run_id))
        await watch.caught_up()

        replacement(journal.path, run_id, 7).replace(journal.path)
        await watch.until(lambda watch: isinstance(watch.items[-1], Ended))
        again = Watch(hub.follow(run_id))
        await again.has(7)

        ended = watch.items[-1]
        assert isinstance(ended, Ended)
        assert ended.reason is Reason.UNUSABLE
        assert "was replaced while it was followed" in (ended.message or "")
        assert len(watch.events) == 3
        assert [each.event_id for each in again.events] == [f"other-{n}" for n in range(1, 8)]
        with SqliteJournal(journal.path) as writer:
            writer.append([event(run_id, 8)])
        await again.has(8)


async def test_a_follower_that_begins_while_the_file_is_missing_reads_the_one_that_comes(
    journal: SqliteJournal,
) -> None:
    run_id = new_run()
    journal.append([event(run_id, 1)])
    other = replacement(journal.path, run_id, 2)
    journal.path.unlink()
    async with Hub(journal) as hub:
        watch = Watch(hub.follow(run_id))
        await until(lambda: watch.follower.state.failures > 0)

        other.rename(journal.path)
        await watch.until(lambda watch: bool(watch.items))
        again = Watch(hub.follow(run_id))
        await again.has(2)

        assert [each.event_id for each in again.events] == ["other-1", "other-2"]

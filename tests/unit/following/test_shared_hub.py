"""`longwatch.follow`: who follows the same journal in the same loop shares a hub."""

from __future__ import annotations

import asyncio
import threading

import pytest

import longwatch
from longwatch.errors import InvalidJournalUrl
from longwatch.following import CaughtUp, Ended, Followed, Reason, follow, shared_hub
from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import Event
from tests.patience import PATIENCE_SECONDS


def made(at: int, type_: str = "note", **fields: object) -> Event:
    return Event(run_id="wf-1", event_id=str(at), type=type_, occurred_at=at, **fields)  # type: ignore[arg-type]


async def test_a_run_is_followed_from_its_beginning_to_its_end() -> None:
    journal = MemoryJournal()
    journal.append(
        [
            made(1, producer="p", number=1),
            made(2, "workflow_complete", producer="p", number=2),
            made(3, "producer_closed", payload={"count": 3}, producer="p", number=3),
        ]
    )

    items = [item async for item in longwatch.follow("wf-1", journal=journal)]

    assert [type(item) for item in items] == [Followed, Followed, Followed, CaughtUp, Ended]
    assert isinstance(items[-1], Ended)
    assert items[-1].reason is Reason.ENDED


async def test_it_resumes_from_a_cursor() -> None:
    journal = MemoryJournal()
    journal.append([made(1), made(2)])
    items = follow("wf-1", journal=journal)
    first = await anext(items)
    await items.aclose()

    rest = follow("wf-1", journal=journal, after=first.cursor)
    second = await anext(rest)
    await rest.aclose()

    assert isinstance(second, Followed)
    assert second.event.event_id == "2"


async def test_the_journal_is_that_of_the_settings_unless_one_is_named() -> None:
    longwatch.open_journal().append([made(1)])

    items = follow("wf-1", silent_after_seconds=30)
    first = await anext(items)
    await items.aclose()

    assert isinstance(first, Followed)


async def test_followers_of_one_journal_share_a_hub_until_the_last_one_leaves() -> None:
    journal = MemoryJournal()

    async with shared_hub(journal) as one, shared_hub(journal) as same, shared_hub(MemoryJournal()) as other:
        assert one is same
        assert one is not other
    async with shared_hub(journal) as later:
        assert later is not one


async def test_a_follower_that_leaves_in_the_middle_leaves_nothing_behind() -> None:
    journal, before = MemoryJournal(), set(_ours())  # other tests of this process may have left some
    journal.append([made(1)])

    async for _ in follow("wf-1", journal=journal):
        break

    async with asyncio.timeout(PATIENCE_SECONDS):
        # Python closes what was left, in a task of its own.
        while set(_ours()) - before or len(asyncio.all_tasks()) > 1:  # noqa: ASYNC110
            await asyncio.sleep(0)


def _ours() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("longwatch-")]


async def test_an_invalid_url_is_refused() -> None:
    with pytest.raises(InvalidJournalUrl, match="nonsense"):
        await anext(follow("wf-1", journal="nonsense"))

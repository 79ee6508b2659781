"""Any journal behind `await`."""

from __future__ import annotations

import asyncio
import threading

import pytest

from longwatch.errors import EventConflict
from longwatch.journal.asynchronous import AsyncJournal
from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import Event, Page
from longwatch.model.run_query import RunQuery
from tests.patience import PATIENCE_SECONDS


class SlowToRead(MemoryJournal):
    """A journal whose reads wait until they are let through."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = threading.Semaphore(0)
        self.let_through = threading.Event()

    def read(self, *args: object, **kwargs: object) -> Page:
        self.reading.release()
        assert self.let_through.wait(PATIENCE_SECONDS)
        return super().read(*args, **kwargs)  # type: ignore[arg-type]


def event(event_id: str, at: int = 1000, run_id: str = "wf-1") -> Event:
    return Event(run_id=run_id, event_id=event_id, type="note", occurred_at=at)


async def test_every_call_reaches_the_journal() -> None:
    async with AsyncJournal(MemoryJournal()) as journal:
        await journal.append([event("a"), event("b", at=2000), event("c", run_id="wf-2")])
        first = await journal.read("wf-1", limit=1)
        second = await journal.read("wf-1", after=first.cursor, limit=5, thorough=True)
        listed = await journal.find_runs(RunQuery(text="WF"), limit=1)
        rest = await journal.find_runs(RunQuery(text="WF"), after=listed.cursor)
        found = await journal.find_run("wf-2")

    assert [[one.event_id for one in page.events] for page in (first, second)] == [["a"], ["b"]]
    assert (first.more, second.more) == (True, False)
    assert [run.run_id for run in (*listed.runs, *rest.runs)] == ["wf-2", "wf-1"]
    assert found is not None
    assert found.events == 1


async def test_an_error_of_the_journal_is_raised_where_it_was_called() -> None:
    async with AsyncJournal(MemoryJournal()) as journal:
        await journal.append([event("a")])

        with pytest.raises(EventConflict):
            await journal.append([event("a", at=2000)])


async def test_several_calls_run_beside_each_other_and_the_loop_continues() -> None:
    slow = SlowToRead()
    async with AsyncJournal(slow, threads=2) as journal:
        reads = [asyncio.create_task(journal.read("wf-1")) for _ in range(2)]
        for _ in reads:
            assert await asyncio.to_thread(slow.reading.acquire, timeout=PATIENCE_SECONDS)
        slow.let_through.set()

        pages = await asyncio.gather(*reads)

    assert [page.events for page in pages] == [[], []]


async def test_the_calls_run_in_threads_of_its_own_that_end_with_it() -> None:
    journal = AsyncJournal(MemoryJournal())
    await journal.find_run("wf-1")
    before = [thread for thread in threading.enumerate() if thread.name.startswith("longwatch-journal")]

    await journal.aclose()

    assert before
    assert not any(thread.is_alive() for thread in before)


async def test_closing_lets_a_call_that_is_under_way_finish() -> None:
    slow = SlowToRead()
    journal = AsyncJournal(slow)
    read = asyncio.create_task(journal.read("wf-1"))
    assert await asyncio.to_thread(slow.reading.acquire, timeout=PATIENCE_SECONDS)
    closing = asyncio.create_task(journal.aclose())

    slow.let_through.set()
    await closing

    assert (await read).events == []


async def test_the_journal_itself_stays_open() -> None:
    memory = MemoryJournal()
    async with AsyncJournal(memory) as journal:
        await journal.append([event("a")])

    assert len(memory.read("wf-1").events) == 1
    assert journal.journal is memory

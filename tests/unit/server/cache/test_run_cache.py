"""The state of requested runs, without reading the journal each time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from longwatch.errors import JournalUnavailable, Unreachable
from longwatch.following.hub import Hub
from longwatch.following.progress import RunProgress
from longwatch.journal.asynchronous import AsyncJournal
from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import START, Cursor, Event, Page
from longwatch.server.cache import fold_cache
from longwatch.server.cache import run_cache as run_cache_module
from longwatch.server.cache.fold_cache import CachedFold
from longwatch.server.cache.rendered_responses import TURN
from longwatch.server.cache.run_cache import PULSE, RUN, CachedRun, RunCache
from tests.patience import PATIENCE_SECONDS


class CountedJournal(MemoryJournal):
    """Counts its reads, and can be away."""

    reads = 0
    returned = 0  # events
    is_away = False
    seconds_a_read = 0.0

    def read(self, run_id: str, *, after: Cursor = START, limit: int = 500, thorough: bool = False) -> Page:
        self.reads += 1
        if self.is_away:
            raise Unreachable("away")
        time.sleep(self.seconds_a_read)  # in a thread: a store that takes its time
        page = super().read(run_id, after=after, limit=limit, thorough=thorough)
        self.returned += len(page.events)
        return page


def event(number: int, type: str = "note", run_id: str = "wf-1") -> Event:
    return Event(run_id=run_id, event_id=f"{run_id}-{number}", type=type, occurred_at=1000 + number)


@pytest.fixture
def journal() -> CountedJournal:
    return CountedJournal()


@pytest.fixture
async def cache(journal: CountedJournal) -> AsyncIterator[RunCache]:
    async with AsyncJournal(journal) as calls, Hub(journal) as hub:
        running = RunCache(hub, calls, asyncio.Event())
        yield running
        await running.aclose()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110 - it is inside the cache
            await asyncio.sleep(0.001)


def append(journal: CountedJournal, *events: Event) -> None:
    journal.append(list(events))


async def test_only_the_first_request_reads_the_journal(cache: RunCache, journal: CountedJournal) -> None:
    append(journal, event(1), event(2))
    first = await cache.get(RUN, "wf-1")
    reads = journal.reads

    again = [await cache.get(RUN, "wf-1") for _ in range(100)]

    assert all(each is first for each in again)
    assert journal.reads == reads
    assert first.state is not None
    assert first.state.summary.events == 2


async def test_many_first_requests_at_once_follow_the_run_once(
    cache: RunCache, journal: CountedJournal
) -> None:
    append(journal, event(1))

    found = await asyncio.gather(*(cache.get(PULSE, "wf-1") for _ in range(50)))

    assert len({id(each) for each in found}) == 1
    assert len(cache) == 1


async def test_news_wake_every_waiting_request(cache: RunCache, journal: CountedJournal) -> None:
    append(journal, event(1))
    watched = await cache.get(PULSE, "wf-1")

    waiting = [asyncio.create_task(watched.wait_for_change(watched.revision, 20)) for _ in range(3)]
    await until(lambda: watched.is_waited_for)
    append(journal, event(2))

    assert await asyncio.gather(*waiting) == [True] * 3
    assert watched.state == 2


async def test_without_news_a_wait_ends_at_its_timeout(cache: RunCache, journal: CountedJournal) -> None:
    append(journal, event(1))
    watched = await cache.get(PULSE, "wf-1")

    assert not await watched.wait_for_change(watched.revision, 0.01)
    assert not watched.is_waited_for


async def test_a_missing_run_is_not_cached(cache: RunCache) -> None:
    watched = await cache.get(RUN, "none")

    cache.drop_empty(RUN, "none")

    assert (watched.state, len(cache)) == (None, 0)


async def test_runs_without_requests_leave_the_cache(
    cache: RunCache, journal: CountedJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_cache_module, "IDLE_SECONDS", 0.01)
    monkeypatch.setattr(run_cache_module, "SWEEP_SECONDS", 0.01)
    append(journal, event(1))

    await cache.get(PULSE, "wf-1")

    await until(lambda: len(cache) == 0)


async def test_a_full_cache_evicts_the_oldest_run(
    cache: RunCache, journal: CountedJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_cache_module, "MOST_RUNS", 20)
    for number in range(30):
        append(journal, event(1, run_id=f"wf-{number}"))

    for number in range(30):
        await cache.get(PULSE, f"wf-{number}")

    assert len(cache) <= 20
    assert cache.peek(PULSE, "wf-29") is not None
    assert cache.peek(PULSE, "wf-0") is None


async def test_late_events_of_an_ended_run_are_found(
    cache: RunCache, journal: CountedJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_cache_module, "FINAL_SECONDS", 0.0)
    append(journal, event(1, "workflow_start"), event(2, "workflow_error"))
    watched = await cache.get(RUN, "wf-1")
    await until(lambda: watched.final_until is not None)

    append(journal, event(3, "workflow_complete"))
    again = await cache.get(RUN, "wf-1")

    assert again is watched
    assert again.state is not None
    assert again.state.status == "succeeded"


async def test_a_fresh_write_is_shown_at_once_and_counts_once(
    cache: RunCache, journal: CountedJournal
) -> None:
    created = Event(
        run_id="turn-1",
        event_id="turn-1-00-created",
        type="turn_created",
        occurred_at=1000,
        payload={"project_id": "p", "conversation_id": "s", "number": 1},
    )
    block = Event(
        run_id="turn-1",
        event_id="b",
        type="block",
        occurred_at=1001,
        payload={"kind": "content", "text": "hello"},
    )
    append(journal, created)
    watched = await cache.get(TURN, "turn-1")
    before = watched.state.tag

    append(journal, block)
    await cache.catch_up("turn-1")
    shown = watched.state
    await until(lambda: not watched.is_ahead)  # the hub brings it too

    assert shown.tag != before
    assert (shown.state.block_count, watched.state.state.block_count) == (1, 1)
    assert watched.state.tag == shown.tag


async def test_a_run_that_is_read_ahead_of_the_hub_has_every_event_once(
    cache: RunCache, journal: CountedJournal
) -> None:
    append(journal, event(0))
    watched = await cache.get(RUN, "wf-1")

    for number in range(1, 50):
        append(journal, event(number))
        await cache.catch_up("wf-1")
        assert watched.state is not None
        assert watched.state.summary.events == number + 1
    await until(lambda: not watched.is_ahead)

    assert watched.state is not None
    assert (watched.state.summary.events, watched.events) == (50, 50)


def test_two_reads_ahead_at_once_are_distinguished() -> None:
    watched = CachedRun("wf-1", RUN)

    with watched.reading_ahead() as first:
        with watched.reading_ahead():
            pass
        watched.take([event(0)])
        watched.take_early([event(0)], first)

    assert (first, watched.events) == ({"wf-1-0"}, 1)


async def test_every_write_is_read_ahead_of_the_hub_however_many_there_are(
    cache: RunCache, journal: CountedJournal
) -> None:
    append(journal, event(0))
    watched = await cache.get(RUN, "wf-1")

    append(journal, *(event(number) for number in range(1, 1_201)))
    await cache.catch_up("wf-1")

    assert watched.state is not None
    assert watched.state.summary.events == 1_201
    await until(lambda: not watched.is_ahead)
    assert watched.events == 1_201


async def test_a_write_while_the_history_is_read_is_in_the_first_response(
    cache: RunCache, journal: CountedJournal
) -> None:
    append(journal, event(0))
    journal.seconds_a_read = 0.05
    first = asyncio.create_task(cache.get(RUN, "wf-1"))
    await until(lambda: journal.reads > 0)

    append(journal, event(1))
    await cache.catch_up("wf-1")
    watched = await cache.get(RUN, "wf-1")

    assert watched.state is not None
    assert watched.state.summary.events == 2
    await first


async def test_an_unavailable_journal_is_reported_in_good_time(
    cache: RunCache, journal: CountedJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_cache_module, "READY_SECONDS", 0.05)
    journal.is_away = True

    with pytest.raises(JournalUnavailable):
        await cache.get(RUN, "wf-1")


async def test_closing_wakes_every_waiting_request(journal: CountedJournal) -> None:
    closing = asyncio.Event()
    async with AsyncJournal(journal) as calls, Hub(journal) as hub:
        cache = RunCache(hub, calls, closing)
        append(journal, event(1))
        watched = await cache.get(PULSE, "wf-1")
        waiting = asyncio.create_task(watched.wait_for_change(watched.revision, 20))
        await until(lambda: watched.is_waited_for)

        closing.set()

        assert await waiting
        await cache.aclose()


async def test_a_long_run_that_left_the_cache_is_read_on_from_where_it_was_left(
    cache: RunCache, journal: CountedJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(journal, *(event(number) for number in range(5_000)))
    await cache.get(RUN, "wf-1")
    monkeypatch.setattr(run_cache_module, "IDLE_SECONDS", -1.0)
    monkeypatch.setattr(run_cache_module, "SWEEP_SECONDS", 0.01)
    cache._on_sweep()
    assert len(cache) == 0
    append(journal, event(5_000))
    before = journal.returned

    again = await cache.get(RUN, "wf-1")

    assert again.state is not None
    assert again.state.summary.events == 5_001
    assert journal.returned - before <= 2  # the new event, by the first request and by the follower


async def test_a_run_that_ended_while_it_was_not_cached_has_ended(
    cache: RunCache, journal: CountedJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(journal, *(event(number) for number in range(1_000)))
    await cache.get(RUN, "wf-1")
    monkeypatch.setattr(run_cache_module, "IDLE_SECONDS", -1.0)
    cache._on_sweep()
    append(journal, event(1_000, "workflow_complete"))

    again = await cache.get(RUN, "wf-1")
    await until(lambda: again.final_until is not None)

    assert again.state is not None
    assert (again.state.status, again.state.summary.events) == ("succeeded", 1_001)


async def test_a_request_that_waits_for_news_alone_reads_no_history(
    cache: RunCache, journal: CountedJournal
) -> None:
    append(journal, *(event(number) for number in range(10)))
    page = journal.read("wf-1")

    watched = await cache.get(PULSE, "wf-1", after=page.cursor)
    append(journal, event(10))
    await until(lambda: watched.events > 0)

    assert watched.state == 1


async def test_a_history_that_grows_slowly_is_waited_for_as_long_as_it_grows(
    cache: RunCache, journal: CountedJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_cache_module, "READY_SECONDS", 0.5)
    monkeypatch.setattr(fold_cache, "READ_EVENTS", 1)
    journal.seconds_a_read = 0.1
    append(journal, *(event(number) for number in range(12)))

    watched = await cache.get(RUN, "wf-1")

    assert watched.state is not None
    assert watched.state.summary.events == 12


async def test_pages_and_additions_of_a_long_fold_are_reported_one_by_one(
    journal: CountedJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold_cache, "READ_EVENTS", 1)
    append(journal, event(0), event(1))
    steps: list[str] = []

    def plus(count: int, events: Sequence[Event]) -> int:
        steps.append(f"{len(events)} added")
        return count + len(events)

    async with AsyncJournal(journal) as calls:
        cache = fold_cache.FoldCache(calls)
        fold = CachedFold(0, RunProgress(whole=True))
        await cache.read("wf-1", fold, plus, lambda: steps.append("progress"))

    assert steps == ["progress", "1 added", "progress"] * 2


def test_the_memory_of_runs_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_cache, "MAX_CACHED_EVENTS", 2_500)
    cache: fold_cache.FoldCache = fold_cache.FoldCache(AsyncJournal(MemoryJournal()))
    for number in range(4):
        cache.put(("run", f"wf-{number}"), CachedFold(number, RunProgress(whole=True), 1_000, Cursor("c")))
    cache.put(("run", "short"), CachedFold(9, RunProgress(whole=True), 10, Cursor("c")))

    found = [cache.start(("run", name), None).state for name in ("wf-0", "wf-1", "wf-2", "wf-3", "short")]

    assert found == [None, None, 2, 3, None]


def test_the_memory_of_a_run_is_dropped_in_time() -> None:
    now = 0.0
    cache: fold_cache.FoldCache = fold_cache.FoldCache(AsyncJournal(MemoryJournal()), now=lambda: now)
    cache.put(("run", "wf-1"), CachedFold(1, RunProgress(whole=True), 1_000, Cursor("c")))
    cache.put(("run", "wf-2"), CachedFold(2, RunProgress(whole=True), 1_000, Cursor("c")))

    now = fold_cache.MAX_CACHED_SECONDS
    soon = cache.start(("run", "wf-1"), 0)
    now += 1.0
    late = cache.start(("run", "wf-2"), 0)

    assert (soon.state, late.state) == (1, 0)

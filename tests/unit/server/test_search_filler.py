"""A server indexes what arrives, in small steps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from longwatch.journal.search import search_events
from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.sqlite.search_index import EVENTS_AT_ONCE
from longwatch.journal.sqlite.side_files import delete_file, search_path
from longwatch.model.event import Event
from longwatch.model.query_language import parse_query
from longwatch.server.search_filler import IDLE_SECONDS, MIN_PAUSE_SECONDS, SearchFiller, pause_seconds
from longwatch.testing import FakeClock

NOW = 1_794_736_931_000


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    with SqliteJournal(tmp_path / "j.db", clock=FakeClock(NOW)) as journal:
        yield journal


def notes(count: int, *, first: int = 0) -> list[Event]:
    return [
        Event(run_id="wf-1", event_id=f"e-{n}", type="note", occurred_at=NOW + n, payload={"text": "words"})
        for n in range(first, first + count)
    ]


def unindexed(journal: SqliteJournal) -> int:
    """How many events a search finds that it does not index itself."""
    query = parse_query("words", now_ms=NOW)
    return search_events(journal, query, limit=1, clock=FakeClock(NOW), max_catch_up=0).unindexed


async def test_steps_continue_until_everything_is_indexed_and_then_checks_are_rare(
    journal: SqliteJournal,
) -> None:
    journal.append(notes(EVENTS_AT_ONCE + 1))
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await SearchFiller(journal, FakeClock(NOW)).run(sleep=sleep)

    assert slept == [MIN_PAUSE_SECONDS, IDLE_SECONDS, IDLE_SECONDS]
    assert unindexed(journal) == 0


def test_an_index_without_news_is_not_opened(journal: SqliteJournal) -> None:
    filler = SearchFiller(journal, FakeClock(NOW))
    journal.append(notes(1))
    filler.step()
    delete_file(search_path(journal.path))

    filler.step()
    assert not search_path(journal.path).exists()
    journal.append(notes(1, first=1))
    filler.step()

    assert unindexed(journal) == 0


def test_an_index_that_is_damaged_is_filled_again(journal: SqliteJournal) -> None:
    filler = SearchFiller(journal, FakeClock(NOW))
    journal.append(notes(3))
    search_path(journal.path).write_bytes(b"no database at all" * 100)

    filler.step()
    filler.step()

    assert unindexed(journal) == 0


@pytest.mark.parametrize(
    ("left", "took", "pause"),
    [(0, 9.0, IDLE_SECONDS), (1, 0.0, MIN_PAUSE_SECONDS), (1, 0.2, pytest.approx(0.6))],
)
def test_a_pause_is_longer_than_the_step_before_it(left: int, took: float, pause: float) -> None:
    assert pause_seconds(left, took) == pause

"""Full-text search over a SQLite file, and over journals without an index."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from longwatch.errors import InvalidCursor, InvalidInput, JournalUnusable
from longwatch.journal.arrivals import Arrival
from longwatch.journal.base import Journal
from longwatch.journal.memory import MemoryJournal
from longwatch.journal.search import search_events
from longwatch.journal.sqlite.journal import SqliteJournal
from longwatch.journal.sqlite.search_index import SearchIndex, delete_runs
from longwatch.journal.sqlite.side_files import search_path
from longwatch.model.event import Cursor, Event
from longwatch.model.query_language import parse_query
from longwatch.testing.clock import FakeClock

NOW = 1_794_736_931_000


def event(run: str, number: int, type: str, **payload: object) -> Event:
    return Event(
        run_id=run, event_id=f"{run}-{number}", type=type, occurred_at=NOW - 9_000 + number, payload=payload
    )


STORY = [
    event("wf-1", 1, "workflow_start", tags=["nightly"]),
    event("wf-1", 2, "tool_call", operation="fetch_prices", error_message="Timed out"),
    event("wf-1", 3, "workflow_error", error_message="FeedError: the feed timed out"),
    event("wf-2", 1, "workflow_start"),
    event("wf-2", 2, "tool_call", output="It was timed well"),
]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    with SqliteJournal(tmp_path / "j.db", clock=FakeClock(NOW)) as journal:
        journal.append(STORY)
        yield journal


def found(journal: Journal, text: str) -> list[str]:
    result = search_events(journal, parse_query(text, now_ms=NOW), limit=50, clock=FakeClock(NOW))
    return [hit.event.event_id for hit in result.hits]


def test_events_of_all_runs_are_found_the_latest_arrival_first(journal: SqliteJournal) -> None:
    assert found(journal, "timed") == ["wf-2-2", "wf-1-3", "wf-1-2"]
    assert found(journal, '"timed out" feed') == ["wf-1-3"]
    assert found(journal, "timed status:failed tag:nightly") == ["wf-1-3", "wf-1-2"]
    assert found(journal, "timed -status:failed") == ["wf-2-2"]
    assert found(journal, "absent") == []


@pytest.mark.parametrize(
    ("text", "searched"),
    [
        ("Straße 7", "straße"),
        ("HAUPTSTRASSE 7", "hauptstraße"),
        ("İstanbul", "İstanbul"),
        ("ﬁnance", "finance"),
        ("cafe\u0301 au lait", '"café au"'),
        ("café au lait", '"cafe\u0301 au"'),
        ("Σίσυφος", "ΣΊΣΥΦΟΣ"),
    ],
)
def test_words_are_found_in_any_case_and_composition(
    journal: SqliteJournal, text: str, searched: str
) -> None:
    journal.append([event("wf-3", 1, "note", text=text)])

    assert found(journal, searched) == ["wf-3-1"]


def test_an_index_that_cannot_be_replaced_is_reported(journal: SqliteJournal) -> None:
    search_path(journal.path).mkdir()

    with pytest.raises(JournalUnusable, match="Cannot replace"):
        found(journal, "timed")


def test_a_search_indexes_what_has_arrived_since(journal: SqliteJournal) -> None:
    assert found(journal, "later") == []

    journal.append([event("wf-3", 1, "note", text="later")])

    assert found(journal, "later") == ["wf-3-1"]


def test_a_search_that_cannot_catch_up_states_how_much_is_left(journal: SqliteJournal) -> None:
    query = parse_query("timed", now_ms=NOW)

    first = search_events(journal, query, limit=9, clock=FakeClock(NOW), max_catch_up=2)
    second = search_events(journal, query, limit=9, clock=FakeClock(NOW), max_catch_up=9)

    assert ([hit.event.event_id for hit in first.hits], first.unindexed) == (["wf-1-2"], 3)
    assert (len(second.hits), second.unindexed) == (3, 0)


def foreign_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA application_id = 7")
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()


@pytest.mark.parametrize("content", [b"no database at all" * 100, None])
def test_an_index_that_is_damaged_or_of_another_program_is_filled_again(
    journal: SqliteJournal, content: bytes | None
) -> None:
    path = search_path(journal.path)
    if content is None:
        foreign_database(path)
    else:
        path.write_bytes(content)

    assert found(journal, "timed") == ["wf-2-2", "wf-1-3", "wf-1-2"]


def test_the_index_of_a_file_that_was_replaced_is_filled_again(
    journal: SqliteJournal, tmp_path: Path
) -> None:
    assert found(journal, "timed")
    with SqliteJournal(tmp_path / "other.db", clock=FakeClock(NOW)) as other:
        other.append([event("wf-9", number, "note", text=f"other {number}") for number in range(9)])
        search_path(journal.path).rename(search_path(other.path))

        assert found(other, "timed") == []
        assert len(found(other, "other")) == 9


def test_deleted_events_are_neither_found_nor_left_in_the_index(journal: SqliteJournal) -> None:
    assert found(journal, "timed")

    journal.prune(NOW)

    assert not search_path(journal.path).exists()
    assert found(journal, "timed") == []


def test_the_text_of_a_deleted_run_leaves_the_index_and_its_file(journal: SqliteJournal) -> None:
    assert found(journal, "prices") == ["wf-1-2"]

    delete_runs(journal, journal.path, ["wf-1", "wf-unknown"])

    assert found(journal, "timed") == ["wf-2-2"]
    assert found(journal, "prices") == []
    assert b"prices" not in search_path(journal.path).read_bytes()


def test_a_deletion_waits_until_what_was_read_before_it_is_indexed(journal: SqliteJournal) -> None:
    class Watched(SqliteJournal):
        def arrivals(self, after: int, *, limit: int) -> Sequence[Arrival]:
            connection = sqlite3.connect(search_path(self.path), timeout=0)
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                connection.execute("BEGIN IMMEDIATE")
            connection.close()
            return super().arrivals(after, limit=limit)

    with Watched(journal.path, clock=FakeClock(NOW)) as other:
        index = SearchIndex(other, other.path)

        assert index.catch_up(max_events=100) == 0

        index.close()


def test_deleting_a_run_creates_no_index(journal: SqliteJournal) -> None:
    delete_runs(journal, journal.path, ["wf-1"])

    assert not search_path(journal.path).exists()


def test_a_journal_without_an_index_searches_one_run_or_one_day() -> None:
    journal = MemoryJournal(clock=FakeClock(NOW))
    journal.append(STORY)

    assert found(journal, "timed run:wf-1") == ["wf-1-2", "wf-1-3"]
    assert sorted(found(journal, "timed since:1d")) == ["wf-1-2", "wf-1-3", "wf-2-2"]
    for text in ("timed", "timed since:2d", "timed -run:wf-1"):
        with pytest.raises(InvalidInput, match="at most one day"):
            found(journal, text)


def test_a_day_of_a_query_that_was_parsed_seconds_ago_is_still_one_day() -> None:
    journal = MemoryJournal(clock=FakeClock(NOW))
    journal.append(STORY)
    query = parse_query("timed since:1d", now_ms=NOW)

    page = search_events(journal, query, limit=5, clock=FakeClock(NOW + 3_000))

    assert len(page.hits) == 3


def all_pages(journal: Journal, text: str, **bounds: int) -> tuple[list[str], int]:
    """The events of all pages, and the number of pages."""
    ids, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        page = search_events(
            journal,
            parse_query(text, now_ms=NOW),
            after=cursor,
            clock=FakeClock(NOW),
            limit=bounds.get("limit", 50),
            max_examined=bounds.get("max_examined"),
        )
        ids += [hit.event.event_id for hit in page.hits]
        cursor, pages = page.cursor, pages + 1
    return ids, pages


@pytest.mark.parametrize("bounds", [{"limit": 1}, {"limit": 2}, {"max_examined": 1}, {"max_examined": 2}])
def test_pages_of_a_search_join_without_a_gap(journal: SqliteJournal, bounds: dict[str, int]) -> None:
    memory = MemoryJournal(clock=FakeClock(NOW))
    memory.append([*STORY, *(event(f"wf-{run}", 9, "note", text="timed") for run in range(3, 70))])

    indexed, pages = all_pages(journal, "timed", **bounds)
    scanned, more_pages = all_pages(memory, "timed since:1d", **bounds)

    assert indexed == ["wf-2-2", "wf-1-3", "wf-1-2"]
    assert pages > 1
    assert scanned == all_pages(memory, "timed since:1d")[0]
    assert sorted(scanned) == sorted([*indexed, *(f"wf-{run}-9" for run in range(3, 70))])
    assert more_pages > 30


def test_a_page_that_ends_with_the_last_hit_has_no_cursor(journal: SqliteJournal) -> None:
    page = search_events(journal, parse_query("timed", now_ms=NOW), limit=3, clock=FakeClock(NOW))

    assert (len(page.hits), page.cursor) == (3, None)


@pytest.mark.parametrize("cursor", ["", "x", "7", "[]", "[-1]", "[true]", '["1"]', "[null]", "[1,2]"])
def test_a_cursor_of_something_else_is_refused(journal: SqliteJournal, cursor: str) -> None:
    with pytest.raises(InvalidCursor):
        search_events(journal, parse_query("timed", now_ms=NOW), limit=3, after=Cursor(cursor))


def test_a_search_needs_words(journal: SqliteJournal) -> None:
    with pytest.raises(InvalidInput, match="at least one word"):
        found(journal, "status:failed")
    with pytest.raises(InvalidInput, match="cannot be negated"):
        found(journal, "timed -out")

"""What only the journal in memory does; its promises as a journal are in tests/contract."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.errors import EventConflict, InvalidCursor, InvalidEvent
from longwatch.journal.arrivals import ArrivalCursor
from longwatch.journal.base import Prunes
from longwatch.journal.memory import MemoryJournal, list_cursor, parse_list_cursor
from longwatch.model.event import START, Cursor, Event
from longwatch.model.run import summarise
from longwatch.testing.clock import FakeClock
from tests.strategies import RUN_ID, batches, run_ids, runs, times


def event(event_id: str, at: int = 1000, **fields: object) -> Event:
    return Event(run_id="wf-1", event_id=event_id, type="note", occurred_at=at, **fields)  # type: ignore[arg-type]


def ids(events: object) -> list[str]:
    assert isinstance(events, list)
    return [one.event_id for one in events]


def pages(journal: MemoryJournal, run_id: str, limit: int) -> Iterator[list[Event]]:
    after, more = START, True
    while more:
        page = journal.read(run_id, after=after, limit=limit)
        yield list(page.events)
        after, more = page.cursor, page.more


def test_the_very_same_event_appended_again_is_stored_once() -> None:
    journal, one = MemoryJournal(), event("a")

    journal.append([one, one])
    journal.append([one])

    assert ids(journal.read("wf-1").events) == ["a"]
    found = journal.find_run("wf-1")
    assert found is not None
    assert found.events == 1


def test_a_payload_that_is_changed_after_it_was_appended_is_stored_as_it_was() -> None:
    journal, payload = MemoryJournal(), {"steps": ["one"]}
    journal.append([event("a", payload=payload)])

    payload["steps"].append("two")

    (stored,) = journal.read("wf-1").events
    assert stored.payload == {"steps": ["one"]}


def test_a_payload_is_given_back_as_other_journals_would() -> None:
    journal = MemoryJournal()

    journal.append([event("a", payload={"pair": (1, 2)})])

    assert journal.read("wf-1").events[0].payload == {"pair": [1, 2]}


def test_a_batch_with_an_event_that_cannot_be_stored_leaves_nothing() -> None:
    journal = MemoryJournal()

    with pytest.raises(InvalidEvent):
        journal.append([event("a"), event("b", payload={"v": object()})])

    assert journal.read("wf-1").events == []


def test_a_conflict_names_its_events_and_the_rest_is_stored() -> None:
    journal = MemoryJournal()
    journal.append([event("a")])

    with pytest.raises(EventConflict) as refused:
        journal.append([event("b"), event("a", at=2000), event("c")])

    assert refused.value.event_ids == ("a",)
    assert ids(journal.read("wf-1").events) == ["a", "b", "c"]


def test_an_expired_event_is_not_read() -> None:
    clock = FakeClock(now_ms=10_000)
    journal = MemoryJournal(clock=clock)
    journal.append([event("a", ttl=11), event("b", ttl=12), event("c")])

    clock.advance(1)

    assert ids(journal.read("wf-1").events) == ["b", "c"]


@given(st.data(), runs(), st.integers(1, 4))
def test_pages_together_have_every_event_once_and_the_summary_fits(
    data: st.DataObject, events: list[Event], limit: int
) -> None:
    journal = MemoryJournal()
    for batch in data.draw(batches(events)):
        journal.append(batch)

    read = [one for page in pages(journal, RUN_ID, limit) for one in page]

    assert sorted(read, key=lambda one: one.order) == sorted(events, key=lambda one: one.order)
    assert journal.find_run(RUN_ID) == summarise(events)[RUN_ID]


def test_eight_threads_with_the_same_events_store_each_once() -> None:
    journal = MemoryJournal()
    events = [event(f"e{number}", at=number) for number in range(100)]
    threads = [
        threading.Thread(target=journal.append, args=(events[shift:] + events[:shift],)) for shift in range(8)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert ids(journal.read("wf-1").events) == ids(events)


def test_it_needs_no_pruning() -> None:
    journal = MemoryJournal("x")

    assert not isinstance(journal, Prunes)
    assert journal.url == "memory://x"


def test_it_is_used_as_a_context_and_stays_readable_under_its_name() -> None:
    with MemoryJournal("x") as journal:
        journal.append([event("a")])

    assert ids(journal.read("wf-1").events) == ["a"]


@given(st.integers(0, 10**18 - 1))
def test_a_position_comes_back_from_its_cursor(position: int) -> None:
    assert ArrivalCursor.of(ArrivalCursor(position).cursor) == ArrivalCursor(position)


@pytest.mark.parametrize("cursor", ["x", "-1", "1.5", " 1", "1_0", "²", "١", "9" * 19, "9" * 5000])
def test_a_cursor_of_another_kind_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidCursor, match="Read from the start"):
        ArrivalCursor.of(Cursor(cursor))


@given(times, run_ids)
def test_the_edge_of_a_list_comes_back_from_its_cursor(started_at: int, run_id: str) -> None:
    (run,) = summarise([Event(run_id=run_id, event_id="a", type="note", occurred_at=started_at)]).values()

    assert parse_list_cursor(list_cursor(run)) == (started_at, run_id)


@pytest.mark.parametrize("cursor", ["", "12", "x:wf-1", ":wf-1", "²:wf-1", "-1:wf-1"])
def test_a_list_cursor_of_another_kind_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidCursor, match="List from the start"):
        parse_list_cursor(Cursor(cursor))


def test_a_list_resumes_after_a_run_whose_id_has_a_colon() -> None:
    journal = MemoryJournal()
    journal.append(
        [
            Event(run_id=f"a:{number}", event_id=f"e{number}", type="note", occurred_at=number)
            for number in range(3)
        ]
    )

    first = journal.find_runs(limit=2)
    second = journal.find_runs(after=first.cursor, limit=2)

    assert [run.run_id for run in first.runs] == ["a:2", "a:1"]
    assert [run.run_id for run in second.runs] == ["a:0"]
    assert second.cursor is None

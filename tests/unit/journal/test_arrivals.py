"""Cursors and pages of journals that number what arrives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.errors import InvalidCursor
from longwatch.journal.arrivals import ArrivalCursor, ArrivalPage, page_of
from longwatch.journal.memory import MemoryJournal
from longwatch.model.event import START, Cursor, Event
from longwatch.model.numbering import NumberSet


@pytest.mark.parametrize(
    ("text", "arrived"),
    [
        ("", ArrivalCursor()),
        ("120", ArrivalCursor(120)),
        ("120+2", ArrivalCursor(120, NumberSet(((122, 122),)))),
        ("120+2-4,7", ArrivalCursor(120, NumberSet(((122, 124), (127, 127))))),
        ("0+5", ArrivalCursor(0, NumberSet(((5, 5),)))),
    ],
)
def test_a_cursor_encodes_the_position_and_what_lies_beyond(text: str, arrived: ArrivalCursor) -> None:
    assert ArrivalCursor.of(Cursor(text)) == arrived
    assert arrived.cursor == text


@pytest.mark.parametrize(
    "text",
    ["+", "+3", "1+", "1+0", "1+2-1", "1+4,2", "1+2,3", "1+a", "1+2-", "1+-2", "1+1-99999999", "²", "1+²"],
)
def test_an_invalid_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidCursor, match="start"):
        ArrivalCursor.of(Cursor(text))


def test_positions_beyond_are_merged_when_the_position_reaches_them() -> None:
    arrived = ArrivalCursor.of(Cursor("10+3-5,8"))

    assert arrived.up_to(9) == arrived
    assert arrived.up_to(11).cursor == "11+2-4,7"
    assert arrived.up_to(12).cursor == "15+3"
    assert arrived.up_to(14).cursor == "15+3"
    assert arrived.up_to(17).cursor == "18"
    assert arrived.up_to(40).cursor == "40"


times = st.lists(st.integers(0, 8), min_size=1, max_size=12)


@given(at=times, others=st.sets(st.integers(0, 11)), limit=st.integers(1, 12), counts=times)
def test_a_reader_may_leave_a_page_after_any_event(
    at: list[int], others: set[int], limit: int, counts: list[int]
) -> None:
    journal = MemoryJournal()
    for index, each in enumerate(at):
        run = "other" if index in others else "run"
        journal.append([Event(run_id=run, event_id=str(index), type="t", occurred_at=each)])
    wanted = sorted(str(index) for index in range(len(at)) if index not in others)

    seen: list[str] = []
    cursor = START
    while True:
        page = journal.read("run", after=cursor, limit=limit)
        count = min(len(page.events), counts.pop() if counts else limit)
        seen += [event.event_id for event in page.events[:count]]
        if count == len(page.events) and not page.more:
            break
        cursor = page.cursor_after(count)

    assert sorted(seen) == wanted


@given(at=times, split=st.integers(0, 12), read=st.integers(0, 12), limit=st.integers(1, 12))
def test_the_unseen_events_of_a_page_are_returned(at: list[int], split: int, read: int, limit: int) -> None:
    arrivals = [
        (index + 1, Event(run_id="run", event_id=str(index), type="t", occurred_at=each))
        for index, each in enumerate(at)
    ]
    split, read = min(split, len(at)), min(read, len(at))
    page = page_of(ArrivalCursor(split), arrivals[split:], end=ArrivalCursor(len(at)))
    reader = ArrivalCursor(read)

    unseen = page.unseen(reader.cursor)

    fresh = {event.event_id for event in unseen.events}
    assert fresh == {str(index) for index in range(max(split, read), len(at))}
    left = ArrivalCursor.of(unseen.cursor)
    assert [position for position in range(1, len(at) + 1) if position not in left] == list(
        range(read + 1, split + 1)
    )
    for count in range(len(unseen.events) + 1):
        after = ArrivalCursor.of(unseen.cursor_after(count))
        read_ids = {event.event_id for event in unseen.events[:count]}
        for position in range(1, len(at) + 1):
            assert (position in after) == (position <= read or str(position - 1) in read_ids)


def test_a_page_in_the_order_of_arrival_has_plain_cursors() -> None:
    events = [Event(run_id="r", event_id=str(n), type="t", occurred_at=n) for n in range(3)]

    page = page_of(ArrivalCursor(4), list(zip([6, 9, 11], events, strict=True)), end=ArrivalCursor(12))

    assert [page.cursor_after(count) for count in range(4)] == ["4", "6", "9", "12"]
    assert isinstance(page, ArrivalPage)

"""A follower's inbox: bounded room, and what it has seen already."""

from __future__ import annotations

from dataclasses import replace

from longwatch.following.inbox import MAX_BYTES, Inbox
from longwatch.journal.arrivals import ArrivalCursor, page_of
from longwatch.model.event import Event, Page


def page(first: int, last: int) -> Page:
    """Positions from one to the other."""
    events = [
        (at, Event(run_id="r", event_id=str(at), type="t", occurred_at=at)) for at in range(first, last + 1)
    ]
    return page_of(ArrivalCursor(first - 1), events, end=ArrivalCursor(last))


def ids(inbox: Inbox) -> list[str]:
    return [event.event_id for each in inbox.pages for event in each.events]


def test_pages_are_consumed_in_the_order_they_came() -> None:
    inbox = Inbox(max_events=10)

    assert inbox.put(page(1, 3))
    assert inbox.put(page(4, 5))

    assert [len(inbox.take().events), len(inbox.take().events), inbox.waiting] == [3, 2, 0]


def test_a_page_without_room_is_dropped_with_all_that_waits() -> None:
    inbox = Inbox(max_events=4)

    assert inbox.put(page(1, 3))
    assert not inbox.put(page(4, 5))

    assert (ids(inbox), inbox.waiting, inbox.dropped) == ([], 0, 5)


def test_large_events_without_room_are_dropped_though_they_are_few() -> None:
    inbox = Inbox(max_events=1_000)
    large, more = (
        replace(page(first, last), events=[replace(each, payload={"text": "x" * (MAX_BYTES // 2)})] * count)
        for first, last, count, each in ((1, 1, 1, page(1, 1).events[0]), (2, 3, 2, page(2, 2).events[0]))
    )

    assert inbox.put(large)
    assert not inbox.put(more)

    assert (inbox.waiting, inbox.waiting_bytes, inbox.dropped) == (0, 0, 3)


def test_an_empty_inbox_has_room_for_any_page() -> None:
    inbox = Inbox(max_events=2)

    assert inbox.put(page(1, 7))

    assert inbox.waiting == 7


def test_a_follower_that_settles_does_not_get_seen_events_again() -> None:
    inbox = Inbox(max_events=10)
    inbox.put(page(3, 4))
    inbox.put(page(5, 6))

    inbox.settle(ArrivalCursor(5).cursor)
    inbox.put(page(7, 7))

    assert ids(inbox) == ["6", "7"]
    assert inbox.own_cursor == "7"


def test_a_follower_that_joins_again_starts_again() -> None:
    inbox = Inbox(max_events=2)
    inbox.put(page(1, 2))
    inbox.put(page(3, 3))

    inbox.reset()

    assert (ids(inbox), inbox.dropped, inbox.is_settled, inbox.own_cursor) == ([], 0, False, None)

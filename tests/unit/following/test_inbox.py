"""A follower's seat: bounded room, and what it has seen already."""

from __future__ import annotations

from dataclasses import replace

from longwatch.following.inbox import ROOM_BYTES, Inbox
from longwatch.journal.arrivals import Arrived, page_of
from longwatch.model.event import Event, Page


def page(first: int, last: int) -> Page:
    """Positions from one to the other."""
    events = [
        (at, Event(run_id="r", event_id=str(at), type="t", occurred_at=at)) for at in range(first, last + 1)
    ]
    return page_of(Arrived(first - 1), events, end=Arrived(last))


def ids(seat: Inbox) -> list[str]:
    return [event.event_id for each in seat.pages for event in each.events]


def test_pages_are_taken_in_the_order_they_came() -> None:
    seat = Inbox(room=10)

    assert seat.feed(page(1, 3))
    assert seat.feed(page(4, 5))

    assert [len(seat.take().events), len(seat.take().events), seat.waiting] == [3, 2, 0]


def test_what_finds_no_room_is_dropped_with_all_that_waits() -> None:
    seat = Inbox(room=4)

    assert seat.feed(page(1, 3))
    assert not seat.feed(page(4, 5))

    assert (ids(seat), seat.waiting, seat.dropped) == ([], 0, 5)


def test_large_events_that_find_no_room_are_dropped_though_they_are_few() -> None:
    seat = Inbox(room=1_000)
    large, more = (
        replace(page(first, last), events=[replace(each, payload={"text": "x" * (ROOM_BYTES // 2)})] * count)
        for first, last, count, each in ((1, 1, 1, page(1, 1).events[0]), (2, 3, 2, page(2, 2).events[0]))
    )

    assert seat.feed(large)
    assert not seat.feed(more)

    assert (seat.waiting, seat.waiting_bytes, seat.dropped) == (0, 0, 3)


def test_an_empty_seat_has_room_for_any_page() -> None:
    seat = Inbox(room=2)

    assert seat.feed(page(1, 7))

    assert seat.waiting == 7


def test_one_who_settles_does_not_get_again_what_it_has_seen() -> None:
    seat = Inbox(room=10)
    seat.feed(page(3, 4))
    seat.feed(page(5, 6))

    seat.settle(Arrived(5).cursor)
    seat.feed(page(7, 7))

    assert ids(seat) == ["6", "7"]
    assert seat.own == "7"


def test_one_who_sits_down_again_begins_anew() -> None:
    seat = Inbox(room=2)
    seat.feed(page(1, 2))
    seat.feed(page(3, 3))

    seat.sit_down()

    assert (ids(seat), seat.dropped, seat.is_settled, seat.own) == ([], 0, False, None)

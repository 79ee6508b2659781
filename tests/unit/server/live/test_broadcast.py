"""The ring of a topic: places, cursors, and what happens to those who are too slow for it."""

from __future__ import annotations

import pytest

from longwatch.server.live.broadcast import Lapped, Ring
from longwatch.server.live.messages import Frame


def filled(count: int, *, frames: int = 100, size: int = 10**6, length: int = 10) -> Ring:
    ring = Ring("c0", frames=frames, size=size)
    for number in range(1, count + 1):
        ring.push(Frame("event", "x" * length, f"c{number}"))
    return ring


def test_a_place_is_found_by_its_cursor() -> None:
    ring = filled(5)

    assert [ring.place_of(f"c{number}") for number in range(6)] == [0, 1, 2, 3, 4, 5]
    assert ring.place_of("never") is None


def test_frames_come_from_a_place_on() -> None:
    ring = filled(5)

    assert [frame.cursor for frame in ring.after(3)] == ["c4", "c5"]
    assert ring.after(5) == []


def test_a_frame_without_a_cursor_is_told_again_to_whoever_resumes_before_it() -> None:
    ring = filled(1)
    ring.push(Frame("turn", "first part"))
    ring.push(Frame("turn", "second part", "c2"))

    place = ring.place_of("c1")

    assert place is not None
    assert [frame.data for frame in ring.after(place)] == ["first part", "second part"]


def test_the_ring_can_move_on_without_a_message() -> None:
    ring = filled(1)

    ring.stand_at("c9")

    assert ring.cursor == "c9"
    assert ring.place_of("c9") == ring.place_of("c1") == 1
    assert ring.cursor_at(1) == "c9"


def test_everybody_at_one_place_takes_the_same_piece() -> None:
    ring = filled(3)

    first, second = ring.chunk(1), ring.chunk(1)

    assert first[0] is second[0]
    assert first[0].count(b"\n\n") == 2
    assert first[1:] == (3, "c3")


def test_a_piece_ends_before_it_is_too_large() -> None:
    ring = filled(10, length=1_000)

    assert len(ring.after(0, size=3_500)) == 3
    assert len(ring.after(0, size=10)) == 1
    assert len(ring.all_after(0)) == 10


def test_old_frames_go_when_there_are_too_many_and_who_was_there_is_told() -> None:
    ring = filled(1_000, frames=10)

    assert 10 <= ring.end - ring.begin <= 20
    assert ring.place_of("c5") is None
    with pytest.raises(Lapped) as lapped:
        ring.after(5)
    assert lapped.value.count == ring.begin - 5


def test_old_frames_go_when_there_is_too_much_but_the_newest_stays() -> None:
    ring = filled(50, size=5_000, length=1_000)
    assert sum(len(frame.data) for frame in ring.all_after(ring.begin)) <= 5_000

    ring.push(Frame("event", "y" * 20_000, "large"))

    assert [frame.cursor for frame in ring.all_after(ring.end - 1)] == ["large"]


def test_every_place_that_is_left_has_its_cursor() -> None:
    ring = filled(333, frames=7)

    for place in range(ring.begin, ring.end + 1):
        assert ring.cursor_at(place) == f"c{place}"
        assert ring.place_of(f"c{place}") == place

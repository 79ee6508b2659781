"""The shared buffer: positions, cursors, readers that lag, and the task that fills it."""

from __future__ import annotations

import asyncio

import pytest

from longwatch.following.broadcast import Broadcast, Broadcasts, Lagged


def make(cursor: str, *, items: int = 100, size: int = 10**6) -> Broadcast[str]:
    return Broadcast(cursor, size=len, retain_items=items, retain_bytes=size)


def filled(count: int, *, items: int = 100, size: int = 10**6, length: int = 10) -> Broadcast[str]:
    broadcast = make("c0", items=items, size=size)
    for number in range(1, count + 1):
        broadcast.publish(f"{number}".ljust(length), f"c{number}")
    return broadcast


def test_a_position_is_found_by_its_cursor() -> None:
    broadcast = filled(5)

    assert [broadcast.position_of(f"c{number}") for number in range(6)] == [0, 1, 2, 3, 4, 5]
    assert broadcast.position_of("never") is None


def test_items_start_at_a_position() -> None:
    broadcast = filled(5)

    assert [item.strip() for item in broadcast.items_from(3)] == ["4", "5"]
    assert broadcast.items_from(5) == []


def test_an_item_without_a_cursor_is_read_again_by_a_reader_that_resumes_before_it() -> None:
    broadcast = filled(1)
    broadcast.publish("first part")
    broadcast.publish("second part", "c2")

    position = broadcast.position_of("c1")

    assert position is not None
    assert broadcast.items_from(position) == ["first part", "second part"]


def test_the_cursor_can_advance_without_an_item() -> None:
    broadcast = filled(1)

    broadcast.advance("c9")

    assert broadcast.cursor == "c9"
    assert broadcast.position_of("c9") == broadcast.position_of("c1") == 1
    assert broadcast.cursor_at(1) == "c9"


def test_a_read_has_a_limit() -> None:
    broadcast = filled(10, length=1_000)

    assert len(broadcast.items_from(0, max_bytes=3_500)) == 3
    assert len(broadcast.items_from(0, max_bytes=10)) == 1
    assert len(broadcast.all_from(0)) == 10


def test_old_items_are_dropped_when_there_are_too_many_and_a_slow_reader_learns_how_many() -> None:
    broadcast = filled(1_000, items=10)
    reader = broadcast.subscribe(lambda: None, 5)

    assert 10 <= broadcast.end - broadcast.begin <= 20
    assert broadcast.position_of("c5") is None
    with pytest.raises(Lagged) as lagged:
        reader.take()
    assert lagged.value.count == broadcast.begin - 5


def test_old_items_are_dropped_when_they_are_too_large_but_the_newest_stays() -> None:
    broadcast = filled(50, size=5_000, length=1_000)
    assert sum(map(len, broadcast.all_from(broadcast.begin))) <= 5_000

    broadcast.publish("y" * 20_000, "large")

    assert broadcast.all_from(broadcast.end - 1) == ["y" * 20_000]


def test_every_position_in_the_buffer_has_its_cursor() -> None:
    broadcast = filled(333, items=7)

    for position in range(broadcast.begin, broadcast.end + 1):
        assert broadcast.cursor_at(position) == f"c{position}"
        assert broadcast.position_of(f"c{position}") == position


async def test_a_reader_is_notified_once_for_everything_published_in_one_turn_of_the_loop() -> None:
    broadcast, calls = make("c0"), list[int]()
    reader = broadcast.subscribe(lambda: calls.append(broadcast.end))

    broadcast.publish("one", "c1")
    broadcast.publish("two", "c2")
    await asyncio.sleep(0)

    assert calls == [2]
    assert (list(reader.take()), reader.cursor, reader.is_at_end) == (["one", "two"], "c2", True)


@pytest.mark.looptime
async def test_a_broadcast_without_readers_closes_after_a_while_and_ends_its_task() -> None:
    broadcasts = Broadcasts(make, linger_seconds=5.0)
    broadcast = broadcasts.start("topic", "c0", lambda _: asyncio.Event().wait())  # type: ignore[arg-type,return-value]
    reader = broadcast.subscribe(lambda: None)
    await asyncio.sleep(60.0)
    assert broadcasts.get("topic") is broadcast

    reader.close()
    await asyncio.sleep(5.1)

    assert (broadcast.is_closed, broadcast.is_finished, len(broadcasts)) == (True, False, 0)
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("fails", [False, True])
async def test_a_broadcast_is_finished_if_its_task_returns_and_not_if_it_fails(fails: bool) -> None:
    async def fill(broadcast: Broadcast[str]) -> None:
        broadcast.publish("one", "c1")
        if fails:
            raise ValueError("planted")

    broadcasts, closed = Broadcasts(make), asyncio.Event()
    broadcast = broadcasts.start("topic", "c0", fill)
    reader = broadcast.subscribe(lambda: closed.set() if broadcast.is_closed else None)
    await closed.wait()

    assert broadcast.is_finished is not fails
    assert list(reader.take()) == ["one"]

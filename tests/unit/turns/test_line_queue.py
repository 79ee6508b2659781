"""Lines between the thread that reads them and the one that stores them."""

from __future__ import annotations

import threading

import pytest

from longwatch.turns.line_pump import LINE_COSTS, LineQueue
from tests.patience import PATIENCE_SECONDS


def take(waiting: LineQueue, *, lines: int = 100, characters: int = 10_000) -> tuple[list[str], bool]:
    return waiting.take(0.0, most_lines=lines, most_characters=characters)


def test_lines_come_out_in_order_and_the_last_batch_is_marked() -> None:
    waiting = LineQueue()
    for line in ("a", "b", "c"):
        assert waiting.put(line, 0.0)
    waiting.close()

    assert take(waiting, lines=2) == (["a", "b"], False)
    assert take(waiting) == (["c"], True)
    assert take(waiting) == ([], True)


def test_a_line_that_comes_after_the_last_one_is_dropped() -> None:
    waiting = LineQueue()
    waiting.put("a", 0.0)
    waiting.close()

    assert waiting.put("late", 0.0)

    assert take(waiting) == (["a"], True)


def test_a_batch_ends_at_its_size() -> None:
    waiting = LineQueue()
    for line in ("b" * 60, "c" * 60, "d"):
        waiting.put(line, 0.0)

    assert take(waiting, characters=100)[0] == ["b" * 60]
    assert take(waiting)[0] == ["c" * 60, "d"]


def test_a_producer_of_too_many_lines_has_to_wait_but_one_line_always_fits() -> None:
    waiting = LineQueue(most_characters=10, most_lines=5)

    assert waiting.put("x" * 1_000, 0.0)
    assert not waiting.put("y", 0.0)

    take(waiting)
    assert waiting.put("y", 0.0)


def test_characters_are_counted_with_what_each_line_costs() -> None:
    waiting = LineQueue(most_characters=2 * LINE_COSTS, most_lines=100)

    assert waiting.put("", 0.0)
    assert waiting.put("", 0.0)
    assert not waiting.put("", 0.0)


def test_a_producer_that_waits_for_room_continues_as_soon_as_there_is_some() -> None:
    waiting = LineQueue(most_lines=1)
    waiting.put("first", 0.0)
    done: list[bool] = []
    writer = threading.Thread(target=lambda: done.append(waiting.put("second", 30.0)))
    writer.start()

    assert take(waiting)[0] == ["first"]
    writer.join(PATIENCE_SECONDS)

    assert done == [True]
    assert take(waiting)[0] == ["second"]


FRAGMENT = '{"type":"stream_event","event":{}}'


def gather(waiting: LineQueue, seconds: float) -> list[str]:
    return waiting.take(0.0, most_lines=4, most_characters=10_000, gather_seconds=seconds)[0]


@pytest.mark.parametrize("others", [['{"type":"assistant"}'], [FRAGMENT] * 3])
def test_fragments_of_a_message_wait_for_each_other_but_not_for_long(others: list[str]) -> None:
    waiting = LineQueue()
    waiting.put(FRAGMENT, 0.0)
    writer = threading.Timer(0.02, lambda: [waiting.put(line, 0.0) for line in others])
    writer.start()

    assert gather(waiting, PATIENCE_SECONDS) == [FRAGMENT, *others]

    writer.join()
    waiting.put(FRAGMENT, 0.0)
    assert gather(waiting, 0.01) == [FRAGMENT]


def test_nothing_is_gathered_when_the_output_has_ended_or_another_line_waits() -> None:
    waiting = LineQueue()
    waiting.put('{"type":"assistant"}', 0.0)
    waiting.put(FRAGMENT, 0.0)
    assert gather(waiting, PATIENCE_SECONDS) == ['{"type":"assistant"}', FRAGMENT]

    waiting.put(FRAGMENT, 0.0)
    waiting.close()
    assert gather(waiting, PATIENCE_SECONDS) == [FRAGMENT]

"""What is read ahead for a viewer: bounded over all its topics, and closed when the viewer takes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest

from longwatch.server.live.messages import Frame
from longwatch.server.live.read_ahead import READERS, ReadAhead
from longwatch.server.live.subscription import FrameBroadcast, JoinPoint, TopicSubscription
from tests.patience import PATIENCE_SECONDS

SIZE = 1_000


class Numbers:
    """A topic of so many frames, whose cursor is how many were read."""

    def __init__(self, count: int, topic: str = "numbers", *, has_cursors: bool = True) -> None:
        self.topic = topic
        self.opened = 0
        self.open = 0  # readers that were not closed
        self._count = count
        self._has_cursors = has_cursors

    async def read(self, after: str) -> AsyncGenerator[Sequence[Frame] | JoinPoint, None]:
        self.opened += 1
        self.open += 1
        try:
            for number in range(int(after or 0), self._count):
                cursor = str(number + 1) if self._has_cursors else None
                yield [Frame("event", f"{number}".ljust(SIZE), cursor)]
        finally:
            self.open -= 1


async def turns(count: int = 50) -> None:
    """Let everything run that can."""
    for _ in range(count):
        await asyncio.sleep(0)


async def drained(*subscriptions: TopicSubscription) -> list[list[int]]:
    """All items of each of them, read in turns until it is over."""
    found: list[list[int]] = [[] for _ in subscriptions]
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not all(each.is_over for each in subscriptions):
            for index, each in enumerate(subscriptions):
                found[index] += [int(frame.data) for frame in each.take()]
            await asyncio.sleep(0)
    return found


async def test_a_reader_whose_viewer_consumes_nothing_is_closed_and_resumes_without_a_gap() -> None:
    source, ahead = Numbers(40), ReadAhead(5 * SIZE)
    subscription = TopicSubscription(source, "", lambda: None, ahead, stalled_seconds=0.0)
    await turns()
    was_open = source.open

    (found,) = await drained(subscription)

    assert was_open == 0
    assert source.opened > 1
    assert found == list(range(40))


async def test_a_reader_stays_open_between_frames_that_cannot_be_resumed_from() -> None:
    source = Numbers(40, has_cursors=False)
    subscription = TopicSubscription(source, "", lambda: None, ReadAhead(5 * SIZE), stalled_seconds=0.0)
    await turns()

    (found,) = await drained(subscription)

    assert source.opened == 1
    assert found == list(range(40))


@pytest.mark.parametrize("topics", [2, 50])
async def test_all_topics_of_a_viewer_share_what_is_read_ahead(topics: int) -> None:
    ahead = ReadAhead(5 * SIZE)
    sources = [Numbers(10, f"topic-{number}") for number in range(topics)]
    subscriptions = [
        TopicSubscription(source, "", lambda: None, ahead, stalled_seconds=0.0) for source in sources
    ]
    await turns(200)
    begun = sum(source.opened for source in sources)

    found = await drained(*subscriptions)

    assert begun <= 5 + READERS  # most have not even begun
    assert found == [list(range(10))] * topics


async def test_items_left_by_a_closed_subscription_do_not_count_any_more() -> None:
    ahead = ReadAhead(5 * SIZE)
    left = TopicSubscription(Numbers(40, "left"), "", lambda: None, ahead, stalled_seconds=0.0)
    await turns()
    other = TopicSubscription(Numbers(3, "other"), "", lambda: None, ahead, stalled_seconds=0.0)

    left.close()
    (found,) = await drained(other)

    assert found == [0, 1, 2]


def test_viewers_at_one_position_share_the_rendered_bytes() -> None:
    broadcast = FrameBroadcast("c0")
    for number in range(1, 4):
        broadcast.push(Frame("event", "x", f"c{number}"))

    first, second = broadcast.chunk(1), broadcast.chunk(1)

    assert first[0] is second[0]
    assert first[0].count(b"\n\n") == 2
    assert first[1:] == (3, "c3")

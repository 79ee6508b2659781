"""A subscription hands values to its event loop in bounded room, and notices when its reader has left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from longwatch.following.callbacks import WAITING_VALUES, Subscription
from tests.patience import PATIENCE_SECONDS


def always() -> bool:
    return True


def never() -> bool:
    return False


def subscription(
    callback: Callable[[int], object], loop: asyncio.AbstractEventLoop | None
) -> Subscription[int]:
    return Subscription(callback, loop=loop, left=lambda _: None, raised=lambda _: None)


async def test_it_is_full_until_its_loop_has_consumed_what_waits() -> None:
    delivered: list[int] = []
    mine = subscription(delivered.append, asyncio.get_running_loop())
    for value in range(WAITING_VALUES):
        assert not mine.is_full
        mine.hand(value, always)

    was_full = mine.is_full
    async with asyncio.timeout(PATIENCE_SECONDS):
        await mine.has_room()

    assert was_full
    assert not mine.is_full
    assert delivered == list(range(len(delivered)))
    assert len(delivered) >= WAITING_VALUES // 2


async def test_a_disposed_subscription_is_not_waited_for() -> None:
    mine = subscription(lambda _: mine.dispose(), asyncio.get_running_loop())
    for value in range(WAITING_VALUES):
        mine.hand(value, always)

    async with asyncio.timeout(PATIENCE_SECONDS):
        await mine.has_room()

    assert not mine.is_active


async def test_a_closed_loop_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    elsewhere = asyncio.new_event_loop()
    mine = subscription(lambda _: None, elsewhere)
    for value in range(WAITING_VALUES):
        mine.hand(value, always)
    elsewhere.close()

    async with asyncio.timeout(PATIENCE_SECONDS):
        await mine.has_room()

    assert not mine.is_active
    assert "is closed; it is not called any more" in caplog.text


async def test_other_tasks_of_the_loop_run_while_many_values_are_consumed() -> None:
    delivered: list[int] = []
    mine = subscription(delivered.append, asyncio.get_running_loop())
    for value in range(WAITING_VALUES - 1):
        mine.hand(value, always)

    await asyncio.sleep(0)

    assert 0 < len(delivered) < WAITING_VALUES // 2


def test_values_that_are_no_longer_wanted_are_not_delivered() -> None:
    delivered: list[int] = []
    mine = subscription(delivered.append, None)

    mine.hand(1, never)
    mine.hand(2, always)

    assert delivered == [2]

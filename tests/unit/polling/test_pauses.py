"""A pause keeps everything, and resuming polls at once."""

from __future__ import annotations

import asyncio

import pytest

from longwatch.polling import PollingManager
from tests.unit.polling.virtual import Source

pytestmark = pytest.mark.looptime


async def test_a_pause_preserves_everything_and_resuming_polls_at_once(manager: PollingManager) -> None:
    source = Source()
    manager.register("a", source.poll, 10.0)
    await asyncio.sleep(12)

    manager.pause()
    manager.pause()
    await asyncio.sleep(100)
    assert source.started == [0, 10]
    assert manager.is_paused
    manager.resume()
    manager.resume()
    await asyncio.sleep(15)

    assert source.started == [0, 10, 112, 122]


async def test_a_pause_does_not_count_as_two_minutes_without_news(manager: PollingManager) -> None:
    source = Source()
    registration = manager.register("a", source.poll)
    await asyncio.sleep(10.5)

    manager.pause()
    await asyncio.sleep(1_000)
    manager.resume()
    await asyncio.sleep(5)

    assert not registration.state.stopped
    assert source.started[-5:] == [1010.5, 1011.5, 1012.5, 1013.5, 1014.5]


async def test_requests_in_flight_at_a_pause_are_delivered_and_queued_ones_wait(
    manager: PollingManager,
) -> None:
    source, results = Source(seconds=1.0), list[int]()
    for key in range(5):
        manager.register(key, source.poll, 10.0, on_result=lambda _, key=key: results.append(key))  # type: ignore[misc]
    await asyncio.sleep(0.5)

    manager.pause()
    await asyncio.sleep(10)
    assert sorted(results) == [0, 1, 2]
    manager.resume()
    await asyncio.sleep(1.5)

    assert set(results[3:]) > {3, 4}


async def test_after_a_pause_a_failing_key_waits_for_the_rest_of_its_backoff(manager: PollingManager) -> None:
    source = Source()
    source.error = OSError("refused")
    registration = manager.register("a", source.poll, 1.0, on_error=lambda error: None)
    await asyncio.sleep(2.5)

    manager.pause()
    await asyncio.sleep(1)
    manager.resume()
    await asyncio.sleep(3)

    assert source.started == [0, 2, 6]
    assert registration.state.failures == 3


async def test_a_subscriber_that_registers_during_a_pause_is_polled_for_when_it_ends(
    manager: PollingManager,
) -> None:
    source = Source()
    manager.pause()

    manager.register("a", source.poll, 10.0)
    manager.touch("a")
    await asyncio.sleep(5)
    assert source.started == []
    manager.resume()
    await asyncio.sleep(1)

    assert source.started == [5]

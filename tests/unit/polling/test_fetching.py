"""One shared request without a schedule."""

from __future__ import annotations

import asyncio

import pytest

from longwatch.polling import PollingManager
from tests.unit.polling.virtual import Source, others

pytestmark = pytest.mark.looptime


async def test_concurrent_callers_share_one_request() -> None:
    source = Source(seconds=0.3, value=7)

    async with PollingManager() as manager:
        responses = await asyncio.gather(*(manager.fetch("a", source.poll) for _ in range(100)))

        assert responses == [7] * 100
        assert source.started == [0]
        assert manager.metrics.shared == 99


async def test_a_caller_within_500_ms_of_the_response_gets_it_again() -> None:
    source = Source(seconds=0.3)

    async with PollingManager() as manager:
        await manager.fetch("a", source.poll)
        await asyncio.sleep(0.499)
        await manager.fetch("a", source.poll)
        assert source.started == [0]
        await asyncio.sleep(0.001)
        await manager.fetch("a", source.poll)

        assert source.started == [0, 0.8]
        assert manager.metrics.cache_hits == 1


async def test_a_cache_time_of_zero_disables_the_cache() -> None:
    source = Source()

    async with PollingManager(cache_seconds=0) as manager:
        await manager.fetch("a", source.poll)
        await manager.fetch("a", source.poll)

    assert len(source.started) == 2


async def test_nothing_is_remembered_longer_than_the_cache_lives() -> None:
    async with PollingManager() as manager:
        for key in range(50):
            await manager.fetch(key, Source().poll)
        assert manager.metrics.keys == 50

        await asyncio.sleep(0.6)

        assert manager.metrics.keys == 0
        assert others() == set()


async def test_requests_of_different_keys_keep_to_the_limit() -> None:
    source = Source(seconds=1.0)

    async with PollingManager() as manager:
        await asyncio.gather(*(manager.fetch(key, source.poll) for key in range(7)))

    assert source.started == [0, 0, 0, 1, 1, 1, 2]
    assert source.most_at_once == 3


async def test_a_failure_is_raised_to_every_caller_and_not_cached() -> None:
    source, error = Source(seconds=0.1), OSError("refused")
    source.error = error

    async with PollingManager() as manager:
        responses = await asyncio.gather(
            *(manager.fetch("a", source.poll) for _ in range(3)), return_exceptions=True
        )
        source.error = None

        assert responses == [error] * 3
        assert await manager.fetch("a", source.poll) == "same"
        assert manager.metrics.failures == 1


async def test_a_caller_that_gives_up_leaves_the_request_to_the_others() -> None:
    source = Source(seconds=1.0, value=7)

    async with PollingManager() as manager:
        impatient = asyncio.create_task(manager.fetch("a", source.poll))
        patient = asyncio.create_task(manager.fetch("a", source.poll))
        await asyncio.sleep(0.5)
        impatient.cancel()

        assert await patient == 7
        assert source.cancelled == 0


async def test_when_the_last_caller_gives_up_the_request_is_cancelled() -> None:
    source = Source(seconds=1.0)

    async with PollingManager() as manager:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(manager.fetch("a", source.poll), 0.5)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

        assert source.cancelled == 1
        assert manager.metrics.keys == manager.metrics.in_flight == 0


async def test_a_request_that_no_caller_waits_for_any_more_never_starts() -> None:
    source = Source(seconds=1.0)

    async with PollingManager(max_concurrent=1) as manager:
        first = asyncio.create_task(manager.fetch("a", source.poll))
        second = asyncio.create_task(manager.fetch("b", source.poll))
        await asyncio.sleep(0.5)
        second.cancel()
        await first
        await asyncio.sleep(5)

        assert source.started == [0]
        assert manager.metrics.queued == 0


async def test_a_fetch_and_a_subscription_share_requests_and_responses() -> None:
    source, results = Source(seconds=0.2), list[object]()

    async with PollingManager() as manager:
        manager.register("a", source.poll, 10.0, on_result=results.append)
        await asyncio.sleep(0.1)
        await manager.fetch("a", source.poll)  # shares the one in flight
        await manager.fetch("a", source.poll)  # from the cache
        assert source.started == [0]
        await asyncio.sleep(4)

        await manager.fetch("a", source.poll)  # polls, and the subscriber is notified
        await asyncio.sleep(9.5)

        assert source.started == [0, 4.2]
        assert len(results) == 2


async def test_a_subscription_after_a_fetch_gets_its_response_and_continues_from_there() -> None:
    source, results = Source(value=7), list[object]()

    async with PollingManager() as manager:
        await manager.fetch("a", source.poll)
        await asyncio.sleep(0.4)
        manager.register("a", source.poll, 2.0, on_result=results.append)
        await asyncio.sleep(0.1)
        assert results == [7]
        await asyncio.sleep(2)

    assert source.started == [0, 2]


async def test_a_fetch_outlives_the_subscription_whose_request_it_shares() -> None:
    source, results = Source(seconds=1.0, value=7), list[object]()

    async with PollingManager() as manager:
        registration = manager.register("a", source.poll, 10.0, on_result=results.append)
        fetch = asyncio.create_task(manager.fetch("a", source.poll))
        await asyncio.sleep(0.5)
        registration.dispose()

        assert await fetch == 7
        assert results == []
        assert manager.metrics.keys == 0


async def test_a_fetch_outlives_a_subscription_whose_request_had_not_begun() -> None:
    async with PollingManager(max_concurrent=1) as manager:
        manager.register("busy", Source(seconds=1.0).poll, 10.0)
        registration = manager.register("a", Source(value="the subscriber's").poll, 10.0)
        fetch = asyncio.create_task(manager.fetch("a", Source(value="mine").poll))
        await asyncio.sleep(0.5)
        registration.dispose()

        assert await fetch == "mine"


async def test_a_fetch_that_fails_does_not_hold_up_a_subscription_that_comes_after_it() -> None:
    source = Source()
    source.error = OSError("refused")

    async with PollingManager() as manager:
        with pytest.raises(OSError, match="refused"):
            await manager.fetch("a", source.poll)
        source.error = None
        manager.register("a", source.poll, 10.0)
        await asyncio.sleep(1)

    assert source.started == [0, 0]


async def test_a_fetch_goes_through_a_pause() -> None:
    source = Source(value=7)

    async with PollingManager() as manager:
        manager.register("a", source.poll, 1.0)
        manager.pause()

        assert await manager.fetch("a", source.poll) == 7
        await asyncio.sleep(5)

        assert source.started == [0]


async def test_a_fetch_that_gives_up_in_a_pause_leaves_nothing_queued() -> None:
    source = Source(seconds=1.0)

    async with PollingManager(max_concurrent=1) as manager:
        manager.register("busy", source.poll, 100.0)
        manager.register("a", source.poll, 100.0)
        fetch = asyncio.create_task(manager.fetch("a", source.poll))
        await asyncio.sleep(0.5)
        manager.pause()
        assert manager.metrics.queued == 1

        fetch.cancel()
        await asyncio.sleep(5)
        assert source.started == [0]
        manager.resume()
        await asyncio.sleep(5)

        assert len(source.started) == 3

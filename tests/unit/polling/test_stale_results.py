"""A request from before a subscriber left is not delivered to one that came after."""

from __future__ import annotations

import asyncio
import threading

import pytest

from longwatch.polling import REQUEST_BACKOFF, PollingManager
from longwatch.polling.shared_poll import SharedPoll, Subscriber
from tests.unit.polling.virtual import Source, until

pytestmark = pytest.mark.looptime


async def test_leaving_during_a_request_drops_its_result_and_cancels_it() -> None:
    source, results = Source(seconds=1.0), list[object]()

    async with PollingManager() as manager:
        registration = manager.register("a", source.poll, 10.0, on_result=results.append)
        await asyncio.sleep(0.5)
        registration.dispose()
        await asyncio.sleep(5)

        assert results == []
        assert source.cancelled == 1
        assert manager.metrics.in_flight == 0


async def test_leaving_before_a_request_has_begun_frees_its_slot() -> None:
    source = Source()

    async with PollingManager(max_concurrent=1) as manager:
        manager.register("a", source.poll, 10.0).dispose()
        manager.register("b", source.poll, 10.0)
        await asyncio.sleep(1)

        assert source.started == [0]
        assert manager.metrics.in_flight == 0


async def test_a_poll_in_flight_during_unregister_and_register_never_delivers_into_the_new_one() -> None:
    source, old, new = Source(seconds=1.0, value="old"), list[object](), list[object]()

    async with PollingManager() as manager:
        manager.register("a", source.poll, 10.0, on_result=old.append)
        await asyncio.sleep(0.5)
        manager.unregister("a")
        source.value = "new"
        manager.register("a", source.poll, 10.0, on_result=new.append)
        await asyncio.sleep(5)

    assert old == []
    assert new == ["new"]


async def test_the_same_when_the_old_poll_will_not_be_cancelled() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
        return "old"

    new = list[object]()

    async with PollingManager() as manager:
        manager.register("a", stubborn, 10.0)
        await asyncio.sleep(0.5)
        manager.unregister("a")
        manager.register("a", Source(value="new").poll, 10.0, on_result=new.append)
        await asyncio.sleep(5)

    assert new == ["new"]


async def test_the_same_when_the_old_poll_is_in_a_thread() -> None:
    response, new = threading.Event(), list[object]()

    def slow() -> str:
        response.wait()
        return "old"

    async with PollingManager() as manager:
        manager.register("a", slow, 10.0)
        manager.unregister("a")
        manager.register("a", Source(value="new").poll, 10.0, on_result=new.append)
        await until(lambda: bool(new))
        assert manager.metrics.in_flight == 1  # the thread keeps its slot until it is done
        response.set()
        await until(lambda: not manager.metrics.in_flight)

    assert new == ["new"]


async def test_an_old_failure_does_not_count_against_the_new_registration() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
        raise OSError("the old one's")

    async with PollingManager() as manager:
        manager.register("a", stubborn, 10.0)
        await asyncio.sleep(0.5)
        manager.unregister("a")
        registration = manager.register("a", Source().poll, 10.0)
        await asyncio.sleep(5)

        assert registration.state.failures == 0


async def test_a_response_that_only_a_fetch_still_waits_for_goes_to_the_fetch_alone() -> None:
    source, new = Source(seconds=1.0, value="old"), list[object]()

    async with PollingManager() as manager:
        manager.register("a", source.poll, 10.0)
        fetch = asyncio.create_task(manager.fetch("a", source.poll))
        await asyncio.sleep(0.5)
        manager.unregister("a")
        source.value = "new"
        manager.register("a", source.poll, 10.0, on_result=new.append)

        assert await fetch == "old"
        await asyncio.sleep(5)

    assert new == ["new"]


def test_a_cached_result_never_comes_after_a_newer_one() -> None:
    results = list[object]()
    shared = SharedPoll("a", REQUEST_BACKOFF)
    subscriber = Subscriber(shared, Source().poll, 1.0, results.append, None)

    subscriber.deliver("new")
    subscriber.catch_up("cached")

    assert results == ["new"]


async def test_the_cache_of_a_key_ends_with_its_last_subscriber() -> None:
    source, new = Source(value="old"), list[object]()

    async with PollingManager() as manager:
        registration = manager.register("a", source.poll, 10.0)
        await asyncio.sleep(0.1)
        registration.dispose()
        source.value = "new"
        manager.register("a", source.poll, 10.0, on_result=new.append)
        await asyncio.sleep(0.1)

    assert new == ["new"]

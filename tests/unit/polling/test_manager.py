"""The polling manager: schedules, sharing, the cache and the limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from longwatch.errors import InvalidInput
from longwatch.polling import PollingManager
from tests.unit.polling.virtual import Source, now

pytestmark = pytest.mark.looptime


async def test_it_polls_at_once_and_then_at_the_interval(manager: PollingManager) -> None:
    source, results = Source(value=1), list[object]()

    manager.register("a", source.poll, 2.0, on_result=results.append)
    await asyncio.sleep(6.5)

    assert source.started == [0, 2, 4, 6]
    assert results == [1, 1, 1, 1]


async def test_the_interval_counts_from_the_start_of_a_poll(manager: PollingManager) -> None:
    source = Source(seconds=0.7)

    manager.register("a", source.poll, 2.0)
    await asyncio.sleep(7)

    assert source.started == [0, 2, 4, 6]


async def test_a_poll_that_takes_longer_than_its_interval_never_overlaps_itself(
    manager: PollingManager,
) -> None:
    source = Source(seconds=2.5)

    manager.register("a", source.poll, 1.0)
    await asyncio.sleep(7.4)

    assert source.started == [0, 2.5, 5]
    assert source.most_at_once == 1


async def test_without_an_interval_it_follows_the_ramp_and_stops_without_news(
    manager: PollingManager,
) -> None:
    source = Source()

    registration = manager.register("a", source.poll)
    await asyncio.sleep(300)

    assert source.started[:31] == list(range(31))
    assert source.started[31:34] == [31.5, 33.75, 37.125]  # in slots of 5 ms
    assert 120 <= source.started[-1] < 125.1
    assert registration.state.stopped
    assert registration.state.reason == "no news for 120 s"
    assert registration.due_at is None


async def test_a_changed_result_is_news(manager: PollingManager) -> None:
    source = Source()
    manager.register("a", source.poll)
    await asyncio.sleep(100)

    source.value = "changed"
    await asyncio.sleep(100)

    assert source.started[-1] > 190


async def test_results_that_cannot_be_compared_count_as_news(manager: PollingManager) -> None:
    class Array:
        def __eq__(self, other: object) -> bool:
            raise ValueError("the truth value of an array is ambiguous")

        __hash__ = None  # type: ignore[assignment]

    source = Source(value=Array())
    manager.register("a", source.poll)

    await asyncio.sleep(200)

    assert source.started[-1] > 190


async def test_a_touch_resumes_a_ramp_that_stopped(manager: PollingManager) -> None:
    source = Source()
    manager.register("a", source.poll)
    await asyncio.sleep(300)
    source.started.clear()

    manager.touch("a")
    await asyncio.sleep(3.5)

    assert source.started == [300, 301, 302, 303]


async def test_a_touch_quickens_a_ramp_that_has_slowed_down_and_postpones_nothing(
    manager: PollingManager,
) -> None:
    source = Source()
    manager.register("a", source.poll)
    await asyncio.sleep(60)
    source.started.clear()

    for _ in range(20):  # the mouse moves all the time
        manager.touch()
        await asyncio.sleep(0.3)

    assert len(source.started) >= 5


async def test_touching_a_key_without_subscribers_does_nothing(manager: PollingManager) -> None:
    manager.touch("nobody")
    manager.touch()

    assert manager.metrics.calls == 0


async def test_subscribers_of_one_key_share_one_poll(manager: PollingManager) -> None:
    source, first, second = Source(seconds=0.2, value=1), list[object](), list[object]()

    manager.register("a", source.poll, 2.0, on_result=first.append)
    await asyncio.sleep(0.1)
    manager.register("a", source.poll, 2.0, on_result=second.append)  # while the first request is in flight
    await asyncio.sleep(4.5)

    assert source.started == [0, 2, 4]
    assert first == second == [1, 1, 1]
    assert manager.metrics.shared == 1


async def test_the_poll_ends_with_the_last_subscriber_not_with_the_first(manager: PollingManager) -> None:
    source = Source()
    first = manager.register("a", source.poll, 1.0)
    second = manager.register("a", source.poll, 1.0)

    await asyncio.sleep(1.5)
    first.dispose()
    first.dispose()
    await asyncio.sleep(1)
    still = len(source.started)
    second.dispose()
    await asyncio.sleep(5)

    assert still == 3
    assert len(source.started) == 3
    assert manager.metrics.keys == 0


async def test_a_key_may_be_unregistered_as_often_as_it_was_registered(manager: PollingManager) -> None:
    source = Source()
    manager.register("a", source.poll, 1.0)
    manager.register("a", source.poll, 1.0)

    manager.unregister("a")
    assert manager.metrics.subscribers == 1
    manager.unregister("a")
    assert manager.metrics.subscribers == 0
    manager.unregister("a")
    manager.unregister("never there")


async def test_leaving_as_a_context_manager(manager: PollingManager) -> None:
    with manager.register("a", Source().poll, 1.0) as registration:
        assert registration.active
        assert registration.key == "a"

    assert not registration.active
    assert manager.states() == {}


async def test_the_most_eager_subscriber_sets_the_pace_while_it_is_there(manager: PollingManager) -> None:
    source = Source()
    manager.register("a", source.poll, 10.0)
    await asyncio.sleep(3)

    eager = manager.register("a", source.poll, 2.0)
    await asyncio.sleep(4.5)
    eager.dispose()
    await asyncio.sleep(20)

    assert source.started == [0, 3, 5, 7, 17, 27]


async def test_the_poll_of_the_oldest_subscriber_still_there_is_called(manager: PollingManager) -> None:
    mine, yours = Source(value="mine"), Source(value="yours")
    first = manager.register("a", mine.poll, 1.0)
    manager.register("a", yours.poll, 1.0)
    await asyncio.sleep(0.5)

    first.dispose()
    await asyncio.sleep(1)

    assert (mine.started, yours.started) == ([0], [1])


async def test_a_new_subscriber_within_500_ms_gets_the_cached_result_without_a_request(
    manager: PollingManager,
) -> None:
    source, results = Source(value=1), list[tuple[float, object]]()
    manager.register("a", source.poll, 10.0)
    await asyncio.sleep(0.499)

    manager.register("a", source.poll, 10.0, on_result=lambda value: results.append((now(), value)))
    await asyncio.sleep(5)

    assert results == [(0.499, 1)]
    assert source.started == [0]
    assert manager.metrics.cache_hits == 1


async def test_a_new_subscriber_after_500_ms_is_polled_for_at_once(manager: PollingManager) -> None:
    source, results = Source(value=1), list[object]()
    manager.register("a", source.poll, 10.0)
    await asyncio.sleep(0.5)

    manager.register("a", source.poll, 10.0, on_result=results.append)
    await asyncio.sleep(5)

    assert source.started == [0, 0.5]
    assert results == [1]


async def test_a_cached_result_is_not_delivered_to_a_subscriber_that_left_at_once(
    manager: PollingManager,
) -> None:
    results = list[object]()
    manager.register("a", Source().poll, 10.0)
    await asyncio.sleep(0.1)

    manager.register("a", Source().poll, 10.0, on_result=results.append).dispose()
    await asyncio.sleep(1)

    assert results == []


async def test_at_most_three_requests_are_in_flight(manager: PollingManager) -> None:
    source = Source(seconds=1.0)

    for key in range(10):
        manager.register(key, source.poll, 100.0)
    await asyncio.sleep(0.5)

    assert source.at_once == 3
    assert (manager.metrics.in_flight, manager.metrics.queued) == (3, 7)
    await asyncio.sleep(10)
    assert source.started == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    assert source.most_at_once == 3


async def test_waiting_keys_are_served_in_the_order_in_which_they_fell_due() -> None:
    requested = list[str]()

    def poll_of(key: str) -> Callable[[], Coroutine[Any, Any, None]]:
        async def poll() -> None:
            requested.append(key)
            await asyncio.sleep(1)

        return poll

    async with PollingManager(max_concurrent=1) as manager:
        for key in "abcde":
            manager.register(key, poll_of(key), 0.1)
        await asyncio.sleep(14.5)

    assert "".join(requested) == "abcdeabcdeabcde"


async def test_lag_is_how_late_a_poll_began(manager: PollingManager) -> None:
    source = Source(seconds=1.0)

    for key in range(4):
        manager.register(key, source.poll, 100.0)
    await asyncio.sleep(50)

    assert manager.metrics.calls == 4
    assert manager.metrics.lag.last == manager.metrics.lag.most == pytest.approx(1)
    assert manager.metrics.lag.p50 == 0


async def test_states_are_there_to_be_shown(manager: PollingManager) -> None:
    manager.register("a", Source().poll, 2.0)
    await asyncio.sleep(1)

    state = manager.states()["a"]

    assert (state.next_delay, state.failures, state.stopped, state.reason) == (2.0, 0, False, None)


@pytest.mark.parametrize("interval", [0, -1, float("nan")])
async def test_an_invalid_interval_is_refused_and_changes_nothing(
    manager: PollingManager, interval: float
) -> None:
    with pytest.raises(InvalidInput, match="seconds above 0"):
        manager.register("a", Source().poll, interval)

    assert manager.metrics.keys == 0


async def test_a_callback_that_would_have_to_be_awaited_is_refused(manager: PollingManager) -> None:
    async def later(value: object) -> None:
        raise AssertionError("awaited")

    with pytest.raises(InvalidInput, match="on_result of the poll 'a' is a coroutine function"):
        manager.register("a", Source().poll, 1.0, on_result=later)

    assert manager.metrics.keys == 0


def test_a_manager_without_room_is_refused() -> None:
    with pytest.raises(InvalidInput, match="max_concurrent 0"):
        PollingManager(max_concurrent=0)

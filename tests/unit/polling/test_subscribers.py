"""Subscribers that raise, leave in the middle or do anything else in their callbacks; threads; contexts."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from functools import partial

import pytest

from longwatch.polling import PollingManager, Registration
from tests.unit.polling.virtual import Source, until

pytestmark = pytest.mark.looptime

run: ContextVar[str] = ContextVar("run", default="none")


def bad(value: object) -> None:
    raise ValueError(f"cannot take {value}")


async def test_a_subscriber_that_raises_is_notified_and_affects_no_other() -> None:
    results, errors = list[object](), list[Exception]()

    async with PollingManager() as manager:
        manager.register("a", Source(value=1).poll, 1.0, on_result=bad, on_error=errors.append)
        registration = manager.register("a", Source(value=1).poll, 1.0, on_result=results.append)
        await asyncio.sleep(2.5)

        assert results == [1, 1, 1]
        assert [str(error) for error in errors] == ["cannot take 1"] * 3
        assert registration.state.failures == 0


async def test_a_subscriber_that_raises_without_an_error_listener_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with PollingManager() as manager:
        manager.register("a", Source(value=1).poll, 10.0, on_result=bad)
        await asyncio.sleep(1)

    (record,) = caplog.records
    assert record.getMessage() == "on_result of a subscriber of 'a' raised an exception"
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)


async def test_a_listener_for_errors_that_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    source, errors = Source(), list[Exception]()
    source.error = OSError("refused")

    async with PollingManager() as manager:
        manager.register("a", source.poll, 10.0, on_error=bad)
        manager.register("a", source.poll, 10.0, on_error=errors.append)
        await asyncio.sleep(1)

    assert errors == [source.error]
    assert "on_error of a subscriber of 'a' raised" in caplog.text


async def test_a_subscriber_removed_by_an_earlier_callback_is_not_called() -> None:
    second: list[Registration] = []
    results = list[object]()

    async with PollingManager() as manager:
        manager.register("a", Source().poll, 1.0, on_result=lambda _: second[0].dispose())
        second.append(manager.register("a", Source().poll, 1.0, on_result=results.append))
        await asyncio.sleep(3)

    assert results == []


async def test_a_subscriber_may_leave_in_its_own_callback() -> None:
    source, mine = Source(), list[Registration]()

    async with PollingManager() as manager:
        mine.append(manager.register("a", source.poll, 1.0, on_result=lambda _: mine[0].dispose()))
        await asyncio.sleep(5)

        assert source.started == [0]
        assert manager.metrics.keys == 0


async def test_a_subscriber_may_register_pause_and_close_in_its_callback() -> None:
    source, other = Source(), Source()

    async with PollingManager() as manager:
        manager.register("a", source.poll, 1.0, on_result=lambda _: manager.register("b", other.poll, 1.0))
        await asyncio.sleep(0.5)
        assert other.started == [0]
        manager.register("c", source.poll, 1.0, on_result=lambda _: manager.pause())
        await asyncio.sleep(0.1)
        assert manager.is_paused
        manager.register("d", source.poll, 1.0, on_result=lambda _: manager.close())
        manager.resume()
        await asyncio.sleep(5)

        assert manager.is_closed


async def test_a_plain_function_is_called_in_a_thread_and_its_result_delivered_on_the_loop() -> None:
    called_in, delivered_in = list[int](), list[int]()
    done = asyncio.Event()

    def blocking() -> str:
        called_in.append(threading.get_ident())
        return "answer"

    def deliver(value: str) -> None:
        delivered_in.append(threading.get_ident())
        done.set()

    async with PollingManager() as manager:
        manager.register("a", blocking, 10.0, on_result=deliver)
        await done.wait()

    assert delivered_in == [threading.get_ident()]
    assert called_in != delivered_in


async def test_whatever_can_be_called_can_be_polled() -> None:
    class Asks:
        async def __call__(self) -> str:
            return "called"

    async def response(value: str) -> str:
        return value

    async with PollingManager() as manager:
        assert await manager.fetch("object", Asks()) == "called"
        assert await manager.fetch("partial", partial(response, "partly")) == "partly"
        assert await manager.fetch("lambda", lambda: response("wrapped")) == "wrapped"
        assert await manager.fetch("constant", lambda: "plain") == "plain"


async def test_an_exception_in_a_thread_is_raised_here() -> None:
    def refused() -> None:
        raise OSError("refused")

    def exhausted() -> None:
        next(iter(()))

    async with PollingManager() as manager:
        with pytest.raises(OSError, match="refused"):
            await manager.fetch("a", refused)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await manager.fetch("b", exhausted)


async def test_threads_keep_to_the_limit_too() -> None:
    lock, response = threading.Lock(), threading.Event()
    at_once = most = 0

    def slow() -> None:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        response.wait()
        with lock:
            at_once -= 1

    async with PollingManager() as manager:
        fetches = [asyncio.ensure_future(manager.fetch(key, slow)) for key in range(9)]
        await until(lambda: at_once == 3)
        assert manager.metrics.in_flight == 3
        response.set()
        await asyncio.gather(*fetches)

    assert most == 3


async def test_each_subscriber_is_called_in_the_context_it_registered_in() -> None:
    seen = list[tuple[str, str]]()

    async def poll() -> str:
        await asyncio.sleep(0.1)
        return run.get()

    def register(name: str, manager: PollingManager) -> None:
        run.set(name)
        manager.register("a", poll, 10.0, on_result=lambda value: seen.append((run.get(), value)))

    async def start(name: str, manager: PollingManager) -> None:
        register(name, manager)

    async with PollingManager() as manager:
        for name in ("mine", "yours"):
            await asyncio.create_task(start(name, manager))
        await asyncio.sleep(1)
        fetched = await manager.fetch("b", run.get)

    assert seen == [("mine", "mine"), ("yours", "mine")]  # requested once, by the first of the two
    assert fetched == "none"

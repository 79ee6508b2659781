"""Ends: nothing is left running, whether one closes, forgets to, or is interrupted."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from longwatch.errors import InvalidInput, NotWorthAnotherTry
from longwatch.polling import PollingManager, polling_manager
from tests.patience import PATIENCE_SECONDS
from tests.unit.polling.virtual import Source, in_virtual_time, others, until


@pytest.mark.looptime
async def test_closing_leaves_no_task_and_delivers_nothing_more() -> None:
    source, results = Source(seconds=1.0), list[object]()
    manager = PollingManager()
    registrations = [manager.register(key, source.poll, 1.0, on_result=results.append) for key in range(10)]
    await asyncio.sleep(0.5)

    await manager.aclose()

    assert others() == set()
    assert source.cancelled == 3
    assert results == []
    assert not any(registration.active for registration in registrations)
    for registration in registrations:
        registration.dispose()
    manager.unregister(3)
    manager.close()
    await manager.aclose()


@pytest.mark.looptime
async def test_closing_without_waiting_ends_the_tasks_a_moment_later() -> None:
    manager = PollingManager()
    manager.register("a", Source(seconds=1.0).poll, 1.0)
    await asyncio.sleep(0.5)

    manager.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert others() == set()


@pytest.mark.looptime
async def test_a_closed_manager_refuses_work() -> None:
    manager = PollingManager()
    manager.close()

    with pytest.raises(NotWorthAnotherTry, match="closed"):
        manager.register("a", Source().poll, 1.0)
    with pytest.raises(NotWorthAnotherTry, match="closed"):
        await manager.fetch("a", Source().poll)


@pytest.mark.looptime
async def test_a_caller_that_waits_for_a_result_is_notified_that_none_will_come() -> None:
    manager = PollingManager(max_concurrent=1)
    fetches = [asyncio.create_task(manager.fetch(key, Source(seconds=1.0).poll)) for key in range(3)]
    await asyncio.sleep(0.5)

    await manager.aclose()

    for response in await asyncio.gather(*fetches, return_exceptions=True):
        assert isinstance(response, NotWorthAnotherTry)


@pytest.mark.looptime
async def test_closing_waits_for_a_poll_that_ends_in_order() -> None:
    ended = list[str]()

    async def careful() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(1)
            ended.append("in order")

    async with PollingManager() as manager:
        manager.register("a", careful, 1.0)
        await asyncio.sleep(0.5)

    assert ended == ["in order"]
    assert others() == set()


@pytest.mark.looptime
async def test_a_manager_that_is_closed_by_its_own_poll_does_not_wait_for_itself() -> None:
    manager = PollingManager()

    async def poll() -> None:
        await manager.aclose()

    manager.register("a", poll, 1.0)
    await asyncio.sleep(1)

    assert manager.is_closed
    assert others() == set()


@pytest.mark.looptime
async def test_without_subscribers_there_is_no_task() -> None:
    manager = PollingManager()
    with manager.register("a", Source().poll, 1.0):
        await asyncio.sleep(3)
        assert len(others()) == 1
    await asyncio.sleep(1)

    assert others() == set()


@pytest.mark.looptime
async def test_ten_thousand_keys_are_waited_for_by_one_task() -> None:
    async with PollingManager() as manager:
        for key in range(10_000):
            manager.register(key, Source().poll, 60.0)
        await asyncio.sleep(30)

        assert manager.metrics.calls == 10_000
        assert len(others()) == 1


@pytest.mark.looptime
async def test_closing_does_not_wait_for_a_thread() -> None:
    started, response = threading.Event(), threading.Event()

    def slow() -> None:
        started.set()
        response.wait()

    manager = PollingManager()
    manager.register("a", slow, 1.0)
    await until(started.is_set)

    await manager.aclose()
    response.set()

    assert others() == set()


def test_a_loop_that_ends_without_a_close_leaves_nothing_behind(
    caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    source, managers = Source(seconds=0.2), list[PollingManager]()

    async def main() -> None:
        managers.append(polling_manager())
        for key in range(20):
            managers[0].register(key, source.poll, 0.1)
        await asyncio.sleep(5.05)

    in_virtual_time(main())
    gc.collect()

    assert source.at_once == 0
    assert managers[0].is_closed
    assert caplog.records == []
    assert recwarn.list == []


def test_a_loop_that_ends_without_a_close_lets_a_poll_end_in_order() -> None:
    ended = list[str]()

    async def careful() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(1)
            ended.append("in order")

    async def main() -> None:
        polling_manager().register("a", careful, 1.0)
        polling_manager().register("b", Source(seconds=100).poll, 1.0)  # ends at once, and closes the manager
        await asyncio.sleep(0.5)

    in_virtual_time(main())

    assert ended == ["in order"]


def test_nothing_begins_while_a_loop_is_going_down() -> None:
    source, gate = Source(), threading.Event()

    async def main() -> None:
        polling_manager().register("a", source.poll, 0.5)
        await asyncio.sleep(0.1)
        loop, threads = asyncio.get_running_loop(), ThreadPoolExecutor(1)
        loop.set_default_executor(threads)
        threads.submit(gate.wait)  # the loop waits for it after it has cancelled every task
        loop.call_later(5, gate.set)

    in_virtual_time(main())

    assert gate.is_set()
    assert source.started == [0]


def test_an_interrupted_poll_interrupts_the_program_and_leaves_nothing_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def interrupted() -> None:
        raise KeyboardInterrupt

    managers = list[PollingManager]()

    async def main() -> None:
        managers.append(PollingManager())
        managers[0].register("a", interrupted, 1.0)
        managers[0].register("b", Source(seconds=100).poll, 1.0)
        await asyncio.sleep(10)

    with pytest.raises(KeyboardInterrupt):
        in_virtual_time(main())
    gc.collect()

    assert managers[0].is_closed
    assert caplog.records == []


def test_each_event_loop_has_a_manager_of_its_own_and_shares_it() -> None:
    async def main() -> PollingManager:
        assert polling_manager() is polling_manager()
        return polling_manager()

    first, second = in_virtual_time(main()), in_virtual_time(main())

    assert first is not second


@pytest.mark.looptime
async def test_a_closed_manager_of_the_process_is_replaced() -> None:
    first = polling_manager()
    await first.aclose()

    second = polling_manager()

    assert second is not first
    second.register("a", Source().poll, 1.0).dispose()


def test_outside_an_event_loop_the_message_states_the_next_step() -> None:
    with pytest.raises(InvalidInput, match="from a coroutine"):
        polling_manager()
    with pytest.raises(InvalidInput, match="call_soon_threadsafe"):
        PollingManager().register("a", Source().poll, 1.0)


def test_a_manager_of_another_loop_is_refused() -> None:
    manager = PollingManager()

    async def use() -> None:
        manager.register("a", Source().poll, 1.0).dispose()

    in_virtual_time(use())

    with pytest.raises(InvalidInput, match="another event loop"):
        in_virtual_time(use())


@pytest.mark.looptime
async def test_cancelling_every_task_closes_the_manager() -> None:
    manager = polling_manager()
    manager.register("a", Source().poll, 10.0)
    await asyncio.sleep(1)

    for task in others():
        task.cancel()
    await asyncio.sleep(1)

    assert manager.is_closed
    assert polling_manager() is not manager


def test_control_c_ends_a_program_that_polls_without_an_error() -> None:
    program = """
import asyncio, itertools
from longwatch.polling import polling_manager

numbers = itertools.count()

def tell(number):
    if number == 0:
        print("ready", flush=True)

async def waiting():
    await asyncio.sleep(3600)

async def main():
    manager = polling_manager()
    for key in range(2):
        manager.register(key, waiting, 0.01)
    manager.register("thread", lambda: next(numbers), 0.01, on_result=tell)
    await asyncio.sleep(3600)

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted")
"""

    with subprocess.Popen(
        [sys.executable, "-X", "dev", "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)

    assert stdout == "interrupted\n"
    assert stderr == ""

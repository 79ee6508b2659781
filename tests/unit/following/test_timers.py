"""One timer for everything that a hub waits for."""

from __future__ import annotations

import asyncio

import pytest

from longwatch.following.timers import Alarm, Timers, alarms

pytestmark = pytest.mark.looptime


async def test_keys_are_handed_over_when_they_are_due_and_never_early() -> None:
    loop, fired = asyncio.get_running_loop(), []
    timers: Timers[str] = Timers(loop, lambda keys: fired.append((loop.time(), keys)))

    timers.schedule("b", 2.00000049)
    timers.schedule("a", 1.0)
    timers.schedule("c", 2.0)
    timers.schedule("moved", 1.0)
    timers.schedule("moved", 3.0)
    timers.schedule("not", 1.0)
    timers.cancel("not")
    await asyncio.sleep(5.0)

    assert [keys for _, keys in fired] == [["a"], ["b", "c"], ["moved"]]
    assert [at for at, _ in fired] == pytest.approx([1.0, 2.0, 3.0], abs=0.021)
    assert fired[1][0] >= 2.00000049


async def test_a_key_that_schedules_itself_again_continues() -> None:
    loop = asyncio.get_running_loop()
    times: list[float] = []

    def due(keys: list[str]) -> None:
        times.append(loop.time())
        timers.schedule_in("a", 0.5)

    timers: Timers[str] = Timers(loop, due)
    timers.schedule_in("a", 0.0)
    await asyncio.sleep(2.9)
    timers.close()
    await asyncio.sleep(2.9)

    assert len(times) == 6


async def test_a_key_that_fails_does_not_stop_the_others() -> None:
    loop = asyncio.get_running_loop()
    failures: list[object] = []
    loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    times: list[float] = []

    def due(keys: list[str]) -> None:
        times.append(loop.time())
        raise ValueError(keys)

    timers: Timers[str] = Timers(loop, due)
    timers.schedule("a", loop.time() + 1)
    timers.schedule("b", loop.time() + 2)
    await asyncio.sleep(3)

    assert len(times) == len(failures) == 2


async def test_an_alarm_that_fails_stops_no_other() -> None:
    loop = asyncio.get_running_loop()
    failures: list[object] = []
    loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    called: list[str] = []

    def fail() -> None:
        raise ValueError("by the test")

    timers = alarms(loop)
    timers.schedule_in(Alarm(fail), 1.0)
    timers.schedule_in(Alarm(lambda: called.append("same moment")), 1.0)
    timers.schedule_in(Alarm(lambda: called.append("later")), 2.0)
    await asyncio.sleep(3.0)

    assert called == ["same moment", "later"]
    assert len(failures) == 1

"""The event loop in virtual time."""

from __future__ import annotations

import asyncio
import time

import pytest

from longwatch.testing.clock import START_MS
from longwatch.testing.simulation.virtual_loop import (
    LoopClock,
    SimulatedThreads,
    SkewedClock,
    Stuck,
    VirtualLoop,
    in_virtual_time,
)


def test_waiting_takes_no_time_and_time_passes_nevertheless() -> None:
    began = time.perf_counter()

    async def story() -> tuple[float, int]:
        await asyncio.sleep(3600.0)
        return asyncio.get_running_loop().time(), LoopClock().now_ms()

    assert in_virtual_time(story) == (3600.0, START_MS + 3_600_000)
    assert time.perf_counter() - began < 10.0


def test_waiting_for_nothing_is_reported() -> None:
    async def story() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck, match="no call is scheduled"):
        in_virtual_time(story)


def test_an_endless_loop_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longwatch.testing.simulation.virtual_loop.IDLE_TURNS", 100)

    async def story() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with pytest.raises(Stuck, match="no time passed"):
        in_virtual_time(story)


def test_calls_of_a_simulated_thread_come_later_and_in_order() -> None:
    async def story() -> list[tuple[str, float]]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        calls: list[tuple[str, float]] = []

        def call() -> str:
            for name in ("first", "second", "third"):
                loop.call_soon_threadsafe(lambda name=name: calls.append((name, round(loop.time(), 6))))
            return "answer"

        response = await asyncio.wrap_future(SimulatedThreads(loop, lambda: (1.0, 0.5)).submit(call))
        return [*calls, (response, round(loop.time(), 6))]

    assert in_virtual_time(story) == [("first", 1.5), ("second", 1.5), ("third", 1.5), ("answer", 1.5)]


def test_a_simulated_thread_raises_to_its_caller() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        await asyncio.wrap_future(SimulatedThreads(loop, lambda: (0.0, 0.0)).submit(lambda: 1 // 0))

    with pytest.raises(ZeroDivisionError):
        in_virtual_time(story)


def test_a_skewed_clock_is_wrong_by_the_chosen_amount() -> None:
    async def story() -> int:
        return SkewedClock(-250).now_ms() - LoopClock().now_ms()

    assert in_virtual_time(story) == -250

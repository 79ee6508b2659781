"""A loop in virtual time and executors without threads: the seed alone decides the order."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from contextvars import Context
from functools import partial
from typing import Any, TypeVar

from longwatch.testing.clock import START_MS

IDLE_TURNS = 200_000  # of the loop without any time passing; more of them are a busy loop
INSTANT_SECONDS = 1e-9  # keeps the order of calls

T = TypeVar("T")


class Stuck(RuntimeError):
    """The loop has nothing left to do, or never lets time pass."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time stands still while a task runs, and jumps to the next timer when none does.

    Files and sockets are polled without waiting. There are no threads: `SimulatedThreads` replaces them.
    """

    def __init__(self) -> None:
        self._virtual = 0.0  # seconds
        self._answer_seconds: float | None = None  # None: not in a simulated thread
        super().__init__(_Jump(self._pass))
        self._clock_resolution = 1e-9  # even if the machine's clock is coarser

    def time(self) -> float:
        return self._virtual

    def _pass(self, seconds: float) -> None:
        self._virtual += seconds

    @contextmanager
    def answers_after(self, seconds: float) -> Iterator[None]:
        """A block that behaves like a thread: its calls into the loop arrive later by this delay."""
        before, self._answer_seconds = self._answer_seconds, seconds
        try:
            yield
        finally:
            self._answer_seconds = before

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if self._answer_seconds is None:
            return self.call_soon(callback, *args, context=context)
        # A heap does not preserve the order of equal times, and the calls of a thread must stay in order.
        self._answer_seconds += INSTANT_SECONDS
        return self.call_later(self._answer_seconds, callback, *args, context=context)

    def timers(self) -> int:
        """The number of scheduled calls that are not cancelled."""
        planned: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return sum(not handle.cancelled() for handle in planned)


class _Jump(selectors.DefaultSelector):
    """A selector that advances virtual time instead of waiting."""

    def __init__(self, pass_time: Callable[[float], None]) -> None:
        super().__init__()
        self._pass_time = pass_time
        self._turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0) if len(self.get_map()) > 1 else []  # the first is the loop's own
        if ready:
            return ready
        if timeout is None:
            raise Stuck("every task waits, and no call is scheduled")
        if timeout > 0:
            self._turns = 0
            self._pass_time(timeout)
            return []
        self._turns += 1
        if self._turns > IDLE_TURNS:
            raise Stuck(f"the loop went round {IDLE_TURNS} times, and no time passed")
        return []


class LoopClock:
    """A clock with the running event loop's time, virtual or not."""

    def now_ms(self) -> int:
        return START_MS + round(asyncio.get_running_loop().time() * 1000)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def sleep(self, seconds: float) -> None:
        """Time passes in the loop only."""


class SkewedClock(LoopClock):
    """A loop clock that is wrong by a fixed number of milliseconds."""

    def __init__(self, skew_ms: int) -> None:
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return super().now_ms() + self.skew_ms


def in_virtual_time(story: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in an event loop with virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(story())


class AtOnce(Executor):
    """Runs calls in the caller's thread, so that virtual time cannot overtake them."""

    def submit(self, call: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(call(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - passed on by the future
            future.set_exception(error)
        return future


class SimulatedThreads(Executor):
    """Runs calls later in virtual time and delays their results, like threads and networks.

    Other tasks run in between, so the caller may be gone when the result arrives.
    """

    def __init__(self, loop: VirtualLoop, delays: Callable[[], tuple[float, float]]) -> None:
        self._loop = loop
        self._delays = delays

    def submit(self, call: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        before, after = self._delays()
        self._loop.call_later(before, self._run, future, partial(call, *args, **kwargs), after)
        return future

    def _run(self, future: Future[T], call: Callable[[], T], after: float) -> None:
        if not future.set_running_or_notify_cancel():
            return
        with self._loop.answers_after(after):
            try:
                result = call()
            except Exception as error:  # noqa: BLE001 - passed on by the future
                self._loop.call_soon_threadsafe(future.set_exception, error)
            else:
                self._loop.call_soon_threadsafe(future.set_result, result)

"""Executors without threads, so that the order of everything is decided by the seed alone."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, TypeVar

from longwatch.testing.simulation.loop import VirtualLoop

T = TypeVar("T")


class AtOnce(Executor):
    """Calls in the thread of whoever asks, so that virtual time cannot run ahead of it."""

    def submit(self, call: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(call(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - that is what a future is for
            future.set_exception(error)
        return future


class PretendedThreads(Executor):
    """Calls later in virtual time, and lets the answer take its time too, as threads and networks do.

    `delays` says how long it takes until the call is made, and from there until its answer arrives. In
    between, the world goes on: whoever asked may have left.
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
            except Exception as error:  # noqa: BLE001 - that is what a future is for
                self._loop.call_soon_threadsafe(future.set_exception, error)
            else:
                self._loop.call_soon_threadsafe(future.set_result, result)

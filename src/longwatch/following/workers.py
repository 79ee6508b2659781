"""A pool of threads that a program may leave behind: a store that never answers must not keep it alive."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from longwatch.clock import SYSTEM_CLOCK

P = ParamSpec("P")
T = TypeVar("T")

_Call = tuple[Future[Any], Callable[[], Any]]


class Workers(Executor):
    """Up to `most` daemon threads, started as they are needed.

    The threads of the standard library's pool are waited for when the interpreter ends, whatever they do.
    """

    def __init__(self, most: int, *, name: str) -> None:
        self._most = most
        self._name = name
        self._calls = SimpleQueue[_Call | None]()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._is_closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            if self._is_closed:
                raise RuntimeError("cannot submit after shutdown")
            self._calls.put((future, lambda: fn(*args, **kwargs)))
            if self._idle:
                self._idle -= 1  # that one is promised to this call
            elif len(self._threads) < self._most:
                self._start()
        return future

    def _start(self) -> None:
        name = f"{self._name}_{len(self._threads)}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            _carry_out(*call)
            del call  # or it would hold on to its answer until the next one comes
            with self._lock:
                if self._calls.empty():
                    self._idle += 1
        self._calls.put(None)  # for the next thread

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads after what was submitted, or with `cancel_futures` after what is under way."""
        with self._lock:
            self._is_closed = True
        if cancel_futures:
            self._cancel()
        self._calls.put(None)
        if wait:
            self.wait(None)

    def wait(self, seconds: float | None) -> bool:
        """Wait for the threads to end. False: some call is still under way."""
        deadline = None if seconds is None else SYSTEM_CLOCK.monotonic() + seconds
        for thread in self._threads:
            thread.join(None if deadline is None else max(0.0, deadline - SYSTEM_CLOCK.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _cancel(self) -> None:
        while not self._calls.empty():
            call = self._calls.get()
            if call is not None:
                call[0].cancel()


def _carry_out(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        answer = call()
    except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the answer
        future.set_exception(error)
    else:
        future.set_result(answer)

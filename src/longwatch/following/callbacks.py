"""Somebody's wish to be called: in the service's thread, or in the event loop in which it was made."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from types import TracebackType
from typing import Generic, Self, TypeVar

from longwatch.errors import InvalidInput

WAITING_VALUES = 1_000  # that may wait for an event loop before the service waits for it
CALLS_IN_A_ROW = 100  # in a subscriber's event loop, before its other tasks get their turn
CLOSED_CHECK_SECONDS = 1.0  # how often to see whether a loop that is waited for is still there

log = logging.getLogger("longwatch.following")

T = TypeVar("T")
IsWanted = Callable[[], bool]


class Subscription(Generic[T]):
    """Calls back until it is disposed, which leaving its `with` block does too."""

    def __init__(
        self,
        callback: Callable[[T], object],
        *,
        loop: asyncio.AbstractEventLoop | None,
        left: Callable[[Subscription[T]], None],
        raised: Callable[[Exception], None],
    ) -> None:
        if not callable(callback):
            raise InvalidInput(f"Invalid subscriber {callback!r}. Pass a function.")
        if inspect.iscoroutinefunction(callback):
            raise InvalidInput(
                f"Invalid subscriber {callback!r}: a coroutine function would not be awaited. Pass a plain "
                "function, which may start a task, or use `async for item in longwatch.follow(run_id)`."
            )
        self._callback = callback
        self._loop = loop
        self._left = left
        self._raised = raised
        # What the callback records belongs to the run in which it subscribed.
        self._context = copy_context()
        self._is_active = True
        self._waiting: deque[tuple[T, IsWanted]] = deque()
        self._is_called = False  # the loop has a call of `_take` scheduled
        self._on_room: Callable[[], object] | None = None  # notifies the service that there is room again

    @property
    def is_active(self) -> bool:
        """Whether it is still called."""
        return self._is_active

    def dispose(self) -> None:
        """Call no more. Calling this again has no effect."""
        if self._is_active:
            self._is_active = False
            self._waiting.clear()
            self._left(self)
            on_room = self._on_room
            if on_room is not None:
                on_room()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.dispose()

    def hand(self, value: T, wanted: IsWanted) -> None:
        """In the service's thread: call back with this, unless it is no longer wanted by then."""
        if self._loop is None:
            self._call_here(value, wanted)
        elif self._is_active:
            self._waiting.append((value, wanted))
            if not self._is_called:
                self._is_called = True
                self._call_loop(self._loop)

    @property
    def is_full(self) -> bool:
        """Whether the service should wait before it hands over more."""
        return self._is_active and len(self._waiting) >= WAITING_VALUES

    async def has_room(self) -> None:
        """In the service's loop: wait until the subscriber's loop has consumed its values, or is closed."""
        service, changed = asyncio.get_running_loop(), asyncio.Event()

        def notify() -> None:
            with suppress(RuntimeError):  # the service has ended meanwhile
                service.call_soon_threadsafe(changed.set)

        self._on_room = notify
        try:
            while self.is_full:
                if self._loop is None or self._loop.is_closed():
                    self._drop()
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(CLOSED_CHECK_SECONDS):
                        await changed.wait()
                changed.clear()
        finally:
            self._on_room = None

    def _call_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.call_soon_threadsafe(self._take)
        except RuntimeError:  # it is closed
            self._drop()

    def _drop(self) -> None:
        log.warning("the event loop of subscriber %r is closed; it is not called any more", self._callback)
        self.dispose()

    def _take(self) -> None:
        """In the subscriber's loop."""
        for _ in range(CALLS_IN_A_ROW):
            try:
                value, wanted = self._waiting.popleft()
            except IndexError:
                break
            if self._is_active and wanted():
                try:
                    self._context.run(self._callback, value)
                except Exception as error:  # noqa: BLE001 - a subscriber's mistake is not its loop's
                    self._raised(error)
        self._is_called = False  # before the check: what is added after it schedules another call
        if self._waiting and not self._is_called and self._loop is not None:
            self._is_called = True
            self._call_loop(self._loop)
        on_room = self._on_room
        if on_room is not None and len(self._waiting) <= WAITING_VALUES // 2:
            on_room()

    def _call_here(self, value: T, wanted: IsWanted) -> None:
        if not self._is_active or not wanted():
            return
        try:
            self._context.run(self._callback, value)
        except Exception as error:  # noqa: BLE001 - a subscriber's mistake is not the service's
            self._raised(error)
        except BaseException as error:  # noqa: BLE001 - `sys.exit()` here would end the watch of all subscribers
            failure = RuntimeError(f"subscriber {self._callback!r} raised {error!r}")
            failure.__cause__ = error
            self._raised(failure)

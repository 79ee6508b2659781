"""The polling service: calls back for every event of a run. A process shares one.

It has one thread with an event loop of its own, from the first run until it is disposed. In there each run
has a hub and a follower, so a run that was given up cannot reach the one that comes after it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import InvalidInput, LongwatchError
from longwatch.following.callbacks import Subscription
from longwatch.following.hub import Hub
from longwatch.following.items import Ended, Followed, Reason
from longwatch.following.threads import LoopThread, run_in_thread
from longwatch.journal.base import Journal
from longwatch.journal.factory import open_journal
from longwatch.model.event import Event
from longwatch.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCallbacks:
    """Where a run delivers its events: in the loop of the run, except for `failed`."""

    deliver: Callable[[Event, PolledRun], Awaitable[None]]  # the next event
    failed: Callable[[Exception, PolledRun], None]  # from any thread: a read of the journal failed
    over: Callable[[], None]  # nothing more comes


class PolledRun:
    """Nothing of a revoked run is wanted, though it may still be under way."""

    def __init__(self, workflow_id: str) -> None:
        self.workflow_id = workflow_id
        self.is_started = False  # False: it waits for the first subscriber
        self.is_revoked = False
        self.is_over = False
        self.task: asyncio.Task[None] | None = None

    def is_wanted(self) -> bool:
        return not self.is_revoked

    def cancel(self) -> None:
        """In the loop of its task. One that is over closes its hub by itself."""
        if self.task is not None and not self.is_over:
            self.is_over = True
            self.task.cancel()

    async def follow(
        self, journal: Journal, make_hub: Callable[..., Hub], callbacks: ServiceCallbacks
    ) -> None:
        """Deliver everything to the callbacks."""
        last: list[Exception] = []

        def failed(error: Exception) -> None:
            last[:] = [error]
            callbacks.failed(error, self)

        async with AsyncExitStack() as stack:
            try:
                hub = await stack.enter_async_context(make_hub(journal, on_failure=failed))
                ended = await self._deliver_events(hub, callbacks)
                if ended is not None and ended.reason is Reason.UNUSABLE and not last:
                    failed(LongwatchError(ended.message))
            except Exception as error:  # noqa: BLE001 - every failure is reported
                if error not in last:
                    failed(error)
            # Before the hub is closed, which may have to wait for a slow read.
            self.is_over = True
            callbacks.over()

    async def _deliver_events(self, hub: Hub, callbacks: ServiceCallbacks) -> Ended | None:
        async with aclosing(aiter(hub.follow(self.workflow_id))) as items:
            async for item in items:
                if isinstance(item, Ended):
                    return item
                if isinstance(item, Followed):
                    await callbacks.deliver(item.event, self)
                if self.is_revoked:
                    break
        return None


THREAD_NAME = "longwatch-polling-service"
DISPOSE_SECONDS = 30.0  # to wait for a read or a callback that is under way

log = logging.getLogger("longwatch.following")

T = TypeVar("T")


class PollingService:
    """Follows one workflow at a time. Every method may be called from any thread and from any callback.

    `journal` is an open one, which stays open, an address, or None for the one that the settings name. A
    callback runs in the event loop in which it subscribed, else in the service's own thread, one at a time.
    """

    def __init__(
        self,
        journal: Journal | str | None = None,
        *,
        settings: Settings | None = None,
        clock: Clock = SYSTEM_CLOCK,
        make_hub: Callable[..., Hub] | None = None,
        make_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    ) -> None:
        self._given = journal
        self._settings = settings
        self._clock = clock
        self._make_hub = make_hub if make_hub is not None else partial(Hub, clock=clock)
        self._make_loop = make_loop
        self._journal: Journal | None = None
        self._run: PolledRun | None = None  # the last one that was started and not stopped
        self._event_subscriptions: tuple[Subscription[Event], ...] = ()
        self._error_subscriptions: tuple[Subscription[Exception], ...] = ()
        self._thread: LoopThread | None = None
        self._is_disposed = False
        # Guards what is above. Never held while a callback runs: callbacks come back in here.
        self._changed = threading.Condition(threading.RLock())

    @property
    def is_polling(self) -> bool:
        """Whether a workflow is being followed now. One that waits for its first subscriber is not."""
        with self._changed:
            run = self._current()
            return run is not None and run.is_started

    @property
    def current_workflow_id(self) -> str | None:
        """The workflow that is followed, or that waits for its first subscriber."""
        with self._changed:
            run = self._current()
            return None if run is None else run.workflow_id

    @property
    def is_disposed(self) -> bool:
        """Whether it can no longer be used."""
        return self._is_disposed

    def start_polling(self, workflow_id: str) -> None:
        """Follow this workflow from its beginning until it has ended, instead of any other.

        The same workflow again changes nothing while it is followed. Without a subscriber it waits for the
        first one. Raises what is wrong with the settings or the journal's address; everything later comes to
        `on_error`.
        """
        given: object = workflow_id
        if not isinstance(given, str) or not given:
            kind = "" if isinstance(given, str) else f" ({type(given).__name__})"
            raise InvalidInput(
                "start_polling needs the id of a workflow as a string, such as 'wf-1a2b3c4d', "
                f"not {given!r}{kind}."
            )
        with self._changed:
            self._check()
            run = self._current()
            if run is not None and run.workflow_id == workflow_id:
                return
            self._open()
            self._revoke()
            self._run = PolledRun(workflow_id)
            if self._event_subscriptions:
                self._start(self._run)

    def stop_polling(self) -> None:
        """Follow nothing any more. The service can be started again."""
        with self._changed:
            self._revoke()

    def on_event(self, callback: Callable[[Event], object]) -> Subscription[Event]:
        """Call this with every event from now on, each once, until the subscription is disposed.

        The first one begins to poll a workflow that waits; when the last one leaves, polling stops.
        """
        subscription = Subscription(
            callback, loop=self._callers_loop(), left=self._event_left, raised=self._raised
        )
        with self._changed:
            self._check()
            self._event_subscriptions += (subscription,)
            run = self._current()
            if run is not None and not run.is_started:
                self._start(run)
        return subscription

    def on_error(self, callback: Callable[[Exception], object]) -> Subscription[Exception]:
        """Call this with every failure of the journal, and with what other subscribers raise.

        Polling continues after failures that a retry may cure. Without an error subscriber, they are logged.
        """
        subscription = Subscription(callback, loop=self._callers_loop(), left=self._error_left, raised=_log)
        with self._changed:
            self._check()
            self._error_subscriptions += (subscription,)
        return subscription

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Block until no workflow is followed or waits; False if that took too long."""
        if self._thread is not None and self._thread.is_current:
            raise InvalidInput(
                "wait() in a callback of the service would wait for itself. Call it from another thread."
            )
        with self._changed:
            return self._changed.wait_for(lambda: self._current() is None, timeout_seconds)

    def dispose(self) -> None:
        """Stop for good, drop all subscriptions and end the thread.

        Waits for a read or a callback that is under way, unless it is a callback that calls it. In an event
        loop, await `aclose` instead.
        """
        with self._changed:
            if not self._is_disposed:
                self._is_disposed = True
                self._revoke()
                if self._thread is None:
                    self._close_journal()
                else:
                    self._thread.end()
            thread = self._thread
        for events in self._event_subscriptions:
            events.dispose()
        for errors in self._error_subscriptions:
            errors.dispose()
        if thread is not None and not thread.is_current and not thread.join(DISPOSE_SECONDS):
            log.warning("a read or a callback of the polling service takes more than %g s", DISPOSE_SECONDS)

    async def aclose(self) -> None:
        """Dispose without blocking the running event loop."""
        await run_in_thread(self.dispose)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.dispose()

    # Under the lock, in any thread.

    def _check(self) -> None:
        if self._is_disposed:
            raise InvalidInput(
                "This polling service was disposed. Create another one, or get one from polling_service()."
            )

    def _current(self) -> PolledRun | None:
        return None if self._run is None or self._run.is_over else self._run

    def _open(self) -> None:
        if self._journal is None:
            given = self._given
            if given is None or isinstance(given, str):
                self._journal = open_journal(given, settings=self._settings, clock=self._clock)
            else:
                self._journal = given

    def _close_journal(self) -> None:
        if self._journal is not None and self._journal is not self._given:
            self._journal.close()

    def _start(self, run: PolledRun) -> None:
        if self._thread is None:
            self._thread = LoopThread(THREAD_NAME, make_loop=self._make_loop, at_end=self._close_journal)
        run.is_started = True
        self._thread.soon(self._follow, self._thread, run)

    def _revoke(self) -> None:
        """Deliver nothing more of the present run, not even what is under way to a subscriber."""
        run, self._run = self._run, None
        if run is not None:
            run.is_revoked = True
            self._changed.notify_all()
            self._soon(run.cancel)

    def _soon(self, call: Callable[..., object], *args: Any) -> None:
        if self._thread is not None:
            self._thread.soon(call, *args)

    def _callers_loop(self) -> asyncio.AbstractEventLoop | None:
        if self._thread is not None and self._thread.is_current:
            return None  # a callback that subscribes another one
        try:
            return asyncio.get_running_loop()
        except RuntimeError:
            return None

    def _event_left(self, left: Subscription[Event]) -> None:
        with self._changed:
            self._event_subscriptions = _without(self._event_subscriptions, left)
            run = self._current()
            if not self._event_subscriptions and run is not None and run.is_started:
                self._revoke()

    def _error_left(self, left: Subscription[Exception]) -> None:
        with self._changed:
            self._error_subscriptions = _without(self._error_subscriptions, left)

    # In the service's thread, without the lock, except where stated.

    def _follow(self, thread: LoopThread, run: PolledRun) -> None:
        if run.is_wanted() and self._journal is not None:
            callbacks = ServiceCallbacks(deliver=self._deliver, failed=self._failed, over=self._over)
            run.task = thread.spawn(run.follow(self._journal, self._make_hub, callbacks), name=THREAD_NAME)

    async def _deliver(self, event: Event, run: PolledRun) -> None:
        """Hand this to all present subscribers, and wait for slow ones."""
        for subscription in self._event_subscriptions:
            subscription.hand(event, run.is_wanted)
            if subscription.is_full:
                await subscription.has_room()

    def _failed(self, error: Exception, run: PolledRun) -> None:
        """In any thread: a read of the journal failed."""
        self._soon(self._report, error, run)

    def _over(self) -> None:
        """The run has come to its end by itself."""
        with self._changed:
            self._changed.notify_all()

    def _raised(self, error: Exception) -> None:
        """In any thread: a subscriber raised."""
        if self._error_subscriptions:
            self._soon(self._report, error, None)
        else:
            _log(error)

    def _report(self, error: Exception, run: PolledRun | None) -> None:
        wanted = _always if run is None else run.is_wanted
        subscriptions = self._error_subscriptions
        for subscription in subscriptions:
            subscription.hand(error, wanted)
        if not subscriptions and wanted():
            if run is None:
                _log(error)
            else:
                log.warning("following workflow %s: %s: %s", run.workflow_id, type(error).__name__, error)


def _without(
    subscriptions: tuple[Subscription[T], ...], left: Subscription[T]
) -> tuple[Subscription[T], ...]:
    return tuple(each for each in subscriptions if each is not left)


def _always() -> bool:
    return True


def _log(error: Exception) -> None:
    log.error("a subscriber of the polling service raised; the others continue", exc_info=error)


_service: PollingService | None = None
_lock = threading.Lock()


def polling_service() -> PollingService:
    """The service that the whole process shares. A disposed one is replaced."""
    global _service  # noqa: PLW0603 - shared by the process
    with _lock:
        if _service is None or _service.is_disposed:
            _service = PollingService()
        return _service


def _forget() -> None:
    """A forked child has neither the service's thread nor the thread that held the lock."""
    global _service, _lock
    _service, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

"""Change notification: a subscriber to a store learns that this or another process may have written to it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol
from weakref import WeakValueDictionary

OnChange = Callable[[], None]


class ChangeSignal(Protocol):
    """One subscription to the writes to a store. It may report a change without one; it misses none."""

    descriptor: int | None  # becomes readable when another process writes; None: there is no such descriptor
    check_seconds: float | None  # how often to call `changed`; None: only this process writes

    def drain(self) -> bool:
        """Consume what the descriptor holds. True: a write is under way, and is readable a little later."""

    def changed(self) -> bool:
        """Whether another process may have written since the last call. Does not block."""

    def close(self) -> None:
        """End the subscription."""


Subscribe = Callable[[OnChange], ChangeSignal]


class LocalSignal:
    """Notifies the subscribers of one store of the writes of this process.

    With `check_seconds`, other processes write to the store too, and nothing reports when they do.
    """

    def __init__(self, *, check_seconds: float | None = None) -> None:
        self._check_seconds = check_seconds
        self._lock = threading.Lock()
        self._subscriptions: list[LocalSubscription] = []

    def notify(self) -> None:
        """Call every subscriber, in the calling thread. Call this after the commit."""
        if not self._subscriptions:
            return
        with self._lock:
            subscriptions = list(self._subscriptions)
        for each in subscriptions:
            each.on_change()

    def subscribe(self, on_change: OnChange) -> ChangeSignal:
        """Call `on_change` after each write, in the thread that wrote."""
        subscription = LocalSubscription(self, on_change, self._check_seconds)
        with self._lock:
            self._subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: LocalSubscription) -> None:
        """Called by the subscription when it is closed."""
        with self._lock:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)

    def reset(self) -> None:
        """In a forked child: the subscribers belong to the parent, where the lock may have been held."""
        self._lock = threading.Lock()
        self._subscriptions = []


class LocalSubscription:
    """One subscription to a `LocalSignal`."""

    descriptor: int | None = None

    def __init__(self, signal: LocalSignal, on_change: OnChange, check_seconds: float | None) -> None:
        self.on_change = on_change
        self.check_seconds = check_seconds
        self._signal = signal

    def drain(self) -> bool:
        return False

    def changed(self) -> bool:
        return self.check_seconds is not None

    def close(self) -> None:
        self._signal.unsubscribe(self)


_by_path: WeakValueDictionary[Path, LocalSignal] = WeakValueDictionary()
_lock = threading.Lock()


def local_signal(path: Path) -> LocalSignal:
    """The signal of a file in this process. By path: a recorder and a follower open the file separately."""
    with _lock:
        signal = _by_path.get(path)
        if signal is None:
            signal = _by_path[path] = LocalSignal()
        return signal


def _after_fork() -> None:
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()
    for signal in list(_by_path.values()):
        signal.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

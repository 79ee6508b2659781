"""Tells whoever listens to a store that is only heard in its own process; others are asked now and then."""

from __future__ import annotations

import threading
from collections.abc import Callable

OnChange = Callable[[], None]


class LocalSignal:
    """Those who listen to one store."""

    def __init__(self, *, check_seconds: float | None = None) -> None:
        self._check_seconds = check_seconds
        self._lock = threading.Lock()
        self._listening: list[LocalSubscription] = []

    def add(self, heard: OnChange) -> LocalSubscription:
        ear = LocalSubscription(self, heard, self._check_seconds)
        with self._lock:
            self._listening.append(ear)
        return ear

    def remove(self, ear: LocalSubscription) -> None:
        with self._lock:
            if ear in self._listening:
                self._listening.remove(ear)

    def ring(self) -> None:
        """Something has changed."""
        with self._lock:
            listening = list(self._listening)
        for ear in listening:
            ear.heard()


class LocalSubscription:
    """A `Listening`. Without a check it hears everything; with one, others may have written at any time."""

    descriptor: int | None = None

    def __init__(self, ears: LocalSignal, heard: OnChange, check_seconds: float | None) -> None:
        self.heard = heard
        self.check_seconds = check_seconds
        self._ears = ears

    def told(self) -> bool:
        return False

    def changed(self) -> bool:
        return self.check_seconds is not None

    def close(self) -> None:
        self._ears.remove(self)

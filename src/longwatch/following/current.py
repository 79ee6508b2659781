"""The polling service of the whole process, on the journal that the settings name."""

from __future__ import annotations

import os
import threading

from longwatch.following.service import PollingService

_service: PollingService | None = None
_lock = threading.Lock()


def polling_service() -> PollingService:
    """The service that everybody in this process shares. A disposed one is replaced."""
    global _service  # noqa: PLW0603 - the one that everybody shares
    with _lock:
        if _service is None or _service.is_disposed:
            _service = PollingService()
        return _service


def _forget() -> None:
    """A forked child has neither the service's thread nor whoever held the lock."""
    global _service, _lock
    _service, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

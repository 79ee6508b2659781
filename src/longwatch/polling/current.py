"""The polling manager of the whole process: one for each event loop, as an event loop is all it can serve."""

from __future__ import annotations

import asyncio
import threading

from longwatch.errors import InvalidInput
from longwatch.polling.manager import PollingManager

_managers: dict[asyncio.AbstractEventLoop, PollingManager] = {}
_lock = threading.Lock()


def polling_manager() -> PollingManager:
    """The manager that everybody in the running event loop shares. A closed one is replaced."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError as error:
        raise InvalidInput(
            "polling_manager() is the manager of the running event loop, and none is running; "
            "call it from a coroutine"
        ) from error
    with _lock:
        for gone in [each for each in _managers if each.is_closed()]:
            del _managers[gone]
        manager = _managers.get(loop)
        if manager is None or manager.is_closed:
            manager = _managers[loop] = PollingManager()
        return manager

"""When to poll: schedules, backoff, a queue of due times, and a manager that polls by them.

The values are pure and need nothing but the standard library's basics; asyncio is loaded with the manager.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longwatch.polling.backoff import JOURNAL_BACKOFF, REQUEST_BACKOFF, Backoff
    from longwatch.polling.due import DueQueue
    from longwatch.polling.manager import PollingManager, polling_manager
    from longwatch.polling.requests import Lag, Metrics
    from longwatch.polling.schedules import (
        EXECUTION_PHASES,
        JOURNAL_INTERVAL,
        Cadence,
        Fixed,
        Phased,
        Ramp,
        Schedule,
        Soonest,
        schedule_for,
    )
    from longwatch.polling.shared_poll import Registration

__all__ = [
    "EXECUTION_PHASES",
    "JOURNAL_BACKOFF",
    "JOURNAL_INTERVAL",
    "REQUEST_BACKOFF",
    "Backoff",
    "Cadence",
    "DueQueue",
    "Fixed",
    "Lag",
    "Metrics",
    "Phased",
    "PollingManager",
    "Ramp",
    "Registration",
    "Schedule",
    "Soonest",
    "polling_manager",
    "schedule_for",
]

_HOMES = {
    "backoff": ("JOURNAL_BACKOFF", "REQUEST_BACKOFF", "Backoff"),
    "due": ("DueQueue",),
    "manager": ("PollingManager", "polling_manager"),
    "requests": ("Lag", "Metrics"),
    "shared_poll": ("Registration",),
    "schedules": (
        "EXECUTION_PHASES",
        "JOURNAL_INTERVAL",
        "Cadence",
        "Fixed",
        "Phased",
        "Ramp",
        "Schedule",
        "Soonest",
        "schedule_for",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'longwatch.polling' has no attribute {name!r}")
    value = getattr(import_module(f"longwatch.polling.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

"""longwatch records every step of long-running work as immutable events, and reports how it ended.

Decorate functions with `@longwatch.tool`, `@longwatch.agent` and `@longwatch.workflow`, or open a run with
`with longwatch.run("research"):`. Read recorded events with `longwatch.open_journal()`, or follow them with
`longwatch.follow(run_id)`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from longwatch.recording.first_use import make_stand_in

if TYPE_CHECKING:
    from longwatch.errors import LongwatchError
    from longwatch.following.polling_service import PollingService, polling_service
    from longwatch.following.shared_hub import follow
    from longwatch.integrations.attach import attach
    from longwatch.journal.base import Journal
    from longwatch.journal.factory import open_journal
    from longwatch.model.event import START, Cursor, Event, Page
    from longwatch.model.run import Run, RunSummary, Status, fold
    from longwatch.model.run_query import RunQuery
    from longwatch.recording.active_run import run
    from longwatch.recording.decorators import agent, current_run_id, record, tag, tool, workflow
    from longwatch.recording.model_calls import ModelUsage, model_call
    from longwatch.recording.recorder import configure, flush, get_recorder
    from longwatch.recording.waiting import waiting

__version__ = "0.1.0"

__all__ = [
    "START",
    "Cursor",
    "Event",
    "Journal",
    "LongwatchError",
    "ModelUsage",
    "Page",
    "PollingService",
    "Run",
    "RunQuery",
    "RunSummary",
    "Status",
    "__version__",
    "agent",
    "attach",
    "configure",
    "current_run_id",
    "flush",
    "fold",
    "follow",
    "get_recorder",
    "model_call",
    "open_journal",
    "polling_service",
    "record",
    "run",
    "tag",
    "tool",
    "waiting",
    "workflow",
]

# Loaded on first access: a program that only decorates its functions needs no database, and
# `longwatch --help` needs none of these modules.
_MODULES = {
    "longwatch.errors": ("LongwatchError",),
    "longwatch.model.event": ("START", "Cursor", "Event", "Page"),
    "longwatch.following.polling_service": ("PollingService", "polling_service"),
    "longwatch.following.shared_hub": ("follow",),
    "longwatch.integrations.attach": ("attach",),
    "longwatch.journal.base": ("Journal",),
    "longwatch.model.run_query": ("RunQuery",),
    "longwatch.journal.factory": ("open_journal",),
    "longwatch.recording.active_run": ("run",),
    "longwatch.recording.decorators": ("agent", "current_run_id", "record", "tag", "tool", "workflow"),
    "longwatch.recording.model_calls": ("ModelUsage", "model_call"),
    "longwatch.recording.recorder": ("configure", "flush", "get_recorder"),
    "longwatch.recording.waiting": ("waiting",),
    "longwatch.model.run": ("Run", "RunSummary", "Status", "fold"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'longwatch' has no attribute {name!r}")
    try:
        value = getattr(import_module(module), name)
    except (ImportError, OSError) as error:
        unrecorded = make_stand_in(name, error) if module.startswith("longwatch.recording.") else None
        if unrecorded is None:
            raise
        return unrecorded
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

"""longwatch records every step of long-running work as immutable events, and tells how it ended.

import longwatch

@longwatch.tool
def search(query: str) -> list[str]: ...

with longwatch.run("research"):
    search("tides")
"""

from longwatch.errors import LongwatchError
from longwatch.events import START, Cursor, Event, Page
from longwatch.journal.base import Journal, RunQuery
from longwatch.journal.opening import open_journal
from longwatch.recording.active import run
from longwatch.recording.decorators import agent, record, tool, workflow
from longwatch.recording.recorder import configure, get_recorder
from longwatch.runs import Run, RunSummary, Status, fold

__version__ = "0.1.0"

__all__ = [
    "START",
    "Cursor",
    "Event",
    "Journal",
    "LongwatchError",
    "Page",
    "Run",
    "RunQuery",
    "RunSummary",
    "Status",
    "__version__",
    "agent",
    "configure",
    "flush",
    "fold",
    "get_recorder",
    "open_journal",
    "record",
    "run",
    "tool",
    "workflow",
]


def flush(timeout_seconds: float = 5.0) -> bool:
    """Wait until everything recorded so far is durable, in the journal or in the outbox."""
    return get_recorder().flush(timeout_seconds)

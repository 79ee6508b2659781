"""DBOS on SQLite: a workflow writes a stream in one process, a client reads it in another.

A stream is how DBOS shows the progress of a workflow to others, and on SQLite a reader of one polls: every
second by default, every millisecond at the shortest. (`get_event` waits for one value of one key
in the same way; there is nothing in DBOS that is sooner on SQLite.)
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.following.receivers import DelayLog
from benchmarks.following.subject import Commands
from dbos import DBOS, DBOSClient, SetWorkflowID

WORKFLOW_ID = "wf-bench"
STREAM = "events"
DEFAULT_POLL_SECONDS = 1.0
SHORTEST_POLL_SECONDS = 0.001

_inbox: queue.Queue[float] = queue.Queue()
_written: queue.Queue[float] = queue.Queue()


@DBOS.workflow()  # type: ignore[untyped-decorator]
def writing() -> None:
    """Writes to its stream on command and returns how long that took."""
    while True:
        _inbox.get()
        began = time.monotonic()
        DBOS.write_stream(STREAM, {"sent": began})
        _written.put(time.monotonic() - began)


@asynccontextmanager
async def writer(path: Path) -> AsyncIterator[Commands]:
    """An application with one workflow."""
    DBOS(config={"name": "bench", "system_database_url": f"sqlite:///{path}", "log_level": "ERROR"})
    DBOS.launch()
    with SetWorkflowID(WORKFLOW_ID):
        DBOS.start_workflow(writing)

    def write() -> float:
        _inbox.put(0.0)
        return _written.get()

    yield {"write": write}


@asynccontextmanager
async def reader(path: Path, poll_seconds: float) -> AsyncIterator[Commands]:
    """Anybody who wants to see what the workflow writes."""
    delays = DelayLog()
    client = DBOSClient(system_database_url=f"sqlite:///{path}")

    def read() -> None:
        for value in client.read_stream(WORKFLOW_ID, STREAM, polling_interval_sec=poll_seconds):
            delays.add(value["sent"])

    threading.Thread(target=read, daemon=True).start()
    yield delays.commands()

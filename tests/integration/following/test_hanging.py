"""A store that accepts a call and never responds."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from longwatch.following import Hub
from longwatch.journal.base import DEFAULT_READ_LIMIT
from longwatch.model.event import START, Cursor, Page
from longwatch.testing import MemoryJournal
from tests.patience import PATIENCE_SECONDS

LEAVING = """
import asyncio, threading
from longwatch.following import Hub
from longwatch.testing import MemoryJournal

asked = threading.Event()

class Hanging(MemoryJournal):
    def read(self, run_id, **options):
        asked.set()
        threading.Event().wait()

async def main():
    async with Hub(Hanging()) as hub:
        follower = asyncio.ensure_future(anext(aiter(hub.follow("wf-1"))))
        await asyncio.to_thread(asked.wait)
        follower.cancel()

asyncio.run(main())
print("left")
"""


class Hanging(MemoryJournal):
    """Responds when the gate is opened, and not before."""

    def __init__(self) -> None:
        super().__init__()
        self.polled = threading.Event()
        self.gate = threading.Event()

    def read(
        self, run_id: str, *, after: Cursor = START, limit: int = DEFAULT_READ_LIMIT, thorough: bool = False
    ) -> Page:
        self.polled.set()
        self.gate.wait()
        return super().read(run_id, after=after, limit=limit, thorough=thorough)


async def test_a_hub_closes_although_its_journal_never_responds(caplog: pytest.LogCaptureFixture) -> None:
    journal = Hanging()
    hub = Hub(journal)
    following = asyncio.ensure_future(anext(aiter(hub.follow("wf-1"))))
    await asyncio.to_thread(journal.polled.wait, 5)

    await asyncio.wait_for(hub.aclose(), 5)

    assert "has not responded yet" in caplog.text
    journal.gate.set()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


def test_a_process_ends_although_its_journal_never_responds() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LEAVING], capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )

    assert (ended.stdout, ended.returncode) == ("left\n", 0)


STOPPING = """
import sys, threading
from longwatch.model.event import Event
from longwatch.following import PollingService
from longwatch.testing import MemoryJournal

asked, leave = threading.Event(), threading.Event()

class Slow(MemoryJournal):
    def slowly(self, call):
        asked.set()
        leave.wait(3)
        return call()

    def read(self, run_id, **options):
        if sys.argv[1] == "read":
            return self.slowly(lambda: MemoryJournal.read(self, run_id, **options))
        return super().read(run_id, **options)

    def arrivals(self, after, **options):
        return self.slowly(lambda: MemoryJournal.arrivals(self, after, **options))

journal = Slow()
service = PollingService(journal)
service.on_event(lambda event: None)
service.start_polling("wf-1")
journal.append([Event(run_id="wf-1", event_id="e", type="note", occurred_at=1)])
asked.wait()
if sys.argv[2] == "stop":
    service.stop_polling()
elif sys.argv[2] == "restart":
    service.start_polling("wf-2")
service.dispose()
leave.set()
"""


@pytest.mark.parametrize("how", ["stop", "restart", "dispose"])
@pytest.mark.parametrize("call", ["read", "arrivals"])
def test_a_service_that_is_stopped_during_a_slow_read_leaves_no_traceback(call: str, how: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", STOPPING, call, how], capture_output=True, text=True, timeout=30
    )

    assert "Traceback" not in ended.stderr
    assert "Error" not in ended.stderr
    assert "has not responded yet" in ended.stderr
    assert ended.returncode == 0

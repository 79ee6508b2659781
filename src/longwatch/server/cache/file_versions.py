"""The versions of projects, for long polls that wait until a project's files change."""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress

from longwatch.documents.store import DocumentStore
from longwatch.errors import LongwatchError
from longwatch.server.cache.projection import Batch, Projection, RunInThread
from longwatch.storage.change_signal import ChangeSignal, OnChange

POLL_SECONDS = 2.0  # without a reported change
LINGER_SECONDS = 30.0  # after the last long poll: the next one comes soon


class FileVersions:
    """Reads the versions of all projects that long polls wait for, with one subscription to the store."""

    name = "project versions"

    def __init__(self, documents: DocumentStore, call: RunInThread, server_closing: asyncio.Event) -> None:
        self._documents = documents
        self._call = call
        self._closing = server_closing
        self._seen: dict[str, int] = {}
        self._projection: Projection[str, int] = Projection(
            self, call, coalesce_seconds=0.0, linger_seconds=LINGER_SECONDS, keeps_trying=True
        )

    async def wait_past(self, project: str, version: int, until: float) -> int:
        """The project's version once it differs from this one, or at this time of the loop."""
        loop = asyncio.get_running_loop()
        with closing(self._projection.subscribe(project)) as reader:
            while True:
                now: int = await self._call(self._documents.project_version, project)
                if now != version or loop.time() >= until or self._closing.is_set():
                    return now
                waits = [asyncio.ensure_future(reader.next()), asyncio.ensure_future(self._closing.wait())]
                try:
                    left = until - loop.time()
                    await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for wait in waits:
                        wait.cancel()
                    await asyncio.gather(*waits, return_exceptions=True)

    def close(self) -> None:
        self._projection.close()

    def subscribe(self, on_change: OnChange) -> ChangeSignal:
        return self._documents.subscribe(on_change)

    def start(self) -> Batch[str, int]:
        return Batch({}, "", POLL_SECONDS)

    def read(self, after: str) -> Batch[str, int]:
        """A version that is new here counts as changed: it may differ from what the long poll read."""
        now = dict[str, int]()
        for project in self._projection.keys:
            with suppress(LongwatchError):  # of one project; the others are still read
                now[project] = self._documents.project_version(project)
        changed = {project: version for project, version in now.items() if self._seen.get(project) != version}
        self._seen = now
        return Batch(changed, after, POLL_SECONDS)

"""A project's files as a topic: what was made, changed or deleted, with the project's version."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence

from longwatch.documents.store import DocumentStore
from longwatch.documents.views import FileView
from longwatch.errors import InvalidCursor, LongwatchError
from longwatch.polling.backoff import JOURNAL_BACKOFF, after_failure
from longwatch.server.change_waiter import ChangeWaiter
from longwatch.server.live.messages import Frame, caught_up, files_message
from longwatch.server.live.run_list_topic import RunInThread
from longwatch.server.live.subscription import FrameBroadcast, FrameBroadcasts, JoinPoint

COALESCE_SECONDS = 0.1
SAFETY_SECONDS = 5.0  # between looks, though nothing was heard

log = logging.getLogger("longwatch.server")


class FilesSource:
    """The messages of one project's files."""

    def __init__(
        self,
        topic: str,
        project: str,
        *,
        store: DocumentStore,
        lines: FrameBroadcasts,
        call: RunInThread,
    ) -> None:
        self.topic = topic
        self._project = project
        self._store = store
        self._lines = lines
        self._call = call

    async def read(self, after: str) -> AsyncGenerator[Sequence[Frame] | JoinPoint, None]:
        since = version_of(after)
        line = self._lines.get(self.topic)
        if line is None:
            version = await self._call(self._store.project_version, self._project)
            line = self._lines.get(self.topic)  # somebody may have been faster
            if line is None:
                line = self._lines.start(self.topic, f"v{version}", self._lead)
        place, cursor = line.end, line.cursor
        known = line.position_of(after) if after else None
        if known is not None:
            yield [*line.all_from(known), caught_up(self.topic, cursor)]
        else:
            frames = await self._history(since, until=version_of(cursor) or 0)
            yield [*frames, caught_up(self.topic, cursor)]
        yield JoinPoint(line, place)

    async def _history(self, since: int | None, *, until: int) -> list[Frame]:
        if since is not None and since > until:
            since = None  # of another store, or one that was set back
        found = await self._call(self._store.files, self._project, since=since)
        # What is newer comes through the line.
        changes = [FileView.of(entry) for entry in found.files if entry.project_version <= until]
        if since is not None and not changes:
            return []
        return [files_message(self.topic, until, changes, None)]

    async def _lead(self, line: FrameBroadcast) -> None:
        backoff = JOURNAL_BACKOFF
        while True:
            try:
                await self._follow(line)
            except LongwatchError as error:
                later = after_failure(backoff, error)
                if later is None:
                    raise
                backoff = later
                log.warning("%s cannot be read, next try in %g s: %s", self.topic, backoff.delay, error)
                await asyncio.sleep(backoff.delay or 0.0)

    async def _follow(self, line: FrameBroadcast) -> None:
        async with ChangeWaiter.open(self._store.subscribe, self._call) as changed:
            while True:
                since = version_of(line.cursor) or 0
                if await self._call(self._store.project_version, self._project) != since:
                    found = await self._call(self._store.files, self._project, since=since)
                    changes = [
                        FileView.of(entry) for entry in found.files if entry.project_version <= found.version
                    ]
                    line.push(files_message(self.topic, found.version, changes, f"v{found.version}"))
                    await asyncio.sleep(COALESCE_SECONDS)
                    continue
                await changed.wait(SAFETY_SECONDS)


def version_of(cursor: str) -> int | None:
    """`v12`: every change up to version 12 of the project."""
    digits = cursor[1:]
    if not cursor:
        return None
    if cursor[0] == "v" and digits.isascii() and digits.isdigit() and len(digits) <= 18:
        return int(digits)
    raise InvalidCursor(
        f"{cursor[:40]!r} is no cursor of a project's files; leave it out to begin at the start"
    )

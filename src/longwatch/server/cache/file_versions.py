"""Wakes whoever waits for a change of a project's files: one look at the store for all of them."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from longwatch.errors import LongwatchError

if TYPE_CHECKING:
    from longwatch.server.change_waiter import ChangeWaiter
    from longwatch.server.context import ServerContext

LOOK_SECONDS = 2.0  # between looks though nothing was heard
LINGER_SECONDS = 30.0  # after the last one left, listening goes on for so long: the next poll comes soon

log = logging.getLogger("longwatch.server")


class Versions:
    """The versions of the projects that somebody waits for. Belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._known: dict[str, int] = {}
        self._task: asyncio.Task[None] | None = None
        self._asked = 0.0

    async def later_than(self, context: ServerContext, project: str, version: int, until: float) -> int:
        """The project's version once it is another than this, or when the time of the loop is up."""
        loop = asyncio.get_running_loop()
        while True:
            waiter: asyncio.Future[None] = loop.create_future()
            waiting = self._waiting.setdefault(project, set())
            waiting.add(waiter)
            try:
                self._listen(context)
                now = await context.call(context.documents.project_version, project)
                left = until - loop.time()
                if now != version or left <= 0 or context.closing.is_set():
                    return now
                self._known.setdefault(project, now)
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await waiter
            finally:
                waiting.discard(waiter)
                if not waiting and self._waiting.get(project) is waiting:
                    del self._waiting[project]
                    self._known.pop(project, None)

    def _listen(self, context: ServerContext) -> None:
        loop = asyncio.get_running_loop()
        self._asked = loop.time()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._run(context), name="longwatch-versions")

    async def _run(self, context: ServerContext) -> None:
        from longwatch.server.change_waiter import ChangeWaiter  # the feed needs the context, which has this

        loop = asyncio.get_running_loop()
        try:
            async with ChangeWaiter.open(context.documents.subscribe, context.call) as changes:
                while not context.closing.is_set() and (
                    self._waiting or loop.time() < self._asked + LINGER_SECONDS
                ):
                    await self._look(context)
                    await _until_changed(changes, context.closing)
        except LongwatchError as error:  # the store cannot be listened to: polls end when their time is up
            log.debug("documents cannot be listened to: %s", error)
        for project in list(self._waiting):
            self._wake(project)

    async def _look(self, context: ServerContext) -> None:
        for project, known in list(self._known.items()):
            try:
                now = await context.call(context.documents.project_version, project)
            except LongwatchError as error:
                log.debug("version of project %s: %s", project, error)
                continue
            if now != known and project in self._known:
                self._known[project] = now
                self._wake(project)

    def _wake(self, project: str) -> None:
        for waiter in self._waiting.get(project, ()):
            if not waiter.done():
                waiter.set_result(None)

    async def aclose(self) -> None:
        """Listen no more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._task


async def _until_changed(changes: ChangeWaiter, closing: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    waits = [loop.create_task(changes.wait()), loop.create_task(closing.wait())]
    try:
        await asyncio.wait(waits, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)

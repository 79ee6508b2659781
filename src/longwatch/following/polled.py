"""One start of one workflow in the polling service: from its first event until its end, or until revoked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from longwatch.errors import LongwatchError
from longwatch.following.hub import Hub
from longwatch.following.items import Ended, Followed, Reason
from longwatch.following.reporting import reporting
from longwatch.journal.base import Journal
from longwatch.model.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """To whom a run brings what it finds: in the loop of the run, except for `failed`."""

    deliver: Callable[[Event, Polled], Awaitable[None]]  # the next event
    failed: Callable[[Exception, Polled], None]  # from any thread: the journal did not answer
    over: Callable[[], None]  # nothing more comes


class Polled:
    """Nothing of a revoked run is wanted, though it may still be under way."""

    def __init__(self, workflow_id: str) -> None:
        self.workflow_id = workflow_id
        self.is_begun = False  # False: it waits for the first subscriber
        self.is_revoked = False
        self.is_over = False
        self.task: asyncio.Task[None] | None = None

    def is_wanted(self) -> bool:
        return not self.is_revoked

    def cancel(self) -> None:
        """In the loop of its task. One that is over must be left to close what it opened."""
        if self.task is not None and not self.is_over:
            self.is_over = True
            self.task.cancel()

    async def follow(self, journal: Journal, make_hub: Callable[[Journal], Hub], listener: Listener) -> None:
        """Bring everything to the listener."""
        last: list[Exception] = []

        def failed(error: Exception) -> None:
            last[:] = [error]
            listener.failed(error, self)

        async with make_hub(reporting(journal, failed)) as hub:
            try:
                ended = await self._bring(hub, listener)
                if ended is not None and ended.reason is Reason.UNUSABLE and not last:
                    failed(LongwatchError(ended.message))
            except Exception as error:  # noqa: BLE001 - whatever it is, somebody has to be told
                if error not in last:
                    failed(error)
            # Before the hub is closed, which may have to wait for a slow read.
            self.is_over = True
            listener.over()

    async def _bring(self, hub: Hub, listener: Listener) -> Ended | None:
        async with aclosing(aiter(hub.follow(self.workflow_id))) as items:
            async for item in items:
                if isinstance(item, Ended):
                    return item
                if isinstance(item, Followed):
                    await listener.deliver(item.event, self)
                if self.is_revoked:
                    break
        return None

"""Where a producer sits: its run, its clock, its way to the store, and a disk that survives its crashes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

from longwatch.journal.base import Journal
from longwatch.model.event import Event
from longwatch.testing.simulation.loop import SkewedClock
from longwatch.testing.simulation.network import Network


class Desk:
    """All that a producer needs. It is the same one after a crash; only what is on the disk is left of it."""

    def __init__(
        self,
        run_id: str,
        name: str,
        *,
        clock: SkewedClock,
        journal: Journal,
        network: Network,
        random: Random,
    ) -> None:
        self.run_id = run_id
        self.name = name
        self.clock = clock
        self.random = random
        self.disk: dict[str, Any] = {}
        self.starts = 0  # before this one
        self.closing = asyncio.Event()  # set when it is time to finish and return
        self.promised: dict[str, Event] = {}
        self.announce_after_ms = journal.announce_after_ms
        self._journal = journal
        self._network = network

    async def append(self, events: Sequence[Event]) -> None:
        """Send these to the store. Raises as a journal does; some may be stored nevertheless."""
        await self._network.append(self._journal, events)

    def promise(self, events: Sequence[Event]) -> None:
        """From now on these count as recorded: every follower has to get each of them once."""
        for event in events:
            self.promised[event.event_id] = event


Producer = Callable[[Desk], Awaitable[None]]
"""Writes events until `desk.closing` is set, and returns when all that it promised is stored."""

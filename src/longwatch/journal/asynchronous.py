"""Any journal, for asyncio: the same calls in threads of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from longwatch.journal.base import DEFAULT_LIST_LIMIT, DEFAULT_READ_LIMIT, Journal, RunPage
from longwatch.model.event import START, Cursor, Event, Page
from longwatch.model.run import RunSummary
from longwatch.model.run_query import ALL_RUNS, RunQuery

P = ParamSpec("P")
R = TypeVar("R")


class AsyncJournal:
    """A blocking journal behind `await`. Close it to end its threads; the journal itself stays open.

    Cancelling a call stops the waiting, not the work: an append that was under way is still carried out.
    """

    def __init__(self, journal: Journal, *, threads: int = 4) -> None:
        self.journal = journal
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="longwatch-journal")

    async def append(self, events: Sequence[Event]) -> None:
        await self._call(self.journal.append, events)

    async def read(
        self, run_id: str, *, after: Cursor = START, limit: int = DEFAULT_READ_LIMIT, thorough: bool = False
    ) -> Page:
        return await self._call(self.journal.read, run_id, after=after, limit=limit, thorough=thorough)

    async def find_runs(
        self, query: RunQuery = ALL_RUNS, *, after: Cursor | None = None, limit: int = DEFAULT_LIST_LIMIT
    ) -> RunPage:
        return await self._call(self.journal.find_runs, query, after=after, limit=limit)

    async def find_run(self, run_id: str) -> RunSummary | None:
        return await self._call(self.journal.find_run, run_id)

    async def _call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, partial(function, *args, **kwargs)
        )

    async def aclose(self) -> None:
        """End the threads, after the calls that are under way."""
        await asyncio.to_thread(self._threads.shutdown)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

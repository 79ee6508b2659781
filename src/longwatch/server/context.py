"""What every route needs: the stores, the hub that reads them once for all, the board, time and limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import ParamSpec, TypeVar

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.documents.store import DocumentStore
from longwatch.executions.stores.base import ExecutionStore
from longwatch.executions.stores.factory import open_executions
from longwatch.executions.stores.memory import MemoryExecutionStore
from longwatch.following.hub import Hub
from longwatch.following.merged_runs import MergedRuns
from longwatch.following.observation import ObservedRun, Observer
from longwatch.following.unlisted_runs import BackgroundScan
from longwatch.journal.asynchronous import AsyncJournal
from longwatch.journal.base import Journal
from longwatch.model.run import RunSummary
from longwatch.recording.secret_names import SecretNames
from longwatch.server.access.limits import ServerLimits, Traffic
from longwatch.server.access.origins import Hosts
from longwatch.server.access.tokens import Access
from longwatch.server.cache.execution_cache import ExecutionCache
from longwatch.server.cache.file_versions import FileVersions
from longwatch.server.cache.run_cache import RunCache
from longwatch.server.event_intake import EventIntake
from longwatch.settings import Settings
from longwatch.turns import Conversations

THREADS = 8  # for calls of the stores that requests wait for

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerContext:
    """One server's parts. Belongs to the event loop in which it was opened."""

    journal: Journal
    async_journal: AsyncJournal
    hub: Hub
    board: RunCache
    unlisted: BackgroundScan
    runs: MergedRuns
    observer: Observer
    appender: EventIntake
    conversations: Conversations
    documents: DocumentStore
    executions: ExecutionCache
    versions: FileVersions
    clock: Clock
    limits: ServerLimits
    access: Access
    hosts: Hosts
    threads: ThreadPoolExecutor
    traffic: Traffic = field(default_factory=Traffic)
    closing: asyncio.Event = field(default_factory=asyncio.Event)  # set when the server is going down

    async def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call something that blocks, in a thread."""
        return await call_in(self.threads, function, *args, **kwargs)

    async def observed(self, run: RunSummary) -> ObservedRun:
        """The run as it stands at this moment, by its events and its processes."""
        if not self.observer.has_to_probe(run):
            return ObservedRun(run)
        [found] = await self.call(self.observer.observed, [run])
        return found


async def call_in(
    threads: ThreadPoolExecutor, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Call something that blocks, in a thread of this pool."""
    return await asyncio.get_running_loop().run_in_executor(threads, partial(function, *args, **kwargs))


@asynccontextmanager
async def open_context(
    journal: Journal,
    documents: DocumentStore,
    *,
    clock: Clock = SYSTEM_CLOCK,
    limits: ServerLimits | None = None,
    access: Access | None = None,
    hosts: Hosts | None = None,
    settings: Settings | None = None,
    executions: ExecutionStore | None = None,
) -> AsyncIterator[ServerContext]:
    """The parts of a server over these stores, which stay open; everything else is closed at the end.

    Executions are read where the settings have them, unless a store is given.
    """

    def execution_store() -> ExecutionStore:
        if executions is not None or settings is None:
            return executions or MemoryExecutionStore()
        return open_executions(settings=settings, clock=clock)

    shown = ExecutionCache(execution_store, journal, clock)
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="longwatch-server")
    closing = asyncio.Event()
    try:
        conversations = Conversations(journal, clock, settings=settings)
        async with (
            AsyncJournal(journal) as async_journal,
            Hub(journal, clock=clock) as hub,
        ):
            board = RunCache(hub, async_journal, closing)
            versions = FileVersions(documents, partial(call_in, threads), closing)
            unlisted = BackgroundScan(journal, clock=clock)
            runs = MergedRuns(journal, unlisted.runs, clock=clock)
            try:
                yield ServerContext(
                    journal=journal,
                    async_journal=async_journal,
                    hub=hub,
                    board=board,
                    unlisted=unlisted,
                    runs=runs,
                    observer=Observer(journal, clock=clock, runs=runs),
                    appender=EventIntake(journal, SecretNames(settings.redact_keys if settings else ())),
                    conversations=conversations,
                    documents=documents,
                    executions=shown,
                    versions=versions,
                    clock=clock,
                    limits=limits or ServerLimits(),
                    access=access or Access(clock=clock),
                    hosts=hosts or Hosts(),
                    threads=threads,
                    closing=closing,
                )
            finally:
                closing.set()
                versions.close()
                await board.aclose()
    finally:
        await asyncio.to_thread(threads.shutdown)
        if executions is None:
            shown.close()

"""The parts of a server that its routes share: stores, hub, caches, clock, limits and access."""

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
from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.sqlite.snapshots import RunSnapshots
from longwatch.model.run import RunSummary
from longwatch.notifications.channels.registry import CHANNELS
from longwatch.notifications.queue import NotificationQueue
from longwatch.notifications.rules import rules_of
from longwatch.notifications.stores.base import NotificationStore
from longwatch.notifications.stores.factory import open_notifications
from longwatch.notifications.stores.memory import MemoryNotificationStore
from longwatch.notifications.web_push.service import PushService
from longwatch.notifications.web_push.store import PushStore
from longwatch.recording.secret_names import SecretNames
from longwatch.server.access.limits import ServerLimits, Traffic
from longwatch.server.access.origins import Hosts
from longwatch.server.access.tokens import Access
from longwatch.server.cache.execution_cache import ExecutionCache
from longwatch.server.cache.file_versions import FileVersions
from longwatch.server.cache.run_cache import RunCache
from longwatch.server.event_intake import EventIntake
from longwatch.server.telemetry_intake import TelemetryIntake
from longwatch.settings import Settings
from longwatch.storage.outgoing import OutgoingAddresses
from longwatch.storage.price_file import PriceList
from longwatch.turns import Conversations

THREADS = 8  # for blocking calls of the stores

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerContext:
    """The parts of one server. They belong to the event loop in which they were opened."""

    journal: Journal
    async_journal: AsyncJournal
    hub: Hub
    run_cache: RunCache
    unlisted: BackgroundScan
    runs: MergedRuns
    observer: Observer
    event_intake: EventIntake
    telemetry: TelemetryIntake
    conversations: Conversations
    documents: DocumentStore
    executions: ExecutionCache
    file_versions: FileVersions
    clock: Clock
    limits: ServerLimits
    access: Access
    hosts: Hosts
    prices: PriceList
    notifications: NotificationQueue  # only read
    push: PushService
    snapshots: RunSnapshots | None  # where the journal has them
    threads: ThreadPoolExecutor
    mcp_write: bool = False  # whether agents with the write scope may write over MCP
    traffic: Traffic = field(default_factory=Traffic)
    closing: asyncio.Event = field(default_factory=asyncio.Event)  # set when the server shuts down

    async def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a blocking function in a thread."""
        return await call_in(self.threads, function, *args, **kwargs)

    async def observe(self, run: RunSummary) -> ObservedRun:
        """The status of the run at this moment, by its events and its processes."""
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
    """Open the parts of a server over these stores, and close everything but the stores at the end.

    Without a store of executions, the settings name it.
    """

    def execution_store() -> ExecutionStore:
        if executions is not None or settings is None:
            return executions or MemoryExecutionStore()
        return open_executions(settings=settings, clock=clock)

    shown = ExecutionCache(execution_store, journal, clock)
    snapshots = RunSnapshots(journal, clock=clock) if isinstance(journal, SqliteJournal) else None
    access, hosts = access or Access(clock=clock), hosts or Hosts()
    records = open_notifications(settings, clock=clock) if settings else MemoryNotificationStore()
    push = _push_service(settings, records)
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="longwatch-server")
    closing = asyncio.Event()
    try:
        await call_in(threads, push.revoke, access.grants, hosts.serves)
        conversations = Conversations(journal, clock, settings=settings)
        async with (
            AsyncJournal(journal) as async_journal,
            Hub(journal, clock=clock) as hub,
        ):
            run_cache = RunCache(hub, async_journal, closing)
            file_versions = FileVersions(documents, partial(call_in, threads), closing)
            unlisted = BackgroundScan(journal, clock=clock)
            runs = MergedRuns(journal, unlisted.runs, clock=clock)
            event_intake = EventIntake(journal, SecretNames(settings.redact_keys if settings else ()))
            try:
                yield ServerContext(
                    journal=journal,
                    async_journal=async_journal,
                    hub=hub,
                    run_cache=run_cache,
                    unlisted=unlisted,
                    runs=runs,
                    observer=Observer(journal, clock=clock, runs=runs),
                    event_intake=event_intake,
                    telemetry=TelemetryIntake(journal, event_intake, settings),
                    conversations=conversations,
                    documents=documents,
                    executions=shown,
                    file_versions=file_versions,
                    clock=clock,
                    limits=limits or ServerLimits(),
                    access=access,
                    hosts=hosts,
                    prices=PriceList(settings),
                    notifications=NotificationQueue(records, clock, holder="server"),
                    push=push,
                    snapshots=snapshots,
                    threads=threads,
                    mcp_write=settings is not None and settings.server_mcp_write,
                    closing=closing,
                )
            finally:
                closing.set()
                file_versions.close()
                await run_cache.aclose()
    finally:
        await asyncio.to_thread(threads.shutdown)
        if snapshots is not None:
            snapshots.close()
        records.close()
        if executions is None:
            shown.close()


def _push_service(settings: Settings | None, records: NotificationStore) -> PushService:
    """The push subscriptions beside the journal, with the rules of the settings."""
    if settings is None:
        return PushService(PushStore(records))
    rules = rules_of(settings, CHANNELS)
    addresses = OutgoingAddresses(settings.notification_addresses, is_public_only=True)
    return PushService(PushStore(records), rules, addresses)

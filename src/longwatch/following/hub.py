"""The hub: all followers of a journal in one process share its reads.

A journal that numbers arrivals is read once for all runs; of others, each followed run is polled once. Times
are those of the event loop, and threads call the journal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import EventConflict, LongwatchError
from longwatch.following.arrivals_reader import ArrivalsReader
from longwatch.following.backfill import Backfill
from longwatch.following.drain import DrainLimits
from longwatch.following.follower import Follower
from longwatch.following.inbox import Inbox
from longwatch.following.items import Reason
from longwatch.following.observation import facts_to_judge, with_records
from longwatch.following.outage import Outage
from longwatch.following.process_watch import ProcessWatch
from longwatch.following.progress import RunProgress
from longwatch.following.run_channel import Death, RunChannel
from longwatch.following.run_poller import RunPoller
from longwatch.following.threads import HubThreads, run_in_thread
from longwatch.following.timers import alarms
from longwatch.journal.base import DEFAULT_READ_LIMIT, Arrivals, Journal
from longwatch.journal.claims import store_death
from longwatch.model.event import START, Cursor, Page
from longwatch.model.liveness import Liveness, judge
from longwatch.polling.schedules import JOURNAL_INTERVAL
from longwatch.storage.change_signal import Subscribe

log = logging.getLogger("longwatch")

BUFFER_EVENTS = 1_000  # that may wait for one slow follower
POLL_THREADS = 8
HISTORY_THREADS = 4
BATCHES_PER_THREAD = 4  # so that one slow response delays few others


class Hub:
    """Follows any number of runs of one journal. Belongs to the event loop in which it is first used.

    The journal stays open when the hub is closed, unless the hub `owns_journal`. `on_failure` is called for
    each read that fails, in the thread that read, before the hub retries or gives up; it must not raise.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        clock: Clock = SYSTEM_CLOCK,
        poll_seconds: float = JOURNAL_INTERVAL.seconds,
        buffer_events: int = BUFFER_EVENTS,
        page_events: int = DEFAULT_READ_LIMIT,
        drain: DrainLimits | None = None,
        subscribe: Subscribe | None = None,
        executor: Executor | None = None,
        owns_journal: bool = False,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        self.journal = journal
        self.buffer_events = buffer_events
        self.limits = drain if drain is not None else DrainLimits()
        self._clock = clock
        self._poll_seconds = poll_seconds
        self._page_events = page_events
        self._subscribe = subscribe
        self._executor = executor
        self._on_failure = on_failure
        self._arrivals = journal if isinstance(journal, Arrivals) else None
        self._owns_journal = owns_journal
        self.outage = Outage(journal)
        self._channels: dict[str, RunChannel] = {}
        self._inboxes: dict[Inbox, None] = {}
        self._backfilling: dict[RunChannel, None] = {}
        self._is_open = False
        self._is_closed = False

    def follow(
        self,
        run_id: str,
        *,
        after: Cursor = START,
        silent_after_seconds: float | None = None,
        progress: RunProgress | None = None,
        generation: int | None = None,
    ) -> Follower:
        """A follower of this run, from its beginning or from the cursor of an item.

        A caller that has read the run up to there passes its `progress`, so that it is not read again, and
        the `generation` of the journal in which it did; None: the present one.
        """
        return Follower(
            self,
            run_id,
            after=after,
            silent_after_seconds=silent_after_seconds,
            progress=progress,
            generation=self.generation if generation is None else generation,
        )

    @property
    def generation(self) -> int:
        """Grows when the journal's store is replaced; see `Arrivals`."""
        return 0 if self._arrivals is None else self._arrivals.generation

    def trouble(self, run_id: str | None = None) -> str | None:
        """Why the last poll failed: of this run, or of any run that is followed."""
        if run_id is not None:
            channel = self._channels.get(run_id)
            return None if channel is None else channel.poll_state.error
        return next((error for each in self._channels.values() if (error := each.poll_state.error)), None)

    async def __aenter__(self) -> Self:
        self._open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _open(self) -> None:
        if self._is_open:
            return
        self._loop = asyncio.get_running_loop()
        if self._is_closed:
            return
        self._is_open = True
        self.timers = alarms(self._loop)
        self.processes = ProcessWatch(self.timers, self._clock)
        self._threads = HubThreads(
            self._executor, polls=POLL_THREADS, histories=HISTORY_THREADS, on_failure=self._on_failure
        )
        journal = self.journal
        if self._arrivals is not None:
            self._source: ArrivalsReader | RunPoller = ArrivalsReader(
                self._arrivals,
                self._subscribe or self._arrivals.subscribe,
                self._threads,
                self.timers,
                self.outage,
                self._clock,
                lambda: bool(self._inboxes),
            )
        else:
            self._source = RunPoller(
                journal,
                self._threads,
                self.outage,
                poll_seconds=self._poll_seconds,
                page_events=self._page_events,
                batches=POLL_THREADS * BATCHES_PER_THREAD,
            )

    async def aclose(self) -> None:
        """End every follower with the reason `stopped`, then the threads.

        It waits for calls under way, but not for long: a store may never respond.
        """
        if self._is_closed:
            return
        self._is_closed = True
        for inbox in list(self._inboxes):
            inbox.stop(Reason.STOPPED)
        is_quiet = await self._shut_down() if self._is_open else True
        if self._owns_journal and is_quiet:  # else a thread still uses it, and ends with the process
            await run_in_thread(self.journal.close)

    async def _shut_down(self) -> bool:
        for channel in list(self._channels.values()):
            channel.close()
        self.processes.close()
        self.timers.close()
        is_quiet = await self._threads.aclose()
        if not is_quiet:
            log.warning("longwatch: %s has not responded yet; its calls are left behind", self.journal.url)
        await self._source.aclose(is_quiet=is_quiet and self._executor is None)
        return is_quiet

    @property
    def followers(self) -> int:
        """How many followers there are."""
        return len(self._inboxes)

    @property
    def runs(self) -> int:
        """How many runs are followed live."""
        return len(self._channels)

    def now(self) -> float:
        """The time of the event loop."""
        return self._loop.time()

    def add_follower(self, inbox: Inbox) -> None:
        """Called by a follower when it starts."""
        self._open()
        if self._is_closed:
            inbox.stop(Reason.STOPPED)
        self._inboxes[inbox] = None

    def remove_follower(self, inbox: Inbox) -> None:
        """Called by a follower when it ends."""
        self._inboxes.pop(inbox, None)
        if not self._inboxes and self._is_open:
            self._source.release()

    def read(self, run_id: str, after: Cursor, *, thorough: bool) -> asyncio.Future[Page]:
        """One page, for a follower that reads by itself."""
        return self._threads.history(
            partial(self.journal.read, run_id, after=after, limit=self._page_events, thorough=thorough)
        )

    @property
    def is_ready(self) -> bool:
        """Whether a run can be joined now."""
        return self._source.is_ready

    async def make_ready(self) -> None:
        """Subscribe to the journal's changes."""
        await self._source.open()

    def join(self, run_id: str, inbox: Inbox) -> RunChannel:
        """The channel of this run, which puts pages into the inbox from now on."""
        channel = self._channels.get(run_id)
        if channel is None:
            channel = self._channels[run_id] = RunChannel(run_id, self._source, self)
            self._source.add(channel)
        channel.add(inbox)
        return channel

    def forget(self, channel: RunChannel) -> None:
        """Called by a channel when it is closed."""
        if self._channels.get(channel.run_id) is channel:
            del self._channels[channel.run_id]

    def conclude(self, death: Death, done: Callable[[Liveness | LongwatchError], None]) -> None:
        """In a thread: judge a run whose processes have exited, and append its ending if it died."""

        def report() -> None:
            found: Liveness | LongwatchError
            try:
                found = self._conclude(death)
            except LongwatchError as error:
                found = error
            except Exception as error:  # noqa: BLE001 - the followers must learn of it
                found = LongwatchError(f"{type(error).__name__}: {error}")
            with suppress(RuntimeError):  # the loop is closed already
                self._loop.call_soon_threadsafe(done, found)

        self._threads.poll(report)

    def _conclude(self, death: Death) -> Liveness:
        observations = with_records(death.observations, death.processes, death.run_id, self.journal)
        found = judge(
            death.run_id,
            self._threads.attempt(partial(facts_to_judge, self.journal, death.run_id, death.lifecycle)),
            last=death.last or (0, "", 0, ""),
            active_at=death.active_at,
            observations=observations,
            now_ms=self._clock.now_ms(),
            ttl_seconds=self.journal.default_ttl_seconds,
        )
        if found.death is not None:
            with suppress(EventConflict):  # another observer was first
                store_death(self.journal, found.death)
        return found

    def backfill(self, channel: RunChannel) -> None:
        """Read the run from its beginning, for progress that its followers did not see."""
        if channel not in self._backfilling:
            self._backfilling[channel] = None
            read = partial(self.read, channel.run_id, thorough=False)
            done = partial(self._backfilling.pop, channel, None)
            Backfill(channel, read, self.timers, done).read_page()

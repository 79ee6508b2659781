"""The server's copy of every run that is requested, kept up to date by the hub.

The first request for a run starts to follow it; responses after that come from memory, without a read of the
journal. While a run is cached its processes are watched too, so a run whose producer died ends even if
clients only poll it. Runs without requests leave the cache.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from longwatch.errors import JournalMoved, JournalUnavailable, JournalUnusable, LongwatchError, RunDeleted
from longwatch.following.hub import Hub
from longwatch.following.items import CaughtUp, Ended, Followed, Reason
from longwatch.following.progress import RunProgress
from longwatch.journal.asynchronous import AsyncJournal
from longwatch.model.event import START, Cursor, Event
from longwatch.model.run import Run, fold
from longwatch.server.cache.fold_cache import CachedFold, FoldCache

IDLE_SECONDS = 30.0  # after the last request a run leaves the cache
SWEEP_SECONDS = 5.0
FINAL_SECONDS = 5.0  # after which an ended run is read again: corrections may come
READY_SECONDS = 15.0  # for the next part of a run's history to be read
MOST_RUNS = 20_000
KINDS = ("run", "pulse", "turn")  # names of the reducers

log = logging.getLogger("longwatch.server")

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Reducer(Generic[S]):
    """How a run is cached: its state before the first event, and how events change it."""

    name: str
    empty: Callable[[str], S]  # of a run id
    plus: Callable[[S, Sequence[Event]], S]
    reads_past: bool = True  # False: it needs only new events, from the cursor of the first request


@dataclass(frozen=True, slots=True)
class RenderedBody:
    """A body that was rendered, or is being rendered, for all requests meanwhile."""

    tag: str
    at: int  # epoch ms
    written: asyncio.Future[tuple[bytes, bytes]]  # plain, and compressed


class CachedRun(Generic[S]):
    """One run in the cache."""

    def __init__(self, run_id: str, kind: Reducer[S], generation: int = 0) -> None:
        self.run_id = run_id
        self.state: S = kind.empty(run_id)
        self.events = 0  # how many the state has
        self.revision = 0  # grows with every change
        self.cursor: Cursor = START
        self.touched = 0.0  # time of the loop of the last request
        self.final_until: float | None = None  # the run has ended; until then the state is certain
        self.trouble: LongwatchError | None = None  # why the state may be outdated
        self.is_ready = False
        self.is_there = False  # a request has checked that the run exists
        self.body: RenderedBody | None = None  # the response, if it takes long to render
        self.progress: RunProgress | None = None  # the part of the fold that the hub needs
        self.is_behind = False  # something was written while its history was being read
        # Ids of events that were read ahead of the follower, which delivers them too.
        self._early: set[str] = set()
        self._delivered: list[set[str]] = []  # for each read ahead: what the follower delivers meanwhile
        self.kind = kind
        self.generation = generation  # of the journal that the state was read from
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def is_waited_for(self) -> bool:
        return bool(self._waiters)

    @property
    def is_ahead(self) -> bool:
        """Whether the state has events that the follower has yet to deliver."""
        return bool(self._early)

    def start_from(self, past: CachedFold[S]) -> None:
        """Take over what was read before the run is followed."""
        self.state, self.events = past.state, past.events
        self.cursor, self.progress = past.cursor, past.progress

    def to_fold(self) -> CachedFold[S] | None:
        """The fold, to resume from later; None if it may be outdated."""
        if not self.is_ready or self.trouble is not None or self.is_ahead or self.progress is None:
            return None
        return CachedFold(self.state, self.progress, self.events, self.cursor)

    def take(self, events: Sequence[Event]) -> None:
        """Add events of the follower, each of them once."""
        for delivered in self._delivered:
            delivered.update(event.event_id for event in events)
        if self._early:
            seen = self._early.intersection(event.event_id for event in events)
            self._early -= seen
            events = [event for event in events if event.event_id not in seen]
        self._add(events)

    @contextmanager
    def reading_ahead(self) -> Iterator[set[str]]:
        """Collect the ids of the events that the follower delivers during a read ahead of it."""
        delivered: set[str] = set()
        self._delivered.append(delivered)
        try:
            yield delivered
        finally:
            # By identity: two sets with the same ids are equal, and the other read is still under way.
            self._delivered = [each for each in self._delivered if each is not delivered]

    def take_early(self, events: Sequence[Event], delivered: set[str]) -> None:
        """Add events that were read ahead of the follower, which has delivered some of them meanwhile."""
        seen = self._early | delivered
        events = [event for event in events if event.event_id not in seen]
        self._early.update(event.event_id for event in events)
        self._add(events)

    def _add(self, events: Sequence[Event]) -> None:
        if events:
            self.state = self.kind.plus(self.state, events)
            self.events += len(events)
            self.changed()

    def changed(self) -> None:
        """Wake all requests that wait for a change."""
        self.revision += 1
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait_for_change(self, after: int, seconds: float) -> bool:
        """Wait until there is a later revision than this. False if the time is up before."""
        if self.revision != after:
            return True
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except TimeoutError:
            return False
        finally:
            self._waiters.discard(waiter)
        return True


class RunCache:
    """All runs that are requested. Belongs to one event loop."""

    def __init__(self, hub: Hub, journal: AsyncJournal, closing: asyncio.Event) -> None:
        self._hub = hub
        self._journal = journal
        self._folds = FoldCache(journal)
        self._closing = closing
        self._watched: dict[tuple[str, str], CachedRun[object]] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._refreshing: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._closer: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._watched)

    def peek(self, kind: Reducer[S], run_id: str) -> CachedRun[S] | None:
        """The run if it is cached and current, without waiting; otherwise use `get`."""
        found = self._watched.get((kind.name, run_id))
        if found is None or not found.is_ready or found.is_behind or found.trouble is not None:
            return None
        if self._is_outdated(found):
            return None
        now = asyncio.get_running_loop().time()
        if found.final_until is not None and now > found.final_until:
            return None
        found.touched = now
        return found  # type: ignore[return-value]  # the kind's name stands for its type

    def follow(self, kind: Reducer[S], run_id: str, *, after: Cursor = START) -> CachedRun[S]:
        """The run, followed from now on, whether its history is read already or not."""
        key = (kind.name, run_id)
        found = self._watched.get(key)
        if found is not None and self._is_outdated(found):
            self._drop(key)
            found = None
        if found is None or (found.trouble is not None and key not in self._tasks):
            found = self._begin(key, kind, run_id, after)
        found.touched = asyncio.get_running_loop().time()
        return found  # type: ignore[return-value]

    async def get(self, kind: Reducer[S], run_id: str, *, after: Cursor = START) -> CachedRun[S]:
        """The run, followed from now on. Raises if its history cannot be read in good time.

        A reducer that needs no history starts `after` the cursor of the first request.
        """
        quick = self.peek(kind, run_id)
        if quick is not None:
            return quick
        seen = self._watched.get((kind.name, run_id))
        if seen is not None and self._is_outdated(seen):
            await self._journal.find_run(run_id)  # raises at once if there is no journal
        found = self.follow(kind, run_id, after=after)
        if found.final_until is not None:
            await self._refresh_once((kind.name, run_id), found)
        await self._until_ready(found)
        if found.is_behind:
            await self._read_ahead(found)
            found.is_behind = False
        return found

    def _is_outdated(self, watched: CachedRun[S]) -> bool:
        """Whether the journal was replaced since the run was read from it."""
        return watched.generation != self._hub.generation

    async def _until_ready(self, found: CachedRun[S]) -> None:
        while not found.is_ready and found.trouble is None:
            if not await found.wait_for_change(found.revision, READY_SECONDS):
                break  # nothing was read for that long
        if found.trouble is not None:
            raise found.trouble
        if not found.is_ready:
            raise JournalUnavailable(
                f"Nothing of run {found.run_id!r} could be read for {READY_SECONDS:.0f} s. Try again."
            )

    def _begin(self, key: tuple[str, str], kind: Reducer[S], run_id: str, after: Cursor) -> CachedRun[object]:
        if len(self._watched) >= MOST_RUNS:
            self._make_room()
        watched: CachedRun[object] = CachedRun(run_id, kind, self._hub.generation)  # type: ignore[arg-type]
        if not kind.reads_past:
            watched.cursor = after
        self._watched[key] = watched
        task = asyncio.get_running_loop().create_task(self._follow(key, watched))
        self._tasks[key] = task
        task.add_done_callback(lambda _: self._forget_task(key, task))
        self._plan_sweep()
        if self._closer is None:
            self._closer = asyncio.get_running_loop().create_task(self._wake_all_when_closing())
        return watched

    async def _wake_all_when_closing(self) -> None:
        """Let long polls respond now rather than when their time is up."""
        await self._closing.wait()
        for watched in list(self._watched.values()):
            watched.changed()

    def _forget_task(self, key: tuple[str, str], task: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]

    async def _follow(self, key: tuple[str, str], watched: CachedRun[object]) -> None:
        """Keep one run up to date until it ends or leaves the cache."""
        waiting: list[Event] = []
        try:
            if watched.kind.reads_past:
                past = self._folds.start(key, watched.state)
                await self._folds.read(watched.run_id, past, watched.kind.plus, watched.changed)
                watched.start_from(past)
            follower = self._hub.follow(
                watched.run_id,
                after=watched.cursor,
                progress=watched.progress,
                generation=watched.generation,
            )
            async with aclosing(aiter(follower)) as items:
                async for item in items:
                    match item:
                        case Followed(event=event, last=last):
                            waiting.append(event)
                            if not last:
                                continue
                            if watched.is_ready:
                                watched.take(waiting)
                                waiting = []
                        case CaughtUp():
                            watched.take(waiting)
                            waiting = []
                            watched.is_ready = True
                            watched.changed()
                        case Ended(reason=Reason.DELETED):
                            await self._journal.read(watched.run_id)  # raises the error itself
                        case Ended():
                            watched.take(waiting)
                            self._ended(watched, item)
                    watched.cursor, watched.progress = follower.cursor, follower.progress
        except (JournalMoved, JournalUnusable, RunDeleted) as error:
            watched.trouble = error
            watched.changed()
        except Exception as error:
            log.exception("the cache lost run %s; the next request starts again", watched.run_id)
            watched.trouble = JournalUnusable(f"Run {watched.run_id!r} cannot be followed: {error}")
            watched.changed()
        finally:
            if watched.trouble is not None and self._watched.get(key) is watched:
                del self._watched[key]  # the next request starts again

    def _ended(self, watched: CachedRun[object], ended: Ended) -> None:
        if ended.reason in (Reason.ENDED, Reason.DIED):
            watched.final_until = asyncio.get_running_loop().time() + FINAL_SECONDS
            watched.is_ready = True
        else:
            watched.trouble = JournalUnusable(
                f"Run {watched.run_id!r} cannot be followed any more: {ended.message or ended.reason}"
            )
        watched.changed()

    async def _refresh_once(self, key: tuple[str, str], watched: CachedRun[S]) -> None:
        """A run has ended, and something may have been written since; one read serves all requests."""
        task = self._refreshing.get(key)
        if task is None:
            task = self._refreshing[key] = asyncio.get_running_loop().create_task(self._refresh(watched))
            task.add_done_callback(partial(self._refreshed, key))
        await asyncio.shield(task)

    def _refreshed(self, key: tuple[str, str], task: asyncio.Task[None]) -> None:
        self._refreshing.pop(key, None)
        if not task.cancelled():
            task.exception()  # raised in the requests that wait, if there are any

    async def _refresh(self, watched: CachedRun[S]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            page = await self._journal.read(watched.run_id, after=watched.cursor, thorough=True)
            watched.cursor = page.cursor
            watched.take(page.events)
            if not page.more:
                watched.final_until = loop.time() + FINAL_SECONDS
                return

    def _plan_sweep(self) -> None:
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._on_sweep)

    def _on_sweep(self) -> None:
        self._sweep = None
        idle = asyncio.get_running_loop().time() - IDLE_SECONDS
        for key, watched in list(self._watched.items()):
            if watched.touched < idle and not watched.is_waited_for:
                self._drop(key)
        if self._watched:
            self._plan_sweep()

    def _make_room(self) -> None:
        """The cache is full: the tenth with the oldest requests leaves."""
        by_age = sorted(self._watched.items(), key=lambda pair: pair[1].touched)
        for key, watched in by_age[: MOST_RUNS // 10]:
            if not watched.is_waited_for:
                self._drop(key)

    def _drop(self, key: tuple[str, str]) -> None:
        watched = self._watched.pop(key, None)
        past = watched.to_fold() if watched is not None and watched.kind.reads_past else None
        if past is not None and watched is not None and not self._is_outdated(watched):
            self._folds.put(key, past)
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()

    def forget(self, run_id: str, error: LongwatchError) -> None:
        """Drop a run that was deleted; requests that wait for it raise this error."""
        for kind in KINDS:
            watched = self._watched.get((kind, run_id))
            if watched is not None:
                watched.trouble = error  # so that its fold is not cached either
                self._drop((kind, run_id))
                watched.changed()

    async def catch_up(self, run_id: str) -> None:
        """Show what this server has just written at once, rather than when the hub delivers it."""
        for kind in KINDS:
            watched = self._watched.get((kind, run_id))
            if watched is not None and watched.is_ready:
                await self._read_ahead(watched)
            elif watched is not None:
                watched.is_behind = True

    async def _read_ahead(self, watched: CachedRun[S]) -> None:
        """Read everything that is stored by now, independently of the follower."""
        with watched.reading_ahead() as delivered:
            cursor, more = watched.cursor, True
            while more:
                page = await self._journal.read(watched.run_id, after=cursor, thorough=True)
                watched.take_early(page.events, delivered)
                cursor, more = page.cursor, page.more

    def drop_empty(self, kind: Reducer[S], run_id: str) -> None:
        """Drop a run that does not exist: guessed ids must not take memory."""
        watched = self._watched.get((kind.name, run_id))
        if watched is not None and not watched.events and not watched.is_waited_for:
            self._drop((kind.name, run_id))

    async def aclose(self) -> None:
        """Follow nothing any more."""
        if self._sweep is not None:
            self._sweep.cancel()
        tasks = [*self._tasks.values(), *self._refreshing.values()]
        if self._closer is not None:
            tasks.append(self._closer)
        for watched in self._watched.values():
            watched.changed()
        self._watched.clear()
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError, Exception):
                await task


RUN: Reducer[Run | None] = Reducer("run", lambda run_id: None, lambda run, events: fold(events, run))
PULSE: Reducer[int] = Reducer(
    "pulse", lambda run_id: 0, lambda count, events: count + len(events), reads_past=False
)

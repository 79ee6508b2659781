"""What is known now of every run that somebody asks about, kept up to date by the hub.

The first question about a run begins to follow it; the answers after that come from memory, without reading
the journal. While a run is on the board its process is watched too, so a run whose producer died ends even if
it is only polled. Runs that nobody asks about any more leave the board.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from longwatch.errors import JournalMoved, JournalUnavailable, JournalUnusable, LongwatchError
from longwatch.following.hub import Hub
from longwatch.following.items import CaughtUp, Ended, Followed, Reason
from longwatch.following.progress import RunProgress
from longwatch.journal.asynchronous import AsyncJournal
from longwatch.model.event import START, Cursor, Event
from longwatch.model.run import Run, fold
from longwatch.server.cache.fold_cache import CachedFold, FoldCache

IDLE_SECONDS = 30.0  # after the last question a run leaves the board
SWEEP_SECONDS = 5.0
FINAL_SECONDS = (
    5.0  # how long the state of an ended run holds before it is looked at again: late truth may come
)
READY_SECONDS = 15.0  # for the next part of a run's history to be read
MOST_RUNS = 20_000
KINDS = ("run", "pulse", "turn")  # names of the kinds that there are

log = logging.getLogger("longwatch.server")

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Reducer(Generic[S]):
    """A way to keep a run: what it is before its first event, and what more events make of it."""

    name: str
    empty: Callable[[str], S]  # of a run id
    plus: Callable[[S, Sequence[Event]], S]
    reads_past: bool = True  # False: it needs only what is new, wherever the first question stands


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer that was written, or is being written, for everybody who asks meanwhile."""

    tag: str
    at: int  # epoch ms
    written: asyncio.Future[tuple[bytes, bytes]]  # plain, and compressed


class CachedRun(Generic[S]):
    """One run on the board."""

    def __init__(self, run_id: str, kind: Reducer[S], generation: int = 0) -> None:
        self.run_id = run_id
        self.state: S = kind.empty(run_id)
        self.events = 0  # how many the state has
        self.revision = 0  # grows with every change
        self.cursor: Cursor = START
        self.touched = 0.0  # time of the loop of the last question
        self.final_until: float | None = None  # the run has ended; until then that is known for certain
        self.trouble: LongwatchError | None = None  # why the state cannot be vouched for
        self.is_ready = False
        self.is_there = False  # somebody has seen to it that there is such a run
        self.body: Kept | None = None  # the answer about the state, if it takes long to write
        self.known: RunProgress | None = None  # the part of the fold that the hub needs
        self.is_behind = False  # something was written while its history was being read
        # Ids of events that were read ahead of the follower, which brings them too.
        self._early: set[str] = set()
        self._brought: list[set[str]] = []  # for each read ahead: what the follower brings meanwhile
        self.kind = kind
        self.generation = generation  # of the journal that the state was read from
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def is_waited_for(self) -> bool:
        return bool(self._waiters)

    @property
    def is_ahead(self) -> bool:
        """Whether the state has events that the follower has still to bring."""
        return bool(self._early)

    def begin_with(self, past: CachedFold[S]) -> None:
        """This was read before the run was followed."""
        self.state, self.events = past.state, past.events
        self.cursor, self.known = past.cursor, past.known

    def past(self) -> CachedFold[S] | None:
        """What is known, to go on from later; None if that cannot be said for certain."""
        if not self.is_ready or self.trouble is not None or self.is_ahead or self.known is None:
            return None
        return CachedFold(self.state, self.known, self.events, self.cursor)

    def take(self, events: Sequence[Event]) -> None:
        """These came by the follower, each of them once."""
        for brought in self._brought:
            brought.update(event.event_id for event in events)
        if self._early:
            known = self._early.intersection(event.event_id for event in events)
            self._early -= known
            events = [event for event in events if event.event_id not in known]
        self._add(events)

    @contextmanager
    def reading_ahead(self) -> Iterator[set[str]]:
        """Collect the ids of the events that the follower brings during a read ahead of it."""
        brought: set[str] = set()
        self._brought.append(brought)
        try:
            yield brought
        finally:
            # By identity: two sets with the same ids are equal, and the other read is still under way.
            self._brought = [each for each in self._brought if each is not brought]

    def take_early(self, events: Sequence[Event], brought: set[str]) -> None:
        """These were read ahead of the follower, which has brought some of them meanwhile."""
        known = self._early | brought
        events = [event for event in events if event.event_id not in known]
        self._early.update(event.event_id for event in events)
        self._add(events)

    def _add(self, events: Sequence[Event]) -> None:
        if events:
            self.state = self.kind.plus(self.state, events)
            self.events += len(events)
            self.changed()

    def changed(self) -> None:
        """Wake everybody who waits for news."""
        self.revision += 1
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def news(self, after: int, seconds: float) -> bool:
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
    """All runs that are asked about. Belongs to one event loop."""

    def __init__(self, hub: Hub, journal: AsyncJournal, closing: asyncio.Event) -> None:
        self._hub = hub
        self._journal = journal
        self._histories = FoldCache(journal)
        self._closing = closing
        self._watched: dict[tuple[str, str], CachedRun[object]] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._refreshing: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._closer: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._watched)

    def glance(self, kind: Reducer[S], run_id: str) -> CachedRun[S] | None:
        """The run if it is on the board and can be vouched for, at no cost; else ask `look`."""
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

    async def look(self, kind: Reducer[S], run_id: str, *, after: Cursor = START) -> CachedRun[S]:
        """The run, followed from now on. Raises if its history cannot be read in good time.

        A kind that needs no history begins `after` where the first who asks stands.
        """
        quick = self.glance(kind, run_id)
        if quick is not None:
            return quick
        known = self._watched.get((kind.name, run_id))
        if known is not None and self._is_outdated(known):
            await self._journal.find_run(run_id)  # raises at once if there is no journal to begin anew with
        found = self.follow(kind, run_id, after=after)
        if found.final_until is not None:
            await self._look_again((kind.name, run_id), found)
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
            if not await found.news(found.revision, READY_SECONDS):
                break  # nothing was read for so long
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
        """Whoever holds a long poll answers now rather than when its time is up."""
        await self._closing.wait()
        for watched in list(self._watched.values()):
            watched.changed()

    def _forget_task(self, key: tuple[str, str], task: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]

    async def _follow(self, key: tuple[str, str], watched: CachedRun[object]) -> None:
        """Keep one run up to date until it ends or leaves the board."""
        waiting: list[Event] = []
        try:
            if watched.kind.reads_past:
                past = self._histories.begin(key, watched.state)
                await self._histories.read(watched.run_id, past, watched.kind.plus, watched.changed)
                watched.begin_with(past)
            follower = self._hub.follow(
                watched.run_id,
                after=watched.cursor,
                progress=watched.known,
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
                        case Ended():
                            watched.take(waiting)
                            self._ended(watched, item)
                    watched.cursor, watched.known = follower.cursor, follower.progress
        except (JournalMoved, JournalUnusable) as error:
            watched.trouble = error
            watched.changed()
        except Exception as error:
            log.exception("the board lost run %s; whoever asks for it again begins anew", watched.run_id)
            watched.trouble = JournalUnusable(f"Run {watched.run_id!r} cannot be followed: {error}")
            watched.changed()
        finally:
            if watched.trouble is not None and self._watched.get(key) is watched:
                del self._watched[key]  # the next question begins anew

    def _ended(self, watched: CachedRun[object], ended: Ended) -> None:
        if ended.reason in (Reason.ENDED, Reason.DIED):
            watched.final_until = asyncio.get_running_loop().time() + FINAL_SECONDS
            watched.is_ready = True
        else:
            watched.trouble = JournalUnusable(
                f"Run {watched.run_id!r} cannot be followed any more: {ended.message or ended.reason}"
            )
        watched.changed()

    async def _look_again(self, key: tuple[str, str], watched: CachedRun[S]) -> None:
        """A run has ended, and something may have been written since; one look serves all who ask."""
        task = self._refreshing.get(key)
        if task is None:
            task = self._refreshing[key] = asyncio.get_running_loop().create_task(self._refresh(watched))
            task.add_done_callback(partial(self._refreshed, key))
        await asyncio.shield(task)

    def _refreshed(self, key: tuple[str, str], task: asyncio.Task[None]) -> None:
        self._refreshing.pop(key, None)
        if not task.cancelled():
            task.exception()  # told to those who wait; there may be nobody left

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
        """The board is full: the tenth that nobody has asked about for longest leaves."""
        by_age = sorted(self._watched.items(), key=lambda pair: pair[1].touched)
        for key, watched in by_age[: MOST_RUNS // 10]:
            if not watched.is_waited_for:
                self._drop(key)

    def _drop(self, key: tuple[str, str]) -> None:
        watched = self._watched.pop(key, None)
        past = watched.past() if watched is not None and watched.kind.reads_past else None
        if past is not None and watched is not None and not self._is_outdated(watched):
            self._histories.remember(key, past)
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()

    async def catch_up(self, run_id: str) -> None:
        """Show what this server has just written at once, rather than when the hub brings it."""
        for kind in KINDS:
            watched = self._watched.get((kind, run_id))
            if watched is not None and watched.is_ready:
                await self._read_ahead(watched)
            elif watched is not None:
                watched.is_behind = True

    async def _read_ahead(self, watched: CachedRun[S]) -> None:
        """Read everything that is stored by now, however much that is and whatever the follower does."""
        with watched.reading_ahead() as brought:
            cursor, more = watched.cursor, True
            while more:
                page = await self._journal.read(watched.run_id, after=cursor, thorough=True)
                watched.take_early(page.events, brought)
                cursor, more = page.cursor, page.more

    def drop_empty(self, kind: Reducer[S], run_id: str) -> None:
        """There is no such run: nothing to follow, and no memory for whoever guesses ids."""
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

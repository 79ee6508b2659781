"""The list of runs as a topic: a run is told again whenever it changes, a few times a second at most.

On journals that number what arrives, one read over all runs tells which ones were touched; elsewhere the
newest runs and those that are running are looked at every two seconds. Either way once for everybody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol

from longwatch.clock import Clock
from longwatch.errors import InvalidCursor, LongwatchError
from longwatch.following.merged_runs import ListsRuns
from longwatch.following.observation import ObservedRun, Observer
from longwatch.journal.base import Arrivals, Journal
from longwatch.journal.views import RunLine
from longwatch.model.run import RunSummary, Status
from longwatch.model.run_query import INDEX_KINDS, WORK, RunQuery
from longwatch.polling.backoff import JOURNAL_BACKOFF, after_failure
from longwatch.server.change_waiter import ChangeWaiter
from longwatch.server.live.messages import Frame, caught_up, message
from longwatch.server.live.subscription import FrameBroadcast, FrameBroadcasts, JoinPoint

TOPIC = "runs"
SNAPSHOT_RUNS = 100
COALESCE_SECONDS = 0.25
POLL_SECONDS = 2.0  # where nothing tells of news
POLLED_RUNS = 50
READ_EVENTS = 500
CATCH_UP_EVENTS = 5_000  # that a viewer may have missed and still be told of each touched run

log = logging.getLogger("longwatch.server")


class RunInThread(Protocol):
    """Calls what blocks, in a thread."""

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Awaitable[Any]: ...


class RunListSource:
    """The messages of the list of runs. One for the whole server."""

    topic = TOPIC

    def __init__(
        self,
        journal: Journal,
        runs: ListsRuns,
        observer: Observer,
        *,
        lines: FrameBroadcasts,
        clock: Clock,
        call: RunInThread,
    ) -> None:
        self._journal = journal
        self._runs = runs
        self._observer = observer
        self._lines = lines
        self._clock = clock
        self._call = call
        self._ready = asyncio.Event()  # the line of now knows where it stands
        self._generation = 0  # of the journal in which it stands there
        self.is_away = False  # the journal did not answer at the last look

    async def read(self, after: str) -> AsyncGenerator[Sequence[Frame] | JoinPoint, None]:
        line = self._lines.get(TOPIC)
        if line is None:
            self._ready = asyncio.Event()
            line = self._lines.start(TOPIC, "", self._lead)
        await self._ready.wait()
        place, cursor = line.end, line.cursor
        known = line.position_of(after) if after else None
        if known is not None:
            yield [*line.all_from(known), caught_up(TOPIC, cursor)]
        else:
            yield [*await self._history(after, cursor), caught_up(TOPIC, cursor)]
        yield JoinPoint(line, place)

    async def _history(self, after: str, until: str) -> list[Frame]:
        runs = await self._call(self._changed, after, until)
        if runs is None:
            runs = (await self._call(self._runs.find_runs, WORK, limit=SNAPSHOT_RUNS)).runs
        return await self._told(runs)

    def _changed(self, after: str, until: str) -> list[RunSummary] | None:
        """In a thread: the runs that were touched since a cursor; None if that can not be told."""
        journal, (kind, position) = self._journal, _parsed(after)
        if kind != "a" or not isinstance(journal, Arrivals) or position > _parsed(until)[1]:
            return None
        touched: dict[str, None] = {}
        for _ in range(CATCH_UP_EVENTS // READ_EVENTS):
            found = journal.arrivals(position, limit=READ_EVENTS)
            touched |= {event.run_id: None for _, event in found}
            if len(found) < READ_EVENTS:
                return self._find(touched)
            position = found[-1][0]
        return None

    async def _lead(self, line: FrameBroadcast) -> None:
        backoff = JOURNAL_BACKOFF
        while True:
            try:
                if isinstance(self._journal, Arrivals):
                    await self._follow(line, self._journal)
                else:
                    await self._poll(line)
            except LongwatchError as error:
                later = after_failure(backoff if self.is_away else JOURNAL_BACKOFF, error)
                if later is None:
                    raise
                self.is_away = True
                backoff = later
                log.warning("the list of runs cannot be read, next try in %g s: %s", backoff.delay, error)
                await asyncio.sleep(backoff.delay or 0.0)

    async def _follow(self, line: FrameBroadcast, journal: Arrivals) -> None:
        async with ChangeWaiter.open(journal.subscribe, self._call) as changed:
            position = _parsed(line.cursor)[1]
            if not self._ready.is_set():
                self._generation = journal.generation
                position = await self._call(journal.last_arrival)
                line.advance(f"a{position}")
                self._ready.set()
            while True:
                found = await self._call(journal.arrivals, position, limit=READ_EVENTS)
                self.is_away = False
                if journal.generation != self._generation:
                    position = await self._begin_anew(line, journal)
                elif found:
                    position = found[-1][0]
                    runs = await self._call(self._find, {event.run_id: None for _, event in found})
                    await self._push(line, runs, f"a{position}")
                    await asyncio.sleep(COALESCE_SECONDS)
                else:
                    await changed.wait()

    async def _begin_anew(self, line: FrameBroadcast, journal: Arrivals) -> int:
        """The journal was replaced: push the newest runs of the new one, and continue at its end."""
        self._generation = journal.generation
        position: int = await self._call(journal.last_arrival)
        newest = await self._call(self._runs.find_runs, WORK, limit=SNAPSHOT_RUNS)
        await self._push(line, newest.runs, f"a{position}")
        return position

    async def _poll(self, line: FrameBroadcast) -> None:
        known: dict[str, RunSummary] | None = None
        while True:
            looked: dict[str, RunSummary] = await self._call(self._look, known or {})
            self.is_away = False
            cursor = f"t{self._clock.now_ms()}"
            if known is None and not self._ready.is_set():
                line.advance(cursor)
            else:
                before = known or {}
                news = [run for run_id, run in looked.items() if before.get(run_id) != run]
                await self._push(line, news, cursor)
            known = looked
            self._ready.set()
            await asyncio.sleep(POLL_SECONDS)

    def _look(self, known: dict[str, RunSummary]) -> dict[str, RunSummary]:
        """In a thread: the newest runs, those that are running, and those that were when it looked before."""
        running = RunQuery(except_kinds=INDEX_KINDS, status=Status.RUNNING)
        looked = {
            run.run_id: run
            for query in (WORK, running)
            for run in self._runs.find_runs(query, limit=POLLED_RUNS).runs
        }
        left = [
            run_id for run_id, run in known.items() if run.status is Status.RUNNING and run_id not in looked
        ]
        return {run.run_id: run for run in self._find(left[:POLLED_RUNS])} | looked

    def _find(self, run_ids: Iterable[str]) -> list[RunSummary]:
        """In a thread."""
        found = [self._journal.find_run(run_id) for run_id in run_ids]
        return [run for run in found if run is not None and run.kind not in INDEX_KINDS]

    async def _push(self, line: FrameBroadcast, runs: Sequence[RunSummary], cursor: str) -> None:
        frames = await self._told(runs)
        if frames:
            frames[-1].cursor = cursor
        for frame in frames:
            line.push(frame)
        line.advance(cursor)

    async def _told(self, runs: Sequence[RunSummary]) -> list[Frame]:
        """Each run as it stands at this moment."""
        found: list[ObservedRun] = await self._call(self._observer.observed, runs)
        now = self._clock.now_ms()
        views = [RunLine.of(each.run, now_ms=now, observed=each.conditions) for each in found]
        return [message("run", TOPIC, run=view) for view in views]


def _parsed(cursor: str) -> tuple[str, int]:
    """`a120`: told of everything that arrived up to there. `t1700…`: looked at that time."""
    kind, digits = cursor[:1], cursor[1:]
    if not cursor:
        return "", 0
    if kind in ("a", "t") and digits.isascii() and digits.isdigit() and len(digits) <= 18:
        return kind, int(digits)
    raise InvalidCursor(
        f"{cursor[:40]!r} is no cursor of the list of runs; leave it out to begin at the start"
    )

"""Writes the ending of open runs whose processes are gone, without anyone following them.

Every check lists the open runs once and probes the processes that can be judged from this machine. A run that
died is read again after a grace, in which its parent may still report how it ended; then its ending is
appended, under the id that every other observer would use.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence

from longwatch.clock import Clock
from longwatch.errors import EventConflict, LongwatchError
from longwatch.events import START
from longwatch.following.known import Known
from longwatch.following.observation import Observer
from longwatch.following.process_watch import GRACE_SECONDS
from longwatch.journal.base import INDEX_KINDS, Arrivals, Journal, RunQuery
from longwatch.runs import RunSummary, Status

CHECK_SECONDS = 15.0
PAGE_RUNS = 200
LOOK_BACK_MS = 2 * 24 * 3600 * 1000  # on journals that are listed by the day: each day costs a query

log = logging.getLogger("longwatch.server")

Sleep = Callable[[float], Awaitable[None]]


class OpenRuns:
    """The open runs of a journal, checked again and again."""

    def __init__(self, journal: Journal, observer: Observer, clock: Clock) -> None:
        self._journal = journal
        self._observer = observer
        self._clock = clock
        self._problem: str | None = None

    async def run(self, *, sleep: Sleep = asyncio.sleep) -> None:
        """Check for ever. A journal that can not be read or written is logged once, and tried again."""
        while True:
            try:
                died = await asyncio.to_thread(self.died)
                if died:
                    await sleep(GRACE_SECONDS)
                    await asyncio.to_thread(self.end, died)
                self._problem = None
            except LongwatchError as error:
                if str(error) != self._problem:
                    log.warning("open runs can not be checked, next try in %g s: %s", CHECK_SECONDS, error)
                self._problem = str(error)
            await sleep(CHECK_SECONDS)

    def died(self) -> list[str]:
        """The ids of open runs whose processes are all gone."""
        return [run_id for page in self._pages() for run_id in self._died_of(page)]

    def end(self, run_ids: Sequence[str]) -> list[str]:
        """Append the ending of those runs that are still open; returns which they were."""
        ended: list[str] = []
        for run_id in run_ids:
            death = self._observer.death_of(run_id, self._known(run_id))
            if death is None:
                continue
            try:
                self._journal.append([death])
            except EventConflict:  # another observer was first
                continue
            ended.append(run_id)
        return ended

    def _known(self, run_id: str) -> Known:
        """All that the events of the run say: the ending is placed after the last of them."""
        known, cursor, more = Known(whole=True), START, True
        while more:
            page = self._journal.read(run_id, after=cursor, thorough=True)
            known.add(page.events)
            cursor, more = page.cursor, page.more
        return known

    def _died_of(self, runs: Sequence[RunSummary]) -> Iterator[str]:
        local = [run for run in runs if self._observer.can_judge(run)]
        for run, found in zip(local, self._observer.liveness(local), strict=True):
            if found.death is not None:
                yield run.run_id

    def _pages(self) -> Iterator[Sequence[RunSummary]]:
        is_indexed = isinstance(self._journal, Arrivals)
        since = None if is_indexed else max(0, self._clock.now_ms() - LOOK_BACK_MS)
        query = RunQuery(status=Status.RUNNING, except_kinds=INDEX_KINDS, since=since)
        cursor = None
        while True:
            page = self._journal.find_runs(query, after=cursor, limit=PAGE_RUNS)
            yield page.runs
            cursor = page.cursor
            if cursor is None:
                return

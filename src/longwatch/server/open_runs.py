"""Writes the ending of open runs whose processes are gone, without anyone following them.

Every check lists the open runs once and probes the processes that can be judged from this machine. A run that
died is read again after a grace, in which its parent may still report how it ended; then its ending is
appended, under the id that every other observer would use.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress

from longwatch.clock import Clock
from longwatch.errors import EventConflict, LongwatchError
from longwatch.following.observation import Observer, read_known
from longwatch.following.process_watch import GRACE_SECONDS
from longwatch.journal.base import INDEX_KINDS, Arrivals, Journal, RunQuery
from longwatch.runs import RunSummary, Status

CHECK_SECONDS = 15.0
PAGE_RUNS = 200
LOOK_BACK_MS = 2 * 24 * 3600 * 1000  # on journals that are listed by the day: each day costs a query

TURN = "turn"  # the kind of run

log = logging.getLogger("longwatch.server")

Sleep = Callable[[float], Awaitable[None]]


class OpenRuns:
    """The open runs of a journal, checked again and again."""

    def __init__(
        self, journal: Journal, observer: Observer, clock: Clock, end_turn: Callable[[str], object]
    ) -> None:
        self._journal = journal
        self._observer = observer
        self._clock = clock
        self._end_turn = end_turn  # if it died: a turn has one ending, which several writers race for
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

    def died(self) -> list[RunSummary]:
        """The open runs whose processes are all gone."""
        return [run for page in self._pages() for run in self._died_of(page)]

    def end(self, runs: Sequence[RunSummary]) -> None:
        """Append the ending of those runs that are still open."""
        for run in runs:
            if run.kind == TURN:
                self._end_turn(run.run_id)
                continue
            death = self._observer.death_of(run.run_id, read_known(self._journal, run.run_id))
            if death is not None:
                with suppress(EventConflict):  # another observer was first
                    self._journal.append([death])

    def _died_of(self, runs: Sequence[RunSummary]) -> Iterator[RunSummary]:
        local = [run for run in runs if self._observer.can_judge(run)]
        for run, found in zip(local, self._observer.liveness(local), strict=True):
            if found.death is not None:
                yield run

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

"""Ends open runs whose processes are gone, also if they have no follower.

Every check lists the open runs once and probes the processes of this machine. A run that died is read again
after a grace period, in which its parent may still report an outcome; then its ending is appended, with the
id that every other observer uses. A run that cannot be checked or ended is logged, and the others go ahead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress

from longwatch.clock import Clock
from longwatch.errors import EventConflict, JournalUnavailable, LongwatchError
from longwatch.following.observation import Observer, read_known
from longwatch.following.process_watch import GRACE_SECONDS
from longwatch.journal.base import Arrivals, Journal
from longwatch.journal.claims import store_death
from longwatch.model.liveness import Liveness
from longwatch.model.run import RunSummary, Status
from longwatch.model.run_query import INDEX_KINDS, RunQuery

CHECK_SECONDS = 15.0
PAGE_RUNS = 200
LOOK_BACK_MS = 2 * 24 * 3600 * 1000  # on journals that are listed by the day: each day costs a query

log = logging.getLogger("longwatch.server")

Sleep = Callable[[float], Awaitable[None]]


class OpenRuns:
    """Checks the open runs of a journal periodically."""

    def __init__(self, journal: Journal, observer: Observer, clock: Clock) -> None:
        self._journal = journal
        self._observer = observer
        self._clock = clock
        self._problems: set[str] = set()  # of this check
        self._logged: set[str] = set()  # of the check before

    async def run(self, *, sleep: Sleep = asyncio.sleep) -> None:
        """Check forever. A problem is logged once while it lasts, and the next check retries."""
        while True:
            try:
                died = await asyncio.to_thread(self.find_dead)
                if died:
                    await sleep(GRACE_SECONDS)
                    await asyncio.to_thread(self.end, died)
            except Exception as error:  # noqa: BLE001 - nothing else restarts the checks
                self._log(f"open runs cannot be checked, next try in {CHECK_SECONDS:g} s", error)
            self._logged, self._problems = self._problems, set()
            await sleep(CHECK_SECONDS)

    def find_dead(self) -> list[RunSummary]:
        """The open runs whose processes are all gone."""
        return [run for page in self._pages() for run in self._dead_of(page)]

    def end(self, runs: Sequence[RunSummary]) -> None:
        """Append the ending of those runs that are still open."""
        for run in runs:
            try:
                self._end(run.run_id)
            except JournalUnavailable:  # it would fail for the other runs too
                raise
            except Exception as error:  # noqa: BLE001 - the other runs still end
                self._log(f"run {run.run_id} cannot be ended", error)

    def _end(self, run_id: str) -> None:
        death = self._observer.death_of(run_id, read_known(self._journal, run_id))
        if death is not None:
            with suppress(EventConflict):  # another observer was first
                store_death(self._journal, death)

    def _dead_of(self, runs: Sequence[RunSummary]) -> Iterator[RunSummary]:
        local = [run for run in runs if self._observer.can_judge(run)]
        for run, found in self._liveness(local):
            if found.death is not None:
                yield run

    def _liveness(self, runs: Sequence[RunSummary]) -> Iterator[tuple[RunSummary, Liveness]]:
        """Each run with the liveness of its processes: all at once or, if that fails, one by one."""
        try:
            yield from list(zip(runs, self._observer.liveness(runs), strict=True))
        except Exception as error:  # noqa: BLE001 - the other runs are still checked
            if len(runs) == 1:
                self._log(f"run {runs[0].run_id} cannot be checked", error)
                return
            for run in runs:
                yield from self._liveness([run])

    def _log(self, problem: str, error: Exception) -> None:
        """Log a problem, unless the last check had it as well; with a traceback if it is unexpected."""
        problem = f"{problem}: {error}"
        if problem not in self._logged | self._problems:
            log.warning(problem, exc_info=None if isinstance(error, LongwatchError) else error)
        self._problems.add(problem)

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

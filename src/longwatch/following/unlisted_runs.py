"""Scans for runs that a journal does not list, within bounds, and what to report to the reader.

Commands scan once and a few pages. A server scans in the background, at most every five minutes and only
while its list is read.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import LongwatchError, TableProblem
from longwatch.journal.base import Journal, ScansRuns
from longwatch.model.run import RunSummary

SCAN_PAGES = 4  # of 1 MB, that a command reads
BACKGROUND_PAGES = 40  # that a server reads
SCAN_EVERY_SECONDS = 300.0
FIRST_SCAN_SECONDS = 3.0  # from its start, for which readers of a server's list wait for the first scan

log = logging.getLogger("longwatch.following")


@dataclass(frozen=True, slots=True)
class Unlisted:
    """What a scan found, and a notice for the reader of the list where there may be more."""

    runs: Sequence[RunSummary] = ()
    notice: str | None = None
    is_failed: bool = False


def scan_unlisted(journal: Journal, *, max_pages: int = SCAN_PAGES) -> Unlisted:
    """The runs that the journal's list lacks. A scan that fails is a notice: the list itself is there."""
    if not isinstance(journal, ScansRuns):
        return Unlisted()
    try:
        found = journal.scan_unlisted(max_pages=max_pages)
    except LongwatchError as problem:
        return Unlisted(notice=failure_notice(problem), is_failed=True)
    return Unlisted(found.runs, None if found.is_whole else bound_notice(max_pages))


def bound_notice(max_pages: int) -> str:
    """That a scan ended at its bound."""
    return (
        f"Only the first {max_pages} pages (1 MB each) were scanned for runs of other producers; "
        "there may be more. Use the id of a run, or list all: longwatch runs --scan"
    )


def failure_notice(problem: LongwatchError) -> str:
    """Why no scan was made."""
    if isinstance(problem, TableProblem) and problem.kind == "access-denied":
        return f"Runs of other producers are not listed: the right dynamodb:Scan is missing. {problem}"
    return f"Runs of other producers are not listed: {problem}"


class BackgroundScan:
    """The runs that a journal's list lacks, as the last scan found them. Threads may share it."""

    def __init__(
        self,
        journal: Journal,
        *,
        clock: Clock = SYSTEM_CLOCK,
        start: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._start = start or _in_a_thread
        self._scanned = threading.Event()
        self._lock = threading.Lock()
        self._started_at: float | None = None  # on the monotonic clock
        self._found = Unlisted()

    @property
    def notice(self) -> str | None:
        """What the list may lack, and why."""
        return self._found.notice

    def runs(self) -> Sequence[RunSummary]:
        """What the last scan found. Starts the next one if it is due; only the first one is waited for."""
        if not isinstance(self._journal, ScansRuns):
            return ()
        if self._takes_turn():
            self._start(self._scan)
        if not self._scanned.is_set():
            self._scanned.wait(self._first_scan_left())
        return self._found.runs

    def _first_scan_left(self) -> float:
        """For how long to wait: a scan of minutes must not delay everything that is read meanwhile."""
        with self._lock:
            started = self._started_at or 0.0
        return max(0.0, started + FIRST_SCAN_SECONDS - self._clock.monotonic())

    def _takes_turn(self) -> bool:
        now = self._clock.monotonic()
        with self._lock:
            if self._started_at is not None and now - self._started_at < SCAN_EVERY_SECONDS:
                return False
            self._started_at = now
            return True

    def _scan(self) -> None:
        try:
            found = scan_unlisted(self._journal, max_pages=BACKGROUND_PAGES)
            if found.notice is not None and found.notice != self.notice:
                log.warning("longwatch: %s", found.notice)
            self._found = replace(found, runs=self._found.runs) if found.is_failed else found
        except Exception:
            log.exception("longwatch: the table could not be scanned for runs of other producers")
        finally:
            self._scanned.set()


def _in_a_thread(scan: Callable[[], None]) -> None:
    threading.Thread(target=scan, name="longwatch-scan", daemon=True).start()

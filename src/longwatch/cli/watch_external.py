"""`longwatch watch aws:codebuild:ID`: work in another system, asked about until its end is known.

It polls as the pollers on AWS do, with the same records. So a second watch goes on where the first was left,
and any number of them may run at once.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

from longwatch.cli.follow_run import WatchResult, has_no_reader
from longwatch.cli.outages import Outages
from longwatch.cli.render.external_views import SourceView
from longwatch.cli.render.text import clean
from longwatch.clock import Clock
from longwatch.errors import LongwatchError, VersionConflict, WorthAnotherTry
from longwatch.executions.due import next_poll_at
from longwatch.executions.model import Execution, ItemState, JobState
from longwatch.executions.poller import Poller, PollReport, Result
from longwatch.executions.progress import first_warnings, warnings_text
from longwatch.executions.stores.base import ExecutionStore
from longwatch.following import Reason
from longwatch.journal.base import Journal
from longwatch.model.event import START, Cursor
from longwatch.model.run import Status

SLICE_SECONDS = 0.5  # between two looks at the screen and at who reads
BUSY_SECONDS = 1.0  # while somebody else asks
TROUBLE_SECONDS = 2.0  # while the journal or the store does not answer

_ASKED = (Result.POLLED, Result.NO_RESPONSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchLimits:
    """How long to watch."""

    timeout_seconds: float | None = None
    silent_after_seconds: float | None = None

    def after(self, seconds: float) -> WatchLimits:
        """What is left of it after so long."""
        left = None if self.timeout_seconds is None else max(0.0, self.timeout_seconds - seconds)
        return replace(self, timeout_seconds=left)


class SourceWatch:
    """One execution, asked about and shown until it ends or patience does."""

    def __init__(
        self, store: ExecutionStore, journal: Journal, poller: Poller, view: SourceView, *, clock: Clock
    ) -> None:
        self._store = store
        self._journal = journal
        self._poller = poller
        self._view = view
        self._clock = clock
        self._cursor: Cursor = START
        self._last_news = clock.monotonic()
        self._told: set[str] = set()  # remarks that were made already
        self._outages = Outages()
        self._refused: tuple[float, PollReport] | None = None  # until when the source asked to wait

    def run(self, execution: Execution, patience: WatchLimits) -> WatchResult:
        """Watch it, and leave no lease behind. Raises BrokenPipeError once standard output has no reader."""
        try:
            return self._run(execution, patience)
        finally:
            self._poller.release_leases()

    def _run(self, execution: Execution, patience: WatchLimits) -> WatchResult:
        began = self._clock.monotonic()
        ends = None if patience.timeout_seconds is None else began + patience.timeout_seconds
        self._show(execution)
        if execution.closed:
            return self._reviewed(execution)
        while True:
            polled = self._poll(execution)
            if polled is not None:
                execution = polled.execution
                self._report(polled)
                self._show(execution)
                if execution.closed:
                    return closed_result(execution)
                self._note_wait(polled)
                if ends is not None and self._clock.monotonic() >= ends and polled.result in _ASKED:
                    return _standing(polled)  # it was asked just now
            silent = self._clock.monotonic() - self._last_news
            if patience.silent_after_seconds is not None and silent >= patience.silent_after_seconds:
                return WatchResult(Status.RUNNING, Reason.SILENT, f"nothing new for {silent:.0f} s")
            self._wait(execution, self._next(execution, polled), ends)
            if ends is not None and self._clock.monotonic() >= ends:
                return self._last_look(execution)

    def _poll(self, execution: Execution) -> PollReport | None:
        """Ask, if it is time; None: the store or the journal did not take it."""
        try:
            return self._poller.poll(execution.execution_id, execution.plan_id)
        except WorthAnotherTry as error:
            self._remark(f"{str(error).removesuffix('.')}; it is tried again")
            return None

    def _note_wait(self, polled: PollReport) -> None:
        """Remember how long the source asked to wait."""
        if polled.result not in _ASKED:
            return
        wait = polled.retry_after_seconds
        self._refused = None if wait is None else (self._clock.monotonic() + wait, polled)

    def _next(self, execution: Execution, polled: PollReport | None) -> float:
        """Seconds until it is asked about again."""
        if polled is None:
            return TROUBLE_SECONDS
        if polled.result is Result.BUSY:
            return BUSY_SECONDS
        return max(0.0, (next_poll_at(execution) - self._clock.now_ms()) / 1000)

    def _wait(self, execution: Execution, seconds: float, ends: float | None) -> None:
        until = self._clock.monotonic() + seconds
        if ends is not None:
            until = min(until, ends)
        while (left := until - self._clock.monotonic()) > 0:
            self._view.tick(execution, now_ms=self._clock.now_ms())
            wait_for_readers(self._clock, min(left, SLICE_SECONDS))

    def _last_look(self, execution: Execution) -> WatchResult:
        """A deadline does not decide: ask the source once more how it stands, unless it asked to wait."""
        if self._refused is not None and self._clock.monotonic() < self._refused[0]:
            return _standing(self._refused[1])
        try:
            latest = self._store.get(execution.execution_id, execution.plan_id) or execution
            if latest.is_open:
                at = max(self._clock.now_ms(), (latest.last_polled_at or 0) + 1)
                self._store.update(replace(latest, next_poll_at=at))
        except VersionConflict:
            pass  # somebody else is at it this moment
        except LongwatchError as error:
            return WatchResult(Status.RUNNING, error=str(error))
        polled = self._poll(execution)
        if polled is None:
            return WatchResult(Status.RUNNING, error="the executions can not be read")
        self._report(polled)
        self._show(polled.execution)
        return closed_result(polled.execution) if polled.execution.closed else _standing(polled)

    def _reviewed(self, execution: Execution) -> WatchResult:
        """One that has ended already: ask whether that still holds, and tell what is known."""
        try:
            polled = self._poller.review(execution.execution_id, execution.plan_id)
        except LongwatchError as error:
            self._remark(f"whether that still holds is not known: {error}")
            return closed_result(execution)
        if polled.problem is not None:
            self._remark(f"whether that still holds is not known: {polled.problem.message}")
        self._show(polled.execution)
        return closed_result(polled.execution)

    def _report(self, polled: PollReport) -> None:
        """Report an outage once, and its end."""
        line = self._outages.line(polled, now_ms=self._clock.now_ms())
        if line is not None:
            self._view.note(f"longwatch: {clean(line)}")

    def _show(self, execution: Execution) -> None:
        """Hand what is new in the journal to the view, and say what keeps the execution open."""
        try:
            self._read(execution.run_id)
        except WorthAnotherTry as error:  # what is new is shown after the next question
            self._remark(f"{str(error).removesuffix('.')}; it is tried again")
        for note in notes(execution):
            self._remark(note)
        self._view.tick(execution, now_ms=self._clock.now_ms())

    def _read(self, run_id: str) -> None:
        more = True
        while more:
            page = self._journal.read(run_id, after=self._cursor)
            self._cursor, more = page.cursor, page.more
            if page.events:
                self._last_news = self._clock.monotonic()
                self._view.take(page.events)

    def _remark(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._view.note(f"longwatch: {clean(text)}")


def notes(execution: Execution) -> Iterator[str]:
    """What people should know while it is open: words without a meaning, jobs that are gone."""
    if not execution.is_open:
        return
    for wave in execution.stages:
        for job in wave.jobs:
            if job.state is JobState.MISSING:
                yield f"{execution.source} no longer knows it; it is asked about on, and has no end"
            elif any(each.state is ItemState.UNKNOWN for each in job.items):
                yield _open_because_of(job.source_status or "", execution.source)


def _open_because_of(word: str, source: str) -> str:
    """Why a status is no end: no table has the word, or a field does not agree with it, and what to do."""
    status, _, fields = word.partition(", ")
    if not fields:
        return (
            f"unknown status {word!r} from {source}, treated as running. Map it with --succeeded or --failed"
        )
    return (
        f"{source} reports {status!r}, but also {fields}: treated as running. If that is not about this job, "
        "let the status decide alone with --outcome-path and its path, such as --outcome-path status. "
        "Otherwise map the word with --succeeded or --failed"
    )


def _standing(polled: PollReport) -> WatchResult:
    """How one that is open stands after a question: it runs, or nobody knows."""
    return WatchResult(Status.RUNNING, error=polled.problem.message if polled.problem else None)


def closed_result(execution: Execution) -> WatchResult:
    """How a closed execution ended."""
    verdict = execution.verdict
    if verdict is None:
        return WatchResult(execution.status, Reason.ENDED)
    told = [verdict.message] if verdict.message else []
    if verdict.warnings:
        told.append(f"{warnings_text(len(verdict.warnings))}: {'; '.join(first_warnings(verdict))}")
    return WatchResult(execution.status, Reason.ENDED, "; ".join(told) or None)


def wait_for_readers(clock: Clock, seconds: float) -> None:
    """Sleep. Raises BrokenPipeError once standard output has no reader."""
    until = clock.monotonic() + seconds
    while (left := until - clock.monotonic()) > 0:
        clock.sleep(min(left, SLICE_SECONDS))
        _leave_if_nobody_reads()


def _leave_if_nobody_reads() -> None:
    try:
        descriptor = sys.stdout.fileno()
        is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except (OSError, ValueError):
        return
    if is_pipe and has_no_reader(descriptor):
        raise BrokenPipeError

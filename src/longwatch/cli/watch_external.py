"""`longwatch watch aws:codebuild:ID`: polls and shows one execution until it ends.

It polls as the pollers on AWS do, with the same records. So a second watch resumes where the first stopped,
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

SLICE_SECONDS = 0.5  # between two updates of the screen and checks of the pipe
BUSY_SECONDS = 1.0  # while another poller holds the lease
TROUBLE_SECONDS = 2.0  # while the journal or the store is unavailable

_POLLED = (Result.POLLED, Result.NO_RESPONSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchLimits:
    """How long to watch."""

    timeout_seconds: float | None = None
    silent_after_seconds: float | None = None

    def after(self, seconds: float) -> WatchLimits:
        """The limits that remain after this time."""
        left = None if self.timeout_seconds is None else max(0.0, self.timeout_seconds - seconds)
        return replace(self, timeout_seconds=left)


class SourceWatch:
    """Polls and shows one execution until it ends or a limit is reached."""

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
        self._remarked: set[str] = set()  # remarks made so far
        self._outages = Outages()
        self._wait_requested: tuple[float, PollReport] | None = (
            None  # until when the source requested to wait
        )

    def run(self, execution: Execution, limits: WatchLimits) -> WatchResult:
        """Watch it, and release its lease. Raises BrokenPipeError once standard output has no reader."""
        try:
            return self._run(execution, limits)
        finally:
            self._poller.release_leases()

    def _run(self, execution: Execution, limits: WatchLimits) -> WatchResult:
        began = self._clock.monotonic()
        ends = None if limits.timeout_seconds is None else began + limits.timeout_seconds
        self._show(execution)
        if execution.closed:
            return self._recheck(execution)
        while True:
            polled = self._poll(execution)
            if polled is not None:
                execution = polled.execution
                self._report(polled)
                self._show(execution)
                if execution.closed:
                    return closed_result(execution)
                self._note_wait(polled)
                if ends is not None and self._clock.monotonic() >= ends and polled.result in _POLLED:
                    return _open_result(polled)  # it was polled just now
            silent = self._clock.monotonic() - self._last_news
            if limits.silent_after_seconds is not None and silent >= limits.silent_after_seconds:
                return WatchResult(Status.RUNNING, Reason.SILENT, f"nothing new for {silent:.0f} s")
            self._wait(execution, self._next(execution, polled), ends)
            if ends is not None and self._clock.monotonic() >= ends:
                return self._poll_at_timeout(execution)

    def _poll(self, execution: Execution) -> PollReport | None:
        """Poll, if it is due; None: the store or the journal failed."""
        try:
            return self._poller.poll(execution.execution_id, execution.plan_id)
        except WorthAnotherTry as error:
            self._remark(f"{str(error).removesuffix('.')}; retrying")
            return None

    def _note_wait(self, polled: PollReport) -> None:
        """Store how long the source requested to wait."""
        if polled.result not in _POLLED:
            return
        wait = polled.retry_after_seconds
        self._wait_requested = None if wait is None else (self._clock.monotonic() + wait, polled)

    def _next(self, execution: Execution, polled: PollReport | None) -> float:
        """Seconds until the next poll."""
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

    def _poll_at_timeout(self, execution: Execution) -> WatchResult:
        """A timeout decides nothing: poll the source once more, unless it requested a wait."""
        if self._wait_requested is not None and self._clock.monotonic() < self._wait_requested[0]:
            return _open_result(self._wait_requested[1])
        try:
            latest = self._store.get(execution.execution_id, execution.plan_id) or execution
            if latest.is_open:
                at = max(self._clock.now_ms(), (latest.last_polled_at or 0) + 1)
                self._store.update(replace(latest, next_poll_at=at))
        except VersionConflict:
            pass  # another poller is polling it
        except LongwatchError as error:
            return WatchResult(Status.RUNNING, error=str(error))
        polled = self._poll(execution)
        if polled is None:
            return WatchResult(Status.RUNNING, error="the executions cannot be read")
        self._report(polled)
        self._show(polled.execution)
        return closed_result(polled.execution) if polled.execution.closed else _open_result(polled)

    def _recheck(self, execution: Execution) -> WatchResult:
        """Poll an execution that has ended already, in case its source now reports otherwise."""
        try:
            polled = self._poller.review(execution.execution_id, execution.plan_id)
        except LongwatchError as error:
            self._remark(f"the verdict could not be rechecked: {error}")
            return closed_result(execution)
        if polled.problem is not None:
            self._remark(f"the verdict could not be rechecked: {polled.problem.message}")
        self._show(polled.execution)
        return closed_result(polled.execution)

    def _report(self, polled: PollReport) -> None:
        """Report an outage once, and its end."""
        line = self._outages.line(polled, now_ms=self._clock.now_ms())
        if line is not None:
            self._view.note(f"longwatch: {clean(line)}")

    def _show(self, execution: Execution) -> None:
        """Pass new events of the journal to the view, and remark what keeps the execution open."""
        try:
            self._read(execution.run_id)
        except WorthAnotherTry as error:  # new events are shown after the next poll
            self._remark(f"{str(error).removesuffix('.')}; retrying")
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
        if text not in self._remarked:
            self._remarked.add(text)
            self._view.note(f"longwatch: {clean(text)}")


def notes(execution: Execution) -> Iterator[str]:
    """Remarks on an open execution: unknown statuses, and jobs that the source no longer has."""
    if not execution.is_open:
        return
    for job in execution.jobs():
        if job.state is JobState.MISSING:
            yield f"{execution.source} no longer has it; polling continues, and its outcome is unknown"
        elif any(each.state is ItemState.UNKNOWN for each in job.items):
            yield _unmapped_remark(job.source_status or "", execution.source)


def _unmapped_remark(status: str, source: str) -> str:
    """Why a status does not end the job, and what to do: no table has it, or a field contradicts it."""
    first, _, fields = status.partition(", ")
    if not fields:
        return (
            f"unknown status {status!r} from {source}, treated as running. "
            "Map it with --succeeded or --failed"
        )
    return (
        f"{source} reports {first!r}, but also {fields}: treated as running. If that is not about this job, "
        "let the status decide alone with --outcome-path and its path, such as --outcome-path status. "
        "Otherwise map the status with --succeeded or --failed"
    )


def _open_result(polled: PollReport) -> WatchResult:
    """The result for an open execution after a poll: running, or unknown."""
    return WatchResult(Status.RUNNING, error=polled.problem.message if polled.problem else None)


def closed_result(execution: Execution) -> WatchResult:
    """The result of a closed execution."""
    verdict = execution.verdict
    if verdict is None:
        return WatchResult(execution.status, Reason.ENDED)
    texts = [verdict.message] if verdict.message else []
    if verdict.warnings:
        texts.append(f"{warnings_text(len(verdict.warnings))}: {'; '.join(first_warnings(verdict))}")
    return WatchResult(execution.status, Reason.ENDED, "; ".join(texts) or None)


def wait_for_readers(clock: Clock, seconds: float) -> None:
    """Sleep. Raises BrokenPipeError once standard output has no reader."""
    until = clock.monotonic() + seconds
    while (left := until - clock.monotonic()) > 0:
        clock.sleep(min(left, SLICE_SECONDS))
        _check_readers()


def _check_readers() -> None:
    try:
        descriptor = sys.stdout.fileno()
        is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except (OSError, ValueError):
        return
    if is_pipe and has_no_reader(descriptor):
        raise BrokenPipeError

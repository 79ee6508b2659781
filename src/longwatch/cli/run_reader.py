"""Reads a run for `show`: what is stored of it, and its events only where that does not suffice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from longwatch.cli.render.terminal import batches
from longwatch.cli.resolve import read_counted, read_events
from longwatch.clock import Clock
from longwatch.errors import RunNotFound
from longwatch.journal.arrivals import last_events
from longwatch.journal.base import Journal
from longwatch.journal.bulk import without_collection
from longwatch.journal.sqlite import SqliteJournal
from longwatch.journal.sqlite.snapshots import RunSnapshots, is_eligible
from longwatch.journal.sqlite.stored_outlines import RunFacts, StoredOutlines
from longwatch.journal.usage_views import usage_by_agent
from longwatch.model.call_outline import Outline
from longwatch.model.call_selection import OutlineOptions
from longwatch.model.event import UNREADABLE, Event
from longwatch.model.run import Run, RunSummary, fold
from longwatch.model.run_outline import run_outline

FOLD_EVENTS = 10_000  # folded at a time: each fold copies the run, so few large ones are cheaper
LATEST_EVENTS = 20  # shown if the run has no calls


@dataclass(frozen=True, slots=True)
class FoldedRun:
    """The fold of a run, and of one of its attempts."""

    whole: Run
    own: Run | None  # of the attempt, if there are several
    latest: list[Event]


class RunReader:
    """Reads the run once at most, whatever is wanted of it."""

    def __init__(self, journal: Journal, run: RunSummary, *, attempt: int | None, clock: Clock) -> None:
        self._journal = journal
        self._run = run
        self._attempt = attempt
        self._clock = clock
        self._snapshots: RunSnapshots | None = None
        self._stored: StoredOutlines | None = None
        # Of the last attempt only: others are rare.
        is_last = attempt in (None, len(run.attempts))
        if isinstance(journal, SqliteJournal) and is_eligible(run) and is_last:
            self._snapshots = RunSnapshots(journal, clock=clock)
            self._stored = StoredOutlines(self._snapshots, run)

    @cached_property
    def folded(self) -> FoldedRun:
        """The fold of all events."""
        whole, latest = _fold_events(read_counted(self._journal, self._run, clock=self._clock))
        if whole is None:
            raise RunNotFound(f"Every event of run {self._run.run_id!r} has expired.")
        has_gaps = UNREADABLE in whole.counts
        whole = replace(whole, summary=_complete(whole.summary, self._run, has_gaps=has_gaps))
        number = self.number_in(whole.summary)
        whole.at_attempt(number)  # raises if there is no such attempt
        if len(whole.summary.attempts) == 1:
            return FoldedRun(whole, None, latest)
        belongs = whole.attempt_of()  # events can be assigned to attempts only when the whole run is read
        events = read_events(self._journal, self._run, clock=self._clock)
        own, latest = _fold_events(each for each in events if belongs(each) == number)
        return FoldedRun(whole, own, latest)

    def number_in(self, run: RunSummary) -> int:
        """The number of the attempt that is wanted, from 1: without one the last."""
        return len(run.attempts) if self._attempt is None else self._attempt

    def facts(self) -> RunFacts:
        """What is shown besides the calls."""
        found = self._stored.facts() if self._stored is not None else None
        if found is not None:
            return found
        read = self.folded
        calls = read.whole.at_attempt(self.number_in(read.whole.summary), read.own).calls
        latest = () if calls else read.latest
        facts = RunFacts(read.whole, read.own, usage_by_agent(calls.values()), latest)
        if self._stored is not None:
            self._stored.save_facts(facts)
        return facts

    def outline(self, shown: RunSummary, options: OutlineOptions) -> Outline:
        """The outline of the calls of this attempt. A time in the options is seldom the same again."""
        stored = self._stored if options.since is None else None
        found = stored.outline(options) if stored is not None else None
        if found is not None:
            return found
        read = self.folded
        run = read.whole.at_attempt(self.number_in(read.whole.summary), read.own)
        found = run_outline(replace(run, summary=shown), options)
        if stored is not None:
            stored.save_outline(read.whole, options, found)
        return found

    def close(self) -> None:
        """Close the file of what is stored."""
        if self._snapshots is not None:
            self._snapshots.close()


def _fold_events(events: Iterator[Event]) -> tuple[Run | None, list[Event]]:
    """The fold of the events, and the last of them."""
    run: Run | None = None
    latest: list[Event] = []
    with without_collection():
        for batch in batches(events, FOLD_EVENTS):
            run = fold(batch, run)
            latest = last_events([*latest, *batch], LATEST_EVENTS)
    return run, latest


def _complete(folded: RunSummary, stored: RunSummary, *, has_gaps: bool) -> RunSummary:
    """The folded summary, with what the journal stored about events that have expired since."""
    origin = stored.origin if folded.origin.inferred and not stored.origin.inferred else folded.origin
    # An unreadable event may be the one that ended the run; the stored summary still has that ending.
    lifecycle = folded.lifecycle.merged(stored.lifecycle) if has_gaps else folded.lifecycle
    return replace(
        folded,
        origin=origin,
        started_at=min(folded.started_at, stored.started_at),
        lifecycle=lifecycle,
        expired_before=stored.expired_before,
        totals=folded.totals if stored.expired_before is None else folded.totals.highest(stored.totals),
    )

"""Observes the processes of runs from this machine, for readers that read once rather than follow.

What is found is computed when it is read and never written: a list shows a run as died as soon as its
processes have exited, whichever observer writes the ending later.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import LongwatchError
from longwatch.following.merged_runs import ListsRuns
from longwatch.following.progress import RunProgress
from longwatch.journal.base import DEFAULT_LIST_LIMIT, Heartbeats, Journal
from longwatch.journal.claims import TURN_PREFIX, ending_from_death
from longwatch.journal.sqlite.undelivered import may_have_undelivered
from longwatch.model.attempts import Lifecycle
from longwatch.model.event import START, Cursor, Event, Order
from longwatch.model.liveness import ALIVE, Condition, Liveness, Observation, judge
from longwatch.model.process import Presence, ProcessIdentity, Surroundings, this_surroundings
from longwatch.model.run import RunSummary, Status
from longwatch.model.run_query import ALL_RUNS, RunQuery

HOLDS_SECONDS = 1.0  # how long a probe of a living process is reused
MOST_REMEMBERED = 10_000  # processes
MOST_PAGES = 20  # of the journal that are read for one page of a filtered list
OPEN_OR_DIED = frozenset({Status.RUNNING, Status.DIED})


def _observed(process: ProcessIdentity, now_ms: int, here: Surroundings) -> Observation:
    presence = process.presence(here)
    if presence is Presence.ALIVE:
        return Observation(presence, alive_at=now_ms)
    if presence is Presence.GONE:
        gone_by = process.gone_by(now_ms, here)
        return Observation(presence, gone_by=gone_by, is_before_boot=process.is_before_boot(here))
    return Observation(presence)


def with_records(
    observed: Mapping[str, Observation], processes: Iterable[ProcessIdentity], run_id: str, journal: Journal
) -> dict[str, Observation]:
    """The observations, with what is on record: heartbeats, and events that wait in an outbox. Reads both."""
    return _with_records(observed, processes, run_id, heartbeats_of(journal, observed))


def _with_records(
    observed: Mapping[str, Observation],
    processes: Iterable[ProcessIdentity],
    run_id: str,
    beats: Mapping[str, int],
) -> dict[str, Observation]:
    outboxes = {each.id: each.outbox for each in processes}
    completed: dict[str, Observation] = {}
    for process_id, found in observed.items():
        times = [at for at in (found.alive_at, beats.get(process_id)) if at is not None]
        waits = found.presence is Presence.GONE and may_have_undelivered(outboxes.get(process_id), run_id)
        completed[process_id] = replace(found, alive_at=max(times, default=None), has_undelivered=waits)
    return completed


def heartbeats_of(journal: Journal, process_ids: Iterable[str]) -> Mapping[str, int]:
    """The last heartbeat of each process; a journal that cannot be read has none."""
    wanted = list(process_ids)
    if not wanted or not isinstance(journal, Heartbeats):
        return {}
    try:
        return journal.heartbeats(wanted)
    except LongwatchError:  # heartbeats only narrow an interval
        return {}


def read_known(journal: Journal, run_id: str) -> RunProgress:
    """The progress of a run: an observer writes its own event after the last one."""
    progress, cursor, more = RunProgress(whole=True), START, True
    while more:
        page = journal.read(run_id, after=cursor, thorough=True)
        progress.add(page.events)
        cursor, more = page.cursor, page.more
    progress.complete(facts_to_judge(journal, run_id, progress.lifecycle))
    return progress


def facts_to_judge(journal: Journal, run_id: str, read: Lifecycle) -> Lifecycle:
    """The facts of the events; if some cannot be read, completed by what the journal stored with the run."""
    stored = journal.find_run(run_id) if read.has_gaps else None
    return read if stored is None else read.completed(stored.lifecycle)


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """A run as it stands by its events and by what was seen of its processes."""

    run: RunSummary  # died, or as its events state
    conditions: tuple[Condition, ...] = ()  # of its processes


@dataclass(frozen=True, slots=True)
class ObservedPage:
    """Some runs, newest first. There may be fewer than requested; only without a cursor are there no more."""

    runs: Sequence[ObservedRun]
    cursor: Cursor | None = None


class Observer:
    """Observes the processes of any number of runs of one journal. Threads may share it.

    A process that has exited stays so, so the first observation of that is cached; a living one is probed at
    most once a second.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        clock: Clock = SYSTEM_CLOCK,
        here: Surroundings | None = None,
        runs: ListsRuns | None = None,
    ) -> None:
        """`runs` lists the runs in place of the journal."""
        self._journal = journal
        self._runs: ListsRuns = runs or journal
        self._clock = clock
        self._here = here
        self._seen: OrderedDict[ProcessIdentity, tuple[float, Observation]] = OrderedDict()
        self._lock = Lock()

    @staticmethod
    def has_to_probe(run: RunSummary) -> bool:
        """Whether the processes of this run matter: it is open, and names some."""
        attempt = run.lifecycle.current
        return attempt.ending is None and bool(attempt.members)

    def can_judge(self, run: RunSummary) -> bool:
        """Whether this machine can decide if an open run died: it sees every process of the run."""
        here = self._surroundings()
        members = run.lifecycle.current.members
        return self.has_to_probe(run) and all(each.process.is_judgeable(here) for each in members)

    def liveness(self, runs: Sequence[RunSummary]) -> list[Liveness]:
        """The liveness of each run at this moment, with one read of heartbeats."""
        seen = [self._probe_all(run.lifecycle) if self.has_to_probe(run) else {} for run in runs]
        absent = {key for each in seen for key, found in each.items() if found.presence is not Presence.ALIVE}
        beats = heartbeats_of(self._journal, sorted(absent))
        now = self._clock.now_ms()
        return [
            self._judge(run.run_id, *_facts_of(run), found, beats, now) if found else ALIVE
            for run, found in zip(runs, seen, strict=True)
        ]

    def death_of(self, run_id: str, progress: RunProgress) -> Event | None:
        """The ending to write for a run with this progress, if it died."""
        if progress.ending is not None or progress.last is None:
            return None
        seen = self._probe_all(progress.lifecycle)
        beats = heartbeats_of(self._journal, seen)
        now = self._clock.now_ms()
        return self._judge(
            run_id, progress.lifecycle, progress.last, progress.active_at, seen, beats, now
        ).death

    def observed(self, runs: Sequence[RunSummary]) -> list[ObservedRun]:
        """Each run as it stands at this moment. Nothing is written."""
        found = self.liveness(runs)
        if len(runs) == 1:  # a list would search all processes of the machine for each of its runs
            found = [_with_leftovers(found[0])]
        return [
            ObservedRun(with_liveness(run, each), each.conditions)
            for run, each in zip(runs, found, strict=True)
        ]

    def find_runs(
        self, query: RunQuery = ALL_RUNS, *, after: Cursor | None = None, limit: int = DEFAULT_LIST_LIMIT
    ) -> ObservedPage:
        """List runs as they stand at this moment, newest first.

        A run whose processes have exited is open in the journal and died here, so a filter by either status
        reads on until the page is full. It gives up after some pages: the cursor resumes from there.
        """
        widened, found, cursor = _widen(query), list[ObservedRun](), after
        for _ in range(MOST_PAGES):
            page = self._runs.find_runs(widened, after=cursor, limit=limit - len(found))
            found += [each for each in self.observed(page.runs) if query.accepts_status(each.run.status)]
            cursor = page.cursor
            if cursor is None or len(found) >= limit:
                break
        return ObservedPage(found, cursor)

    def _probe_all(self, lifecycle: Lifecycle) -> dict[str, Observation]:
        return {each.process.id: self._probe(each.process) for each in lifecycle.current.members}

    def _probe(self, process: ProcessIdentity) -> Observation:
        now = self._clock.monotonic()
        with self._lock:
            probed_at, seen = self._seen.get(process, (0.0, None))
        if seen is not None and (seen.presence is Presence.GONE or now - probed_at < HOLDS_SECONDS):
            return seen
        found = _observed(process, self._clock.now_ms(), self._surroundings())
        if found.alive_at is None and seen is not None:
            found = replace(found, alive_at=seen.alive_at)
        with self._lock:
            self._seen[process] = now, found
            self._seen.move_to_end(process)
            while len(self._seen) > MOST_REMEMBERED:
                self._seen.popitem(last=False)
        return found

    def _surroundings(self) -> Surroundings:
        return self._here if self._here is not None else this_surroundings()

    def _judge(
        self,
        run_id: str,
        lifecycle: Lifecycle,
        last: Order,
        active_at: int | None,
        seen: Mapping[str, Observation],
        beats: Mapping[str, int],
        now_ms: int,
    ) -> Liveness:
        processes = [each.process for each in lifecycle.current.members]
        is_alive = all(each.presence is Presence.ALIVE for each in seen.values())
        return judge(
            run_id,
            lifecycle,
            last=last,
            active_at=active_at,
            observations=seen if is_alive else _with_records(seen, processes, run_id, beats),
            now_ms=now_ms,
            ttl_seconds=self._journal.default_ttl_seconds,
        )


def _facts_of(run: RunSummary) -> tuple[Lifecycle, Order, int | None]:
    return run.lifecycle, run.last_order, run.last_event_at if run.is_active else None


def _widen(query: RunQuery) -> RunQuery:
    """A query that also returns the runs that may have died since their last event."""
    if Status.DIED not in query.statuses:
        return query
    return replace(query, status=query.statuses | OPEN_OR_DIED)


def _with_leftovers(found: Liveness) -> Liveness:
    """The death of a turn as it would be stored: it names the processes of the turn that still run."""
    if found.death is None or not found.death.run_id.startswith(TURN_PREFIX):
        return found
    return replace(found, death=ending_from_death(found.death))


def with_liveness(run: RunSummary, liveness: Liveness) -> RunSummary:
    """The run as it stands by this observation: died, or as its events state. Nothing is written.

    A process that has exited waits for nothing any more.
    """
    if liveness.gone and run.waits:
        run = run.without_waits_of(liveness.gone)
    ending = liveness.ending
    return run if ending is None else replace(run, lifecycle=run.lifecycle.with_ending(ending))

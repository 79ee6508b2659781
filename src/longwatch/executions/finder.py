"""Finds the executions that are due and dispatches each to a poller. Cheap when nothing is open."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.executions.due import is_due, is_leased, next_poll_at
from longwatch.executions.explain import UNWATCHED_AFTER_MS
from longwatch.executions.model import Execution, Mode
from longwatch.executions.stores.base import ExecutionStore, list_position
from longwatch.executions.stores.records import is_unreported
from longwatch.model.summary import Status
from longwatch.polling.schedules import EXECUTION_PHASES

SHORTEST_SECONDS = min(EXECUTION_PHASES.seconds.values())
RUN_SECONDS = 55.0  # a schedule starts a new run every minute
MAX_SLEEP_SECONDS = 15.0  # a new execution is found no later than this
CANCELLED_PER_RUN = 25  # of the newest, read in each run

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The open executions at one moment, by what they need."""

    due: tuple[Execution, ...] = ()
    leased: int = 0  # a poller is polling them now
    waiting: int = 0
    unwatched: int = 0  # overdue for so long that something must be wrong
    modes: Mapping[Mode, int] = field(default_factory=dict)  # open ones by their type
    oldest_ms: int = 0  # for how long the oldest open one has been running
    next_at: int | None = None  # epoch ms; when the next one becomes due

    @property
    def open(self) -> int:
        return len(self.due) + self.leased + self.waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One pass: what was found, and what was dispatched."""

    survey: Survey
    dispatched: int = 0
    failed: int = 0  # could not be dispatched; the next pass finds them again


def survey(executions: Iterable[Execution], now_ms: int) -> Survey:
    """Sort open executions by what they need. The longest due come first."""
    due, leased, waiting, unwatched, started = [], 0, 0, 0, now_ms
    modes: Counter[Mode] = Counter()
    upcoming: list[int] = []
    for execution in executions:
        if execution.closed:
            continue
        modes[execution.mode] += 1
        started = min(started, execution.started_at)
        unwatched += now_ms - next_poll_at(execution) > UNWATCHED_AFTER_MS
        if is_leased(execution, now_ms):
            leased += 1
            upcoming.append(execution.lease_until or now_ms)
        elif is_due(execution, now_ms):
            due.append(execution)
        else:
            waiting += 1
            upcoming.append(next_poll_at(execution))
    return Survey(
        due=tuple(sorted(due, key=next_poll_at)),
        leased=leased,
        waiting=waiting,
        unwatched=unwatched,
        modes=modes,
        oldest_ms=now_ms - started,
        next_at=min(upcoming, default=None),
    )


class Finder:
    """Dispatches due executions to pollers.

    The next pass is no sooner than `shortest_seconds`; pollers with a learned cadence may need one sooner
    than the shortest phase.
    """

    def __init__(
        self,
        store: ExecutionStore,
        dispatch: Callable[[Execution], None],
        *,
        clock: Clock = SYSTEM_CLOCK,
        report: Callable[[Tick], None] | None = None,
        shortest_seconds: float = SHORTEST_SECONDS,
    ) -> None:
        self._store = store
        self._dispatch = dispatch
        self._clock = clock
        self._report = report
        self._shortest_ms = round(shortest_seconds * 1000)

    def run(self, seconds: float = RUN_SECONDS) -> list[Tick]:
        """Run a pass now, and again whenever something becomes due within these seconds."""
        until = self._clock.now_ms() + round(seconds * 1000)
        ticks = [self.tick(also=list_unsettled(self._store, self._clock.now_ms()))]
        while (next_at := self._next_tick_at(ticks[-1])) is not None and next_at <= until:
            self._clock.sleep(max(0.0, (next_at - self._clock.now_ms()) / 1000))
            ticks.append(self.tick())
        return ticks

    def tick(self, also: Iterable[Execution] = ()) -> Tick:
        """Run one pass. An execution that cannot be dispatched does not stop the others."""
        found = survey(self._store.open_executions(), self._clock.now_ms())
        dispatched = failed = 0
        for execution in (*found.due, *also):
            try:
                self._dispatch(execution)
                dispatched += 1
            except Exception:
                failed += 1
                log.exception("execution %s could not be dispatched to a poller", execution.key)
        tick = Tick(survey=found, dispatched=dispatched, failed=failed)
        if self._report is not None:
            self._report(tick)
        return tick

    def _next_tick_at(self, tick: Tick) -> int | None:
        return next_tick_at(tick, self._clock.now_ms(), shortest_ms=self._shortest_ms)


def list_unsettled(store: ExecutionStore, now_ms: int) -> list[Execution]:
    """Closed executions that need a poll: their end is not in the journal yet, or their recheck is due.

    An execution that another writer cancelled after its end has no poll state, so it is searched among the
    newest.
    """
    cancelled = [
        each for each in store.find(status=Status.CANCELLED, limit=CANCELLED_PER_RUN) if is_unreported(each)
    ]
    return list({list_position(each): each for each in (*store.unsettled(now_ms), *cancelled)}.values())


def next_tick_at(tick: Tick, now_ms: int, *, shortest_ms: int = round(SHORTEST_SECONDS * 1000)) -> int | None:
    """When to run the next pass, in epoch ms; None: nothing is open, so nothing becomes due.

    An execution that was just dispatched is due after the shortest interval at the earliest.
    """
    if not tick.survey.open:
        return None
    soon = [now_ms + round(MAX_SLEEP_SECONDS * 1000)]
    if tick.survey.next_at is not None:
        soon.append(max(now_ms, tick.survey.next_at))
    if tick.survey.due:
        soon.append(now_ms + shortest_ms)
    return min(soon)

"""Finder and poller in one process: polls many executions in batches."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from longwatch.clock import SYSTEM_CLOCK, Clock
from longwatch.errors import LongwatchError
from longwatch.executions.due import next_poll_at
from longwatch.executions.finder import Survey, list_unsettled, survey
from longwatch.executions.model import Execution, ExecutionKey
from longwatch.executions.poller import Claim, Poller, PollReport, Result
from longwatch.executions.stores.base import ExecutionStore

MOST_AT_ONCE = 200  # leases must not expire before the last of a batch is settled
MAX_SLEEP_SECONDS = 5.0  # a new execution is found no later than this
MAX_SLEEP_MS = round(MAX_SLEEP_SECONDS * 1000)
UNSETTLED_SECONDS = 60.0
SLICE_SECONDS = 0.5  # how soon `stop` takes effect
INSTANT_SECONDS = 0.0005  # too short to sleep: times are whole milliseconds

log = logging.getLogger(__name__)

_STAYS_OPEN = (Result.POLLED, Result.NO_RESPONSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One pass over everything that is open."""

    survey: Survey
    polled: tuple[PollReport, ...] = ()
    failed: int = 0  # the store or the journal failed; the next round retries


class Watcher:
    """Watches all open executions of a store until it is stopped."""

    def __init__(
        self,
        store: ExecutionStore,
        poller: Poller,
        *,
        clock: Clock = SYSTEM_CLOCK,
        on_tick: Callable[[Collection[Execution]], None] | None = None,
        skipped: Collection[str] = (),
    ) -> None:
        self._store = store
        self._poller = poller
        self._clock = clock
        self._skipped = frozenset(skipped)  # sources that cannot be polled from this machine
        self._on_tick = on_tick  # called about twice a second between polls, with what was open at the last
        self._open: dict[ExecutionKey, Execution] = {}  # as of the last round
        self._unsettled_read_at: float | None = None  # monotonic seconds

    def run(self, *, stop: threading.Event | None = None, until_idle: bool = False) -> None:
        """Run until `stop` is set, or with `until_idle` until nothing is open."""
        stop = stop or threading.Event()
        while not stop.is_set():
            seconds = MAX_SLEEP_SECONDS
            try:
                round_ = self.poll_due()
            except LongwatchError as error:  # the store is unavailable: wait and retry
                log.warning("executions cannot be read: %s", error)
            else:
                if until_idle and not round_.survey.open:
                    return
                seconds = self._sleep_seconds(round_)
            until = self._clock.monotonic() + seconds
            while not stop.is_set() and (left := until - self._clock.monotonic()) > INSTANT_SECONDS:
                if self._on_tick is not None:
                    self._on_tick(self._open.values())
                self._clock.sleep(min(left, SLICE_SECONDS))

    def poll_due(self) -> Round:
        """Poll what is due, with one call to each source; the longest due come first."""
        found = [each for each in self._store.open_executions() if each.source not in self._skipped]
        found_open = survey(found, self._clock.now_ms())
        due = (*found_open.due, *self._ended_meanwhile(found))
        polled: list[PollReport] = []
        for begin in range(0, len(due), MOST_AT_ONCE):
            polled += self._poll(due[begin : begin + MOST_AT_ONCE])
        for each in polled:
            if each.execution.closed:
                self._open.pop(each.execution.key, None)
        return Round(survey=found_open, polled=tuple(polled), failed=len(due) - len(polled))

    def _poll(self, due: Sequence[Execution]) -> Iterator[PollReport]:
        """Claim them, poll their sources together, and settle each. A failure does not stop the others."""
        claims: list[Claim] = []
        for execution in due:
            try:
                claim = self._poller.claim(execution.execution_id, execution.plan_id)
            except LongwatchError as error:
                log.warning("execution %s could not be claimed: %s", execution.key, error)
                continue
            if isinstance(claim, Claim):
                claims.append(claim)
            else:
                yield claim
        results = self._poller.poll_sources(claims) if claims else {}
        for claim in claims:
            try:
                yield self._poller.settle(claim, results[claim.execution.key])
            except LongwatchError as error:  # its lease expires, and a later round polls it
                log.warning("execution %s could not be settled: %s", claim.execution.key, error)

    def _ended_meanwhile(self, found: list[Execution]) -> list[Execution]:
        """Executions that were open in the last round: another poller or writer has ended them."""
        now = {each.key: each for each in found}
        gone = [key for key in self._open if key not in now]
        missing = [self._store.get(key.execution_id, key.plan_id) for key in gone]
        self._open = now
        ended = {
            key: each for key, each in zip(gone, missing, strict=True) if each is not None and each.closed
        }
        for each in self._unsettled():
            ended.setdefault(each.key, each)
        return list(ended.values())

    def _unsettled(self) -> list[Execution]:
        """Closed executions that need a poll, read at the start and then once a minute."""
        now = self._clock.monotonic()
        if self._unsettled_read_at is not None and now - self._unsettled_read_at < UNSETTLED_SECONDS:
            return []
        found = list_unsettled(self._store, self._clock.now_ms())
        self._unsettled_read_at = now
        return found

    def _sleep_seconds(self, round_: Round) -> float:
        soon = [
            next_poll_at(each.execution)
            for each in round_.polled
            if each.result in _STAYS_OPEN and not each.execution.closed
        ]
        if round_.survey.next_at is not None:
            soon.append(round_.survey.next_at)
        wait = min(soon, default=self._clock.now_ms() + MAX_SLEEP_MS) - self._clock.now_ms()
        return min(MAX_SLEEP_SECONDS, max(0.0, wait / 1000))
